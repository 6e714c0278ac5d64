"""The score of the fault lab, for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from solscope.lab.answers import OURS
from solscope.lab.pack import Packed
from solscope.lab.pairs import NORMAL_PAIR
from solscope.lab.record import Summary as LabRecording
from solscope.lab.score import SLOW, ControlScore, GroupScore, LabScore, Rate
from solscope.report.forms import Screen, form
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.quantities import number
from solscope.report.layout.tables import Column, table
from solscope.report.layout.tables import heading as heading_line

GROUPS = {
    "moved": "all that moved",
    "slow": "step >= 1.3x slower, beyond the noise",
    "slow_timed": "step >= 1.3x slower without the profiler, beyond the noise",
    "slow_any": "step >= 1.3x slower",
}
_WRONG = 2
"""Pairs with the right cause at this place or below are listed."""
_RANKER = ("ranker", "top-1", "top-3", "MRR", "family", "words")
_CONTROL = ("ranker", "false alarms", "changes", "latent right", "latent named")
_DETAIL = ("half", "group", "n", "top-1", "top-3")
_CONFUSION = ("half", "expected", "named first", "n")
_PAIR = ("pair", "step", "rank", "S", "Z", "log", "verdict", "named")
_TEXT = {"ranker", "half", "group", "expected", "named first", "pair", "verdict", "named"}


@form("lab_score", LabScore, markdown=lambda result, **_: markdown_score(result))
def score_parts(result: LabScore, screen: Screen, *, every: bool = False) -> list[Printable]:
    """As text; `every` lists all pairs, not only those that went wrong."""
    parts: list[Printable] = [Text(_head(result)), *(Text(line) for line in _answers(result))]

    def add(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        if rows:
            columns = [Column(heading, text=heading in _TEXT) for heading in headings]
            parts.extend([Text(""), heading_line(title), table(columns, rows, screen.width)])

    for (half, group), rows in _by_group(result).items():
        add(f"{half}: {GROUPS[group]} (n = {rows[0].pairs})", _RANKER, [_ranked(r) for r in rows])
    for half in result.answering:
        mine = [row for row in result.controls if row.half == half]
        n = f"{mine[0].false_alarms.n} without a fault, {mine[0].latent_right.n} latent"
        add(f"{half}: {n}", _CONTROL, [_control(row) for row in mine])
    add("by mode, strength and fault", _DETAIL, _detail_rows(result))
    wrong = [c for c in result.confusion if c.expected != c.named]
    named = [[c.half, c.expected, c.named, str(c.pairs)] for c in wrong]
    add("named instead of the expected cause", _CONFUSION, named)
    add("pairs" if every else "pairs that went wrong", _PAIR, _pair_rows(result, every))
    parts += [Text(""), *(Text(line) for line in _notes(result))]
    return parts


def markdown_score(result: LabScore) -> str:
    """As Markdown, for the documentation."""
    groups = [
        [row.half, GROUPS[row.group], str(row.pairs), *_ranked(row)]
        for row in result.groups
        if row.group in GROUPS
    ]
    confusion = [[c.half, c.expected, c.named, str(c.pairs)] for c in result.confusion]
    blocks = [
        _head(result),
        _markdown(("half", "pairs", "n", *_RANKER), groups),
        _markdown(("half", *_CONTROL), [[row.half, *_control(row)] for row in result.controls]),
        _markdown(_DETAIL, _detail_rows(result)),
        _markdown(_CONFUSION, confusion),
        _markdown(_PAIR, _pair_rows(result, True)),
        "\n".join(f"- {line}" for line in _notes(result)),
    ]
    return "\n\n".join(blocks) + "\n"


def _by_group(result: LabScore) -> dict[tuple[str, str], list[GroupScore]]:
    groups: dict[tuple[str, str], list[GroupScore]] = {}
    for row in result.groups:
        if row.group in GROUPS and row.pairs:
            groups.setdefault((row.half, row.group), []).append(row)
    return groups


def _head(result: LabScore) -> str:
    counts = {
        state: sum(pair.state == state for pair in result.pairs)
        for state in ("moved", "latent", "control")
    }
    named = (("gpu", ""), ("torch", "torch "), ("date", ""))
    machine = ", ".join(
        f"{word}{result.machine[key]}" for key, word in named if key in result.machine
    )
    where = f" ({machine})" if machine else ""
    return (
        f"{len(result.pairs)} pairs{where}: {counts['moved']} moved, {counts['latent']} latent, "
        f"{counts['control']} without a fault"
    )


def _answers(result: LabScore) -> Iterator[str]:
    """How often our diagnosis is right, a sentence per half; then where pairs come from."""
    for half in result.answering:
        faults = [r for r in result.groups if (r.ranker, r.half, r.group) == (OURS, half, "slow")]
        calm = [r for r in result.controls if (r.ranker, r.half) == (OURS, half)]
        said = [
            f"the right cause comes first in {_of(row.top1)} pairs with a fault whose steps take "
            f"at least {SLOW:g} times as long, beyond the noise"
            for row in faults
            if row.pairs
        ]
        said += [f"false alarms in {_of(row.false_alarms)} pairs without a fault" for row in calm]
        yield f"{half}: {'; '.join(said)}"
    joined = sum(NORMAL_PAIR in pair.id for pair in result.pairs)
    if joined:
        yield (
            f"{joined} of the pairs without a fault {'is' if joined == 1 else 'are'} made of the "
            "normal recordings of others"
        )


def _of(rate: Rate) -> str:
    return f"{rate.hits} of {rate.n}"


def _rate(rate: Rate) -> str:
    if rate.rate is None:
        return "-"
    return f"{rate.rate:.2f} [{rate.low:.2f}, {rate.high:.2f}]"


def _short(rate: Rate) -> str:
    return "-" if rate.rate is None else f"{rate.hits}/{rate.n}"


def _ranked(row: GroupScore) -> list[str]:
    words = f"{row.nameable}/{row.pairs}"
    family = number(row.family.rate)
    return [row.ranker, _rate(row.top1), _rate(row.top3), number(row.mrr), family, words]


def _control(row: ControlScore) -> list[str]:
    latent = (row.latent_right, row.latent_named)
    return [row.ranker, _rate(row.false_alarms), _short(row.false_changes), *map(_short, latent)]


def _detail_rows(result: LabScore) -> list[list[str]]:
    def order(row: GroupScore) -> tuple[str, int, str]:
        kind = row.group.partition(":")[0]
        return row.half, ("mode", "strength", "fault").index(kind), row.group

    rows = [row for row in result.groups if row.ranker == OURS and ":" in row.group]
    return [
        [row.half, row.group.replace(":", " "), str(row.pairs), _short(row.top1), _short(row.top3)]
        for row in sorted(rows, key=order)
    ]


def _pair_rows(result: LabScore, every: bool) -> list[list[str]]:
    rows = []
    for pair in result.pairs:
        rank = pair.ranks[OURS]
        alarm = pair.state == "control" and pair.verdict not in ("no_change", None)
        # Every pair that counts in a table above is listed, also a slow one within the noise.
        counted = pair.state == "moved" or (pair.state == "latent" and pair.ratio >= SLOW)
        wrong = counted and (rank is None or rank >= _WRONG)
        if every or wrong or alarm:
            others = [_place(place) for name, place in pair.ranks.items() if name != OURS]
            step, named = f"x{pair.ratio:.2f}", ", ".join(pair.named) or "-"
            rows.append([pair.id, step, _place(rank), *others, pair.verdict or "-", named])
    return rows


def _place(rank: int | None) -> str:
    return "-" if rank is None else str(rank)


def _notes(result: LabScore) -> list[str]:
    noise = ", ".join(f"{mode} {pct:.1f} %" for mode, pct in sorted(result.noise_pct.items()))
    lines = [
        f"moved: beyond what pairs without a fault differ by ({noise}, at least 3 %)",
        "rank: place of the right cause; S, Z, log: the same for suspicion score, max |Z log mu| "
        "and median |log ratio|",
        "words: pairs whose cause the ranker has a word for; intervals: Wilson, 95 %",
        "halves are never mixed: thresholds were chosen with tune only",
    ]
    for half, rate in result.answering.items():
        brier = result.brier[half]
        brier_text = "" if brier is None else f"; Brier score of its confidence {brier:.3f}"
        lines.append(f"{half}: right where a cause is named at all: {_rate(rate)}{brier_text}")
        lines.append(
            f"{half}: with the right cause left out of the table, no confident wrong one: "
            f"{_rate(result.left_out[half])}"
        )
    if result.closure_pct is not None:
        lines.append(f"parts of a difference add up to it within {result.closure_pct:.2g} %")
    return lines


def _markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    ruler = "|" + "|".join("---" for _ in headings) + "|"
    return "\n".join([line(headings), ruler, *map(line, rows)])


@form("lab_pack", Packed)
def _packed(packed: Packed, _: Screen) -> str:
    return (
        f"{packed.folder}: {packed.pairs} pairs, {packed.recordings} recordings, "
        f"{packed.bytes / 1e6:.2f} MB"
    )


@form("lab_record", LabRecording)
def _recorded(summary: LabRecording, _: Screen, *, folder: Path) -> str:
    lines = [f"{summary.pairs} pairs in {folder}, {summary.seconds} s"]
    for name, reason in (*summary.unavailable.items(), *summary.failed.items()):
        lines.append(f"  not recorded: {name}: {reason}")
    return "\n".join(lines)
