"""`solscope diagnose`: in the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from solscope.diagnose.changes.counters import CounterChange
from solscope.diagnose.changes.decompose import Component
from solscope.diagnose.changes.trends import Pair, Trends
from solscope.diagnose.compared import RunSummary
from solscope.diagnose.diagnosis import Diagnosis
from solscope.diagnose.verdict.ranking import NamedCause
from solscope.report.forms import Screen, form
from solscope.report.layout.blocks import Block, block_markdown, block_text
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.markdown import Ready, markdown_cell
from solscope.report.layout.quantities import counted, number
from solscope.report.layout.sparkline import sparkline, top_of
from solscope.report.layout.tables import Column, heading, numbers
from solscope.text import as_percent, clean, percent

if TYPE_CHECKING:
    from solscope.diagnose.single import SingleDiagnosis

TitledLines = tuple[str, list[str]]
"""A title, and the lines below it."""
BAR = 24
"""Columns of the bars; half of it in a terminal narrower than `ROOMY`."""
ROOMY = 120
"""Width of a terminal, in columns, that has room for everything."""
MORE, LESS = "█", "░"
LINE = 10
"""Columns of the line of a sensor in one run."""
STEP_LINE = 50
"""Columns of the line of step times of one run."""
MISSING = "not known, and would tell causes apart"
NOT_JUDGED = "not judged, for lack of data"
MOST_EXCLUDED = 4
"""Causes of each kind that are not named; JSON has all."""
MOST_MISSING = 5
"""Lines of it; JSON has all."""
BOTH = "normal    │abnormal"
_STYLES = {
    "regression": "bold red",
    "improvement": "bold green",
    "no_change": "bold green",
    "workload_changed": "bold yellow",
    "cannot_compare": "bold yellow",
}
_OUTCOME = (
    Column("ms per step", text=True),
    *numbers("normal", "abnormal", "ratio"),
    Column("95 % interval", text=True),
)
_WATERFALL = (
    Column("ms"),
    Column("bar", text=True, spare=2, style=lambda bar: "red" if MORE in bar else "green"),
    *numbers("share", ("by calls", 3), ("by time per call", 3), ("q", 4)),
    Column("state", text=True, spare=1),
    Column("phase", text=True, spare=5),
    Column("component", text=True, code=True),
)
_STEPS = (
    Column("run", text=True),
    Column("steps"),
    Column("in order", text=True, style="cyan"),
)
_COUNTERS = (
    *numbers("normal", "abnormal"),
    Column("unit", text=True, spare=1),
    Column("n", spare=3),
    Column("q", spare=3),
    Column("state", text=True, spare=4),
    Column(BOTH, text=True, spare=2, style="cyan"),
    Column("counter", text=True, code=True),
)


@form("diagnose", Diagnosis, markdown=lambda result, top, **_: markdown_diagnosis(result, top=top))
def diagnosis_parts(
    result: Diagnosis, screen: Screen, *, top: int, drawn: Trends | None = None
) -> list[Printable]:
    """Text for the terminal: the verdict first, then what it rests on.

    `drawn` is how both runs went; null where nothing can be drawn.
    """
    parts: list[Printable] = [
        Text(clean(_title(result))),
        *(Text(clean(line)) for line in rank_lines(result)),
        Text(clean(result.sentence), style=_STYLES[result.verdict]),
        Text(""),
        heading("comparability"),
        *(list_line(f"  {line}") for line in _comparability(result)),
    ]
    bar = BAR if screen.width >= ROOMY else BAR // 2
    for block in _blocks(result, top, 0 if drawn is None else bar, drawn):
        parts += block_text(block, screen.width)
    return [*parts, *closing_parts(_lists(result), result.warnings)]


def closing_parts(lists: Iterable[TitledLines], warnings: Sequence[str]) -> Iterator[Printable]:
    """Lists with their titles, then the warnings."""
    for title, lines in lists:
        yield from (Text(""), heading(title), *(list_line(text) for text in lines))
    if warnings:
        yield Text("")
    for text in warnings:
        yield Text.assemble(("warning ", "bold yellow"), clean(text))


def list_line(text: str) -> Printable:
    """A line of a list, bold unless it is an item; wrapped text is indented."""
    bare = text.lstrip(" ")
    style = "" if text.startswith(" ") else "bold"
    return Text(clean(bare), style, indent=len(text) - len(bare))


def _title(result: Diagnosis) -> str:
    """What is compared: two profiles, or two runs by the profiles of one rank."""
    if result.ranks is None or not result.ranks.runs:
        return f"{result.abnormal.path} against {result.normal.path}"
    normal, abnormal = result.ranks.runs
    which = "" if result.ranks.compared is None else f"; profiles of rank {result.ranks.compared}"
    return f"{abnormal} against {normal}{which}"


_REASONS = {
    "gpu": ("its GPU", "the GPUs"),
    "host": ("its host", "the hosts"),
    "load": ("its load", "the load"),
    "link": ("its link", "the link"),
}
"""Why a run is slower: of one rank, and of none in particular."""


def rank_lines(result: Diagnosis) -> list[str]:
    """Which rank of a run made it slower; nothing for single profiles."""
    ranks = result.ranks
    if ranks is None:
        return []
    longer = "" if ranks.step_ratio is None else f"The run's step takes {ranks.step_ratio:.2f}x. "
    if ranks.culprit is None:
        known = _REASONS.get(ranks.why)
        likely = "" if known is None else f" The likely reason is {known[1]}."
        first = f"{longer}No single rank explains that.{likely}"
    else:
        why = _REASONS.get(ranks.why, ("a reason that is not known",))[0]
        first = (
            f"{longer}Rank {ranks.culprit} makes the others wait, because of {why} "
            f"({as_percent(ranks.confidence)} confident)."
        )
    return [first, *(f"  {line}" for line in ranks.evidence), ""]


def markdown_diagnosis(result: Diagnosis, *, top: int) -> str:
    """The same as Markdown."""
    head = [
        f"# {markdown_cell(_title(result))}",
        "",
        *(markdown_cell(line) for line in rank_lines(result)),
    ]
    blocks = _blocks(result, top, BAR, None)
    return markdown_page(head, result, _comparability(result), blocks, _lists(result))


def markdown_page(
    head: Sequence[str],
    result: Diagnosis | SingleDiagnosis,
    facts: Iterable[str],
    blocks: Iterable[Block],
    lists: Iterable[TitledLines],
) -> str:
    """A diagnosis as Markdown: its sentence, facts, tables, lists and warnings, under a head."""
    lines = [*head, f"**{markdown_cell(result.sentence)}**", ""]
    lines += [f"- {markdown_cell(fact)}" for fact in facts]
    for block in blocks:
        lines += block_markdown(block)
    for title, items in lists:
        lines += ["", f"**{markdown_cell(title)}**", "", *map(list_item, items)]
    lines += ["", *(f"- warning {markdown_cell(text)}" for text in result.warnings)]
    return "\n".join(lines).rstrip() + "\n"


def list_item(line: str) -> str:
    """A line of a list as Markdown."""
    text = markdown_cell(line.strip())
    return f"  - {text}" if line.startswith("    ") else f"- {text}"


# --- What is shown


def _comparability(result: Diagnosis) -> Iterator[str]:
    how = result.comparability
    yield f"{'not comparable' if how.level == 'refuse' else how.level}: {result.unit}"
    yield from how.reasons
    for label, side in (("normal", result.normal), ("abnormal", result.abnormal)):
        yield f"{label}: {steps_line(side)}"
    shown = ", ".join(f"{p} {n:.0f} % and {a:.0f} %" for p, (n, a) in how.phases.items())
    if shown:
        yield f"phases of all fit steps: {shown}"
    band = result.baseline
    if band is not None:
        z = "" if band.z is None else f", z = {band.z:+.1f}"
        yield (
            f"baseline: {band.runs} recordings take {band.mean_ms:.2f} ms, a further one "
            f"{band.low_ms:.2f} to {band.high_ms:.2f} (99 %; {band.outside} of them lie outside "
            f"the band of the others); this run {band.run_ms:.2f} ms{z}"
        )
    if how.noise_floor_pct is not None:
        yield (
            f"noise inside the normal run ±{how.noise_floor_pct:.1f} % (its halves against each "
            f"other); between starts of one program up to ±{how.run_noise_pct or 0:.0f} %"
            f"{'' if band is None else ' (learned)'}"
        )


def steps_line(side: RunSummary, what: str = "compared") -> str:
    """How many steps of a run were compared, and why others were not."""
    reasons = dict(side.dropped)
    if rest := side.steps_in_recording - side.steps - sum(reasons.values()):
        reasons["with too few like them in both runs"] = rest
    dropped = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    text = f"{side.steps} of {counted(side.steps_in_recording, 'step')} {what}"
    text += f" (left out: {dropped})" if dropped else ""
    text += f"; {counted(side.samples, 'sensor sample')} within"
    return text + f"; profiler's own time {side.overhead_ms:.2f} ms per step"


def _blocks(result: Diagnosis, top: int, bar: int, drawn: Trends | None) -> Iterator[Block]:
    if result.ratio is None:
        return
    yield Block("outcome", _OUTCOME, list(_outcome(result)))
    if drawn is not None:
        longest = top_of(*drawn.steps_ms)
        title = f"compared steps in order, from 0 to {longest:,.2f} ms"
        yield Block(title, _STEPS, list(_step_lines(drawn, longest)))
    over = any(abs(c.share_of_delta_pct or 0.0) > 100 for c in result.components[:top])
    offset = "; parts above 100 % are offset by others" if over else ""
    title = f"from normal to abnormal, ms per average step (adds up exactly{offset})"
    rows = list(_waterfall(result, top, bar))
    yield _without(Block(title, _WATERFALL, rows), None if bar else "bar")
    changed = [c for c in result.counters if c.state == "changed"]
    for kind, title in (
        ("driver", "counters that can drive a change"),
        ("consequence", "counters that only follow"),
    ):
        rows = [_counter(c, drawn) for c in _by_change(changed) if c.part == kind]
        if rows:
            yield _without(Block(title, _COUNTERS, rows[:top]), None if drawn else BOTH)


def _without(block: Block, heading: str | None) -> Block:
    """The block without the column of that heading."""
    keep = [index for index, column in enumerate(block.columns) if column.heading != heading]
    rows = [[row[index] for index in keep] for row in block.rows]
    return Block(block.title, [block.columns[index] for index in keep], rows)


def _step_lines(drawn: Trends, longest: float) -> Iterator[list[str]]:
    for name, times in zip(("normal", "abnormal"), drawn.steps_ms, strict=True):
        yield [name, f"{len(times):,}", sparkline(times, STEP_LINE, top=longest)]


def _outcome(result: Diagnosis) -> Iterator[list[str]]:
    sides = (result.normal, result.abnormal)
    bounds = result.ratio_ci95
    interval = "not tested" if bounds is None else f"[{bounds[0]:.3f}, {bounds[1]:.3f}]"
    means = [side.mean_ms for side in sides]
    yield ["mean", *(number(m, 3) for m in means), number(_ratio(means), 3), ""]
    for name in ("p50_ms", "p99_ms"):
        values = [getattr(side, name) for side in sides]
        yield [name[:3], *(number(v, 3) for v in values), number(_ratio(values), 3), ""]
    yield ["like for like", "", "", number(result.ratio, 3), interval]
    yield ["typical step", "", "", number(result.typical_ratio, 3), ""]


def _ratio(values: Sequence[float | None]) -> float | None:
    before, after = values
    return after / before if before and after is not None else None


def _waterfall(result: Diagnosis, top: int, bar: int) -> Iterator[list[str]]:
    shown = [c for c in result.components if abs(c.delta_ms) >= 5e-4][:top]
    rest = [c for c in result.components if c not in shown]
    largest = max((abs(c.delta_ms) for c in result.components), default=0.0)
    blank = [""] * 7
    yield [number(result.normal.mean_ms, 3), *blank, Ready("normal")]
    for component in shown:
        yield _row(component, largest, bar)
    if rest:
        delta, calls, times = (
            sum(getattr(c, name) for c in rest)
            for name in ("delta_ms", "count_effect_ms", "duration_effect_ms")
        )
        shares = [c.share_of_delta_pct for c in rest]
        share = None if None in shares else sum(s for s in shares if s is not None)
        yield [
            signed(delta),
            _bar(delta, largest, bar),
            share_of(share),
            signed(calls),
            signed(times),
            "",
            "",
            "",
            Ready(f"({counted(len(rest), 'other')})"),
        ]
    yield [number(result.abnormal.mean_ms, 3), *blank, Ready("abnormal")]


def _row(component: Component, largest: float, bar: int) -> list[str]:
    return [
        signed(component.delta_ms),
        _bar(component.delta_ms, largest, bar),
        share_of(component.share_of_delta_pct),
        signed(component.count_effect_ms),
        signed(component.duration_effect_ms),
        _q(component.q, component.test.n),
        component.state.replace("_", " "),
        component.phase or "-",
        component.component,
    ]


def _bar(value: float, largest: float, cells: int) -> str:
    size = round(cells * abs(value) / largest) if largest else 0
    return (MORE if value > 0 else LESS) * size


def signed(value: float) -> str:
    """With its sign, unless it rounds to 0."""
    return f"{round(value, 3) + 0.0:+.3f}"


def share_of(share: float | None) -> str:
    """A part of the difference, in percent."""
    return "-" if share is None else percent(round(share, 1) + 0.0)


def _q(value: float | None, n: Sequence[int]) -> str:
    if value is None:
        return f"n = {n[0]}/{n[1]}"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _by_change(counters: Sequence[CounterChange]) -> list[CounterChange]:
    def change(counter: CounterChange) -> float:
        before, after = counter.normal or 0.0, counter.abnormal or 0.0
        return abs(after - before) / max(abs(before), abs(after), 1e-12)

    return sorted(counters, key=lambda counter: -change(counter))


def _counter(counter: CounterChange, drawn: Trends | None) -> list[str]:
    where = "" if counter.device is None else f" (GPU {counter.device})"
    return [
        number(counter.normal, 1),
        number(counter.abnormal, 1),
        counter.unit,
        "/".join(map(str, counter.test.n)),
        _q(counter.q, counter.test.n),
        counter.state,
        "" if drawn is None else _both(drawn.counters[counter.name, counter.device]),
        counter.name + where,
    ]


def _both(values: Pair) -> str:
    """A sensor in both runs, on one scale."""
    top = top_of(*values)
    return "│".join(sparkline(side, LINE, top=top).ljust(LINE) for side in values)


def _lists(result: Diagnosis) -> Iterator[TitledLines]:
    if result.latent:
        yield (
            "latent: changed, but no time lost to it",
            [f"  {item.text}" for item in result.latent],
        )
    slow = list(_slow_steps(result))
    if slow:
        yield "slow steps", slow
    lines = [line for cause in result.causes for line in cause_lines(cause)]
    yield "causes", lines
    if result.missing_evidence and result.verdict == "regression":
        missing = [f"  {text}" for text in result.missing_evidence[:MOST_MISSING]]
        more = len(result.missing_evidence) - MOST_MISSING
        yield MISSING, [*missing, *([f"  ({counted(more, 'other')})"] if more > 0 else [])]
    if result.verdict == "regression":
        yield from _not_named(result)
    if result.next_step:
        yield "next", [f"  {result.next_step}"]


def _not_named(result: Diagnosis) -> Iterator[TitledLines]:
    """Causes that something recorded speaks against, apart from those that were not judged."""
    for title, ruled_out in (("ruled out", True), (NOT_JUDGED, False)):
        of_kind = [e for e in result.excluded if e.ruled_out is ruled_out]
        if of_kind:
            yield title, [f"  {e.id}: {e.reason}" for e in of_kind[:MOST_EXCLUDED]]


def _slow_steps(result: Diagnosis) -> Iterator[str]:
    """Slow steps of both runs, what they cost, and the quantiles that were tested."""
    slow = result.outliers
    if slow is not None:
        apart = "" if slow.cause is None else f", set apart by {slow.cause}"
        yield (
            f"  {slow.steps} of {counted(slow.of_steps, 'step')} (normal run: "
            f"{slow.normal_steps}), {percent(slow.share_of_time_pct)} of the time{apart}"
        )
    for tail in result.tails if slow is not None else []:
        if tail.p is not None:
            yield (
                f"  p{100 * tail.quantile:.0f} {tail.normal_ms:.2f} → {tail.abnormal_ms:.2f} ms: "
                f"as a multiple of the typical step {tail.state} (p = {tail.p:.3f})"
            )


def cause_lines(cause: NamedCause) -> Iterator[str]:
    """A cause with what speaks for it and against it."""
    yield f"{as_percent(cause.confidence)} {cause.id}: {cause.title}"
    yield from (f"    for: {text}" for text in cause.evidence)
    yield from (f"    against: {text}" for text in cause.against)
