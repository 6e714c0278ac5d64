"""`solscope compare`: in the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from solscope.compare.parts import Difference, OneSided, Part
from solscope.compare.profiles import Comparison, PhaseComparison, Side, StepTimes
from solscope.compare.verdict import ComparisonVerdict
from solscope.report.forms import Screen, form
from solscope.report.layout.blocks import Block, block_markdown, block_text
from solscope.report.layout.labels import headings
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.markdown import markdown_cell
from solscope.report.layout.quantities import number, pct, share_known
from solscope.report.layout.tables import Column, numbers, warning_lines
from solscope.report.results.compare.kernels import KernelComparisons
from solscope.report.results.compare.runs import compare_runs_parts
from solscope.text import clean

__all__ = ["KernelComparisons", "blocks", "compare_parts", "compare_runs_parts", "markdown_compare"]


@form("compare", Comparison, markdown=lambda result, top: markdown_compare(result, top=top))
def compare_parts(result: Comparison, screen: Screen, *, top: int) -> list[Printable]:
    """Text for the terminal; `top` limits what can be long."""
    parts: list[Printable] = [Text(clean(result.verdict.sentence), style="bold")]
    parts += [Text(clean(line)) for line in _reasons(result.verdict)]
    parts += [Text(""), *(Text(line) for line in _profiles(result))]
    for block in blocks(result, top):
        parts += block_text(block, screen.width)
    return [*parts, Text(""), *warning_lines(result.warnings)]


def markdown_compare(result: Comparison, *, top: int) -> str:
    """The same as Markdown."""
    out = [f"**{markdown_cell(result.verdict.sentence)}**", ""]
    reasons = [f"- {markdown_cell(line)}" for line in _reasons(result.verdict)]
    out += [*reasons, ""] if reasons else []
    out += [f"- {markdown_cell(line)}" for line in _profiles(result)]
    for block in blocks(result, top):
        out += block_markdown(block)
    out += ["", *(f"- warning {w.code}: {markdown_cell(w.message)}" for w in result.warnings)]
    return "\n".join(out).rstrip() + "\n"


def _reasons(verdict: ComparisonVerdict) -> Iterator[str]:
    """What speaks for the cause, what to do about it, and what the numbers are of."""
    yield from (f"for: {line}" for line in verdict.because)
    if verdict.advice is not None:
        yield f"to do: {verdict.advice}"
    if verdict.next is not None:
        yield f"next: {verdict.next}"
    if verdict.legend is not None:
        yield verdict.legend


def blocks(result: Comparison, top: int) -> Iterator[Block]:
    """All tables: for each phase its steps, categories, operators, differences, one-sided parts."""
    labels = [side.label for side in result.profiles]
    for phase in result.phases:
        name = _unit(phase)
        if any(phase.steps):
            yield Block(f"{name}: steps, ms", _columns("", labels), list(_step_rows(phase)))
        for what, parts in (
            ("categories", phase.categories),
            ("operators", phase.operators if len(phase.operators) > 1 else []),
            ("kernels", phase.kernels[:top]),
        ):
            if parts:
                beside = "calls" if what == "kernels" else "share of GPU time"
                title = f"{name}: {what}, ms and {beside}"
                rows = [_part_row(difference, what == "kernels") for difference in parts]
                yield Block(title, _part_columns(what, labels), rows)
        if phase.differences:
            title = f"{name}: largest differences to {labels[0]}, ms"
            rows = [row for label in labels[1:] for row in _differences(phase, label, top)]
            # With two profiles it goes without saying which one differs.
            first = 1 if len(labels) == 2 else 0
            yield Block(title, _DIFFERENCE_COLUMNS[first:], [row[first:] for row in rows])
        if phase.only:
            title = f"{name}: not in every profile, ms"
            columns = [Column("by", text=True), *_time_columns(labels), Column("name", text=True)]
            yield Block(title, columns, list(_only_rows(phase.only, top)))


_DIFFERENCE_COLUMNS = (
    Column("profile", text=True),
    Column("group", text=True),
    Column("part", text=True),
    *numbers("before", "after", "diff", "ratio"),
)


def _profiles(result: Comparison) -> Iterator[str]:
    for side in result.profiles:
        facts = [side.format, *dict.fromkeys(side.devices), _steps(side)]
        yield clean(f"{side.label}: {' · '.join(facts)}")


def _steps(side: Side) -> str:
    cut = f" ({side.cut} cut, left out)" if side.cut else ""
    plural = "" if side.steps == 1 else "s"
    return (
        f"{side.steps} step{plural}{cut}, compared {share_known(side.compared_pct)} of GPU time, "
        f"classified {share_known(side.coverage.classified_pct)}, "
        f"with role {share_known(side.coverage.role_pct)}"
    )


def _unit(phase: PhaseComparison) -> str:
    if phase.per == "profile":
        return "totals of whole profiles"
    return f"{phase.phase or 'phase not known'}, per step"


def _time_columns(labels: Sequence[str]) -> list[Column]:
    heads = headings(labels, 20)
    if len(set(heads)) < len(heads):
        heads = [f"profile {index + 1}" for index in range(len(labels))]
    return [Column(head, label=True) for head in heads]


def _columns(first: str, labels: Sequence[str]) -> list[Column]:
    both = [Column("diff"), Column("ratio")] if len(labels) == 2 else []
    return [Column(first, text=True), *_time_columns(labels), *both]


def _part_columns(what: str, labels: Sequence[str]) -> list[Column]:
    singular = {"categories": "category", "operators": "operator", "kernels": "kernel"}[what]
    beside = Column("calls" if what == "kernels" else "%", spare=1)
    pairs = [column for label in _time_columns(labels) for column in (label, beside)]
    both = [Column("diff"), Column("ratio")] if len(labels) == 2 else []
    return [*pairs, *both, Column(singular, text=True)]


def _step_rows(phase: PhaseComparison) -> Iterator[list[str]]:
    steps = [side for side in phase.steps if side is not None]
    empty = [""] * (2 * (len(steps) == 2))
    yield ["steps", *(f"{side.basis.steps} of {side.basis.of}" for side in steps), *empty]
    for label, field in _STEP_FIELDS:
        values = [_field(side, field) for side in steps]
        if any(value is not None for value in values):
            yield [label, *(number(value, 3) for value in values), *_versus(values)]
    for label in ("requests", "tokens"):
        values = [_field(side, label) for side in steps]
        if any(value is not None for value in values):
            cells = [number(value, 1) for value in values]
            yield [f"{label} in a step", *cells, *([""] * (2 * (len(steps) == 2)))]


_STEP_FIELDS = (
    ("step time, start to start", "time_ms"),
    ("  GPU time", "gpu_ms"),
    ("  - overlapped", "overlapped_ms"),
    ("  + idle inside", "idle_ms"),
    ("  = first start to last end", "mean_ms"),
    ("      p50", "p50_ms"),
    ("      p90", "p90_ms"),
    ("  + gap to the next", "gap_ms"),
    ("      p50", "gap_p50_ms"),
    ("      p90", "gap_p90_ms"),
)


def _field(side: StepTimes, name: str) -> float | None:
    value = getattr(side, name)
    assert value is None or isinstance(value, float)
    return value


def _versus(values: Sequence[float | None]) -> list[str]:
    """Difference and ratio, for two profiles; a gap of steps that overlap has no ratio."""
    if len(values) != 2:
        return []
    before, after = values
    if before is None and after is None:
        return ["", ""]
    comparable = before is not None and after is not None and before > 0 and after >= 0
    ratio = f"{after / before:.2f}" if comparable else ""  # type: ignore[operator]
    return [f"{(after or 0.0) - (before or 0.0):+,.3f}", ratio]


def _part_row(difference: Part, with_calls: bool) -> list[str]:
    calls = ["-" if n is None else f"{n:,}" for n in difference.calls]
    beside = calls if with_calls else [pct(share) for share in difference.pct]
    pairs = zip(difference.time_ms, beside, strict=True)
    cells = [cell for time, other in pairs for cell in (number(time, 3), other)]
    return [*cells, *_versus(difference.time_ms), difference.name]


def _differences(phase: PhaseComparison, label: str, top: int) -> Iterator[list[str]]:
    """The largest ones, the rest in one row, and their sum."""
    rows = [row for row in phase.differences if row.profile == label]
    largest = [row for row in rows[:top] if _shows(row)]
    yield from map(_difference, largest)
    rest = rows[len(largest) :]
    if rest:
        sums = [sum(getattr(r, f) or 0.0 for r in rest) for f in ("before_ms", "after_ms")]
        yield ["", "", f"({len(rest)} more)", *(number(s, 3) for s in sums), *_versus(sums)]
    before, after = (sum(getattr(r, f) or 0.0 for r in rows) for f in ("before_ms", "after_ms"))
    name = "step time" if phase.per == "step" else "GPU time"
    yield [label, "", name, number(before, 3), number(after, 3), *_versus([before, after])]


def _shows(row: Difference) -> bool:
    """Whether the difference is more than the printed digits hide."""
    return abs((row.after_ms or 0.0) - (row.before_ms or 0.0)) >= 0.0005


def _difference(row: Difference) -> list[str]:
    times = [row.before_ms, row.after_ms]
    group = row.group or {"category": "(no role)", "time": "(no work)"}.get(row.by, "")
    return [row.profile, group, row.name, *(number(t, 3) for t in times), *_versus(times)]


def _only_rows(only: Sequence[OneSided], top: int) -> Iterator[list[str]]:
    for by in dict.fromkeys(row.by for row in only):
        rows = [row for row in only if row.by == by]
        for row in rows[:top]:
            yield [row.by, *(number(time, 3) for time in row.time_ms), row.name]
        rest = [*zip(*(row.time_ms for row in rows[top:]), strict=True)]
        if rest:
            sums = [number(sum(t or 0.0 for t in side), 3) for side in rest]
            yield [by, *sums, f"({len(rows) - top} more)"]
