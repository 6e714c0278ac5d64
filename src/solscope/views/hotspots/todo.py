"""What to do about a profile: the first rows of the work list, those with one remedy together."""

from __future__ import annotations

import re
import shlex

import msgspec

from solscope.text import shorten
from solscope.views.hotspots.advice import remedy_of
from solscope.views.hotspots.base import Hotspot, HotspotTable
from solscope.views.typical_step import COPIES
from solscope.views.verdict_words import idle_name, in_step, of_step_text

MOST = 3
"""Things to do."""
WORTH_PCT = 1.0
"""Share of a step that a thing to do saves at least."""
COSTED_PCT = 50.0
"""Below this share of the GPU time with a known cost, the work list says little about operators."""
NAME_WIDTH = 60
"""Characters of the name of a row."""
OF_ONE_PROFILE = re.compile(r"`solscope (host|memory)`")


class ToDo(msgspec.Struct, frozen=True):
    """One thing to do, and what it would save at most."""

    advice: str
    """In one sentence; what stands between backticks can be run as it is."""
    rows: list[int]
    """Ranks of the rows of the work list that this is about, that with most first."""
    recoverable_us: float
    """Of a step, all rows together: their savings add up."""
    recoverable_pct_of_step: float
    saves: str
    """The same in words: how much of the step, and which rows that is the sum of."""


def to_do(table: HotspotTable) -> list[ToDo]:
    """What saves most of a step, at most `MOST` things."""
    groups: dict[str, list[int]] = {}
    for index, row in enumerate(table.hotspots):
        # Rows that one kernel would shorten each are not alike because the advice is.
        key = row.advice if row.kind in ("operator", "fusion") else remedy_of(row.advice)
        alone = f" {row.rank}" if row.kind in ("operator", "fusion") else ""
        groups.setdefault(key + alone, []).append(index)
    found = [_joined(table, indices) for indices in groups.values()]
    worth = [one for one in found if one.recoverable_pct_of_step >= WORTH_PCT]
    return sorted(worth, key=lambda one: -one.recoverable_us)[:MOST]


def _joined(table: HotspotTable, indices: list[int]) -> ToDo:
    rows = [table.hotspots[index] for index in indices]
    # A row that nobody would act on alone is not named beside one that counts.
    named = [row for row in rows if row.recoverable_pct_of_step >= WORTH_PCT] or rows[:1]
    path = shlex.quote(table.profile)
    return ToDo(
        advice=OF_ONE_PROFILE.sub(lambda found: f"`solscope {found[1]} {path}`", named[0].advice),
        rows=[row.rank for row in named],
        recoverable_us=sum(row.recoverable_us for row in named),
        recoverable_pct_of_step=sum(row.recoverable_pct_of_step for row in named),
        saves=_saves(table, named),
    )


def _saves(table: HotspotTable, rows: list[Hotspot]) -> str:
    whole = of_step_text(sum(row.recoverable_us for row in rows), table.step_ms)
    saved = f"Saves at most {whole} of {_whole(table)}"
    if len(rows) == 1:
        return f"{saved} ({_name(rows[0])})"
    parts = (f"{in_step(row.recoverable_us, table.step_ms)} {_name(row)}" for row in rows)
    return f"{saved}: {' + '.join(parts)}"


def _whole(table: HotspotTable) -> str:
    return "the step" if table.basis.steps else "the recording"


def _name(row: Hotspot) -> str:
    """A row in the words of the verdict."""
    if row.kind == "idle":
        return idle_name(row.operator)
    if row.kind == "copy":
        return COPIES.get(row.operator.removeprefix("memcpy "), "memory copies")
    kind = {"operator": "", "comm": "communication: "}.get(row.kind, f"{row.kind}: ")
    role = f", {row.role}" if row.role and row.role != row.operator else ""
    return f"{shorten(kind + row.operator, NAME_WIDTH)}{role}"


class Unranked(msgspec.Struct, frozen=True):
    """GPU time that the work list cannot rank, since its FLOP and bytes are not known."""

    cost_pct: float
    """Share of the GPU time whose FLOP and bytes are known."""
    pct_of_step: float
    """GPU time without them."""
    place: int
    """How many things to do are about more of a step than this."""
    why: str
    """The same in words."""


def unranked(table: HotspotTable, doing: list[ToDo], gpu_ms: float | None) -> Unranked | None:
    """What a model's config would rank; null where most is ranked already.

    `gpu_ms` is the time of a step in which a GPU is busy.
    """
    known = table.coverage.cost_pct
    if known is None or known >= COSTED_PCT or gpu_ms is None or not table.step_ms:
        return None
    lost = (100 - known) * gpu_ms / table.step_ms
    return Unranked(
        cost_pct=known,
        pct_of_step=lost,
        place=sum(one.recoverable_pct_of_step >= lost for one in doing),
        why=f"Without it {of_step_text(10 * lost * table.step_ms, table.step_ms)} of "
        f"{_whole(table)} are not ranked: FLOP and bytes are known for only {known:.1f} % of its "
        "GPU time",
    )
