"""`solscope corpus watch`: in the terminal, and as the Markdown of an alert."""

from __future__ import annotations

from collections.abc import Iterator

from solscope.corpus.watch.limits import Limit
from solscope.corpus.watch.watching import Watch, Watched
from solscope.report.forms import Screen, form
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.quantities import counted
from solscope.report.layout.tables import Column, heading, numbers, table
from solscope.text import clean

_WORDS = {"ok": "ok", "broken": "broken", "cannot_tell": "cannot tell"}
_STYLES = {"ok": "green", "broken": "bold red", "cannot tell": "yellow"}
_COLUMNS = (
    Column("state", text=True, style=lambda word: _STYLES.get(word, "")),
    Column("rule", text=True),
    Column("profiles", text=True, gives=True),
    *numbers("latest", ("median before", 3), ("n", 4), ("change", 1), ("z", 5)),
    Column("limit", text=True, spare=2),
)


@form("corpus_watch", Watch)
def watch_parts(result: Watch, screen: Screen) -> list[Printable]:
    """The verdict, a row per rule and group, and what to do about broken limits."""
    parts: list[Printable] = [
        heading(_verdict(result)),
        table(_COLUMNS, [_row(row) for row in result.rows], screen.width),
    ]
    for row in result.rows:
        parts += [Text(clean(line), indent=indent) for line, indent in _notes(row)]
    if result.undated:
        parts += [Text(""), Text(f"{counted(result.undated, 'profile')} without a date left out")]
    return parts


def _verdict(result: Watch) -> str:
    if result.broken:
        what = counted(result.broken, "limit is broken", "limits are broken")
    elif result.cannot_tell:
        what = "no limit is broken, as far as can be told"
    else:
        what = "all limits hold"
    rows = counted(len(result.rows), "series", "series")
    unsure = f", {result.cannot_tell:,} cannot be told" if result.cannot_tell else ""
    return f"{what} ({counted(result.rules, 'rule')}, {rows}{unsure})"


def _row(row: Watched) -> list[str]:
    earlier = row.earlier
    return [
        _WORDS[row.state],
        row.rule,
        _group(row),
        "-" if row.value is None else _figure(row.value, row.unit),
        "-" if earlier is None else _figure(earlier.median, row.unit),
        "0" if earlier is None else f"{earlier.profiles:,}",
        "-" if row.change_pct is None else f"{row.change_pct:+.1f} %",
        "-" if row.z is None else f"{row.z:+.1f}",
        ", ".join(_limit(limit, row.unit) for limit in row.limits) or "-",
    ]


def _group(row: Watched) -> str:
    """What profiles agree in, and the phase where the rule does not name it."""
    phase = [row.phase] if row.phase and row.phase not in row.rule else []
    return ", ".join([*row.group.values(), *phase]) or "all"


def _figure(value: float, unit: str) -> str:
    return f"{value:,.4g} {unit}" if abs(value) < 1000 else f"{value:,.0f} {unit}"


def _limit(limit: Limit, unit: str) -> str:
    allowed = {
        "max": f"≤ {_figure(limit.allowed, unit)}",
        "min": f"≥ {_figure(limit.allowed, unit)}",
        "max_increase_pct": f"≤ +{limit.allowed:g} %",
        "max_decrease_pct": f"≥ -{limit.allowed:g} %",
        "max_z": f"z ≤ {limit.allowed:g}",
        "min_z": f"z ≥ {limit.allowed:g}",
    }
    return allowed[limit.name]


def _notes(row: Watched) -> Iterator[tuple[str, int]]:
    """Lines with their indent: what is broken, since which profile, and why."""
    if row.state == "ok":
        return
    yield "", 0
    if row.state == "cannot_tell":
        yield f"cannot tell: {row.rule}, {_group(row)}: {row.reason}", 0
        return
    broken = ", ".join(_limit(limit, row.unit) for limit in row.limits if limit.broken)
    value = "" if row.value is None else _figure(row.value, row.unit)
    yield f"broken: {row.rule}, {_group(row)}: {value}, limit {broken}", 0
    yield f"profile: {row.latest.file} ({row.latest.recorded})", 2
    if row.reason:
        yield f"not tested: {row.reason}", 2
    if row.diagnosis is not None:
        yield f"diagnosis: {row.diagnosis.sentence}", 2
    if row.diagnose is not None:
        yield f"why: {row.diagnose}", 2
