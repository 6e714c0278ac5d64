"""`solscope diagnose`: in the terminal and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from solscope.diagnose.counters import CounterChange
from solscope.diagnose.decompose import Component
from solscope.diagnose.diagnosis import Diagnosis, RunSummary
from solscope.diagnose.rank import NamedCause
from solscope.report.blocks import Block, block_markdown, block_text
from solscope.report.terminal import Column, counted, heading, markdown_cell, number, to_text
from solscope.text import clean

_NO_SENSOR = re.compile(r"^[^;]*\bnot (sampled|counted|recorded)\b")
BAR = 24
"""Columns of the bars."""
_STYLES = {
    "regression": "bold red",
    "improvement": "bold green",
    "no_change": "bold green",
    "workload_changed": "bold yellow",
    "cannot_compare": "bold yellow",
}
_OUTCOME = (
    Column("ms per step", text=True),
    Column("normal"),
    Column("abnormal"),
    Column("ratio"),
    Column("95 % interval", text=True),
)
_WATERFALL = (
    Column("ms"),
    Column("bar", text=True, spare=3),
    Column("share"),
    Column("by calls", spare=1),
    Column("by time per call", spare=1),
    Column("q", spare=2),
    Column("state", text=True, spare=2),
    Column("phase", text=True, spare=4),
    Column("component", text=True),
)
_COUNTERS = (
    Column("normal"),
    Column("abnormal"),
    Column("unit", text=True, spare=1),
    Column("n", spare=2),
    Column("q", spare=2),
    Column("state", text=True),
    Column("counter", text=True),
)


def render_diagnosis(result: Diagnosis, *, top: int, width: int, color: bool) -> str:
    """Text for the terminal: the verdict first, then what it rests on."""
    parts: list[RenderableType] = [
        Text(f"{clean(result.abnormal.path)} against {clean(result.normal.path)}"),
        Text(clean(result.sentence), style=_STYLES[result.verdict]),
        Text(""),
        heading("comparability"),
        *(_line(f"  {line}") for line in _comparability(result)),
    ]
    for block in _blocks(result, top):
        parts += block_text(block, width)
    for title, lines in _lists(result):
        parts += [Text(""), heading(title), *(_line(text) for text in lines)]
    if result.warnings:
        parts.append(Text(""))
    parts += [Text.assemble(("warning ", "bold yellow"), clean(text)) for text in result.warnings]
    return to_text(parts, width, color)


def _line(text: str) -> RenderableType:
    """A line of a list, bold when it is no item; what is wrapped stays below its start."""
    bare = text.lstrip(" ")
    shown = Text(clean(bare), style="" if text.startswith(" ") else "bold")
    return Padding(shown, (0, 0, 0, len(text) - len(bare)))


def markdown_diagnosis(result: Diagnosis, *, top: int) -> str:
    """The same as Markdown."""
    out = [
        f"# {markdown_cell(result.abnormal.path)} against {markdown_cell(result.normal.path)}",
        "",
        f"**{markdown_cell(result.sentence)}**",
        "",
        *(f"- {markdown_cell(line)}" for line in _comparability(result)),
    ]
    for block in _blocks(result, top):
        out += block_markdown(block)
    for title, lines in _lists(result):
        out += ["", f"**{markdown_cell(title)}**", ""]
        out += [_item(line) for line in lines]
    out += ["", *(f"- warning {markdown_cell(text)}" for text in result.warnings)]
    return "\n".join(out).rstrip() + "\n"


def _item(line: str) -> str:
    text = markdown_cell(line.strip())
    return f"  - {text}" if line.startswith("    ") else f"- {text}"


# --- What is shown


def _comparability(result: Diagnosis) -> Iterator[str]:
    how = result.comparability
    yield f"{how.level}: {result.unit}"
    yield from how.reasons
    for label, side in (("normal", result.normal), ("abnormal", result.abnormal)):
        yield f"{label}: {_steps(side)}"
    shown = ", ".join(f"{p} {n:.0f} % and {a:.0f} %" for p, (n, a) in how.phases.items())
    if shown:
        yield f"phases of all fit steps: {shown}"
    if how.noise_floor_pct is not None:
        yield (
            f"noise inside the normal run ±{how.noise_floor_pct:.1f} % (its halves against each "
            f"other); between starts of one program up to ±{how.run_noise_pct or 0:.0f} %"
        )


def _steps(side: RunSummary) -> str:
    dropped = ", ".join(f"{count} {reason}" for reason, count in side.dropped.items())
    text = f"{side.steps} of {counted(side.steps_in_recording, 'step')} compared"
    text += f" (left out: {dropped})" if dropped else ""
    text += f"; {counted(side.samples, 'sensor sample')} within"
    return text + f"; profiler's own time {side.overhead_ms:.2f} ms per step"


def _blocks(result: Diagnosis, top: int) -> Iterator[Block]:
    if result.ratio is None:
        return
    yield Block("outcome", _OUTCOME, list(_outcome(result)))
    title = "from normal to abnormal, ms per average step (adds up exactly)"
    yield Block(title, _WATERFALL, list(_waterfall(result, top)))
    changed = [c for c in result.counters if c.state == "changed"]
    for part, title in (
        ("driver", "counters that can drive a change"),
        ("consequence", "counters that only follow"),
    ):
        rows = [_counter(c) for c in _by_change(changed) if c.part == part]
        if rows:
            yield Block(title, _COUNTERS, rows[:top])


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


def _waterfall(result: Diagnosis, top: int) -> Iterator[list[str]]:
    shown = [c for c in result.components if abs(c.delta_ms) >= 5e-4][:top]
    rest = [c for c in result.components if c not in shown]
    largest = max((abs(c.delta_ms) for c in result.components), default=0.0)
    blank = [""] * 7
    yield [number(result.normal.mean_ms, 3), *blank, "normal"]
    for component in shown:
        yield _row(component, largest)
    if rest:
        delta, calls, times = (
            sum(getattr(c, name) for c in rest)
            for name in ("delta_ms", "count_effect_ms", "duration_effect_ms")
        )
        shares = [c.share_of_delta_pct for c in rest]
        share = None if None in shares else sum(s for s in shares if s is not None)
        yield [
            _signed(delta),
            _bar(delta, largest),
            _pct(share),
            _signed(calls),
            _signed(times),
            "",
            "",
            "",
            f"({counted(len(rest), 'other')})",
        ]
    yield [number(result.abnormal.mean_ms, 3), *blank, "abnormal"]


def _row(component: Component, largest: float) -> list[str]:
    return [
        _signed(component.delta_ms),
        _bar(component.delta_ms, largest),
        _pct(component.share_of_delta_pct),
        _signed(component.count_effect_ms),
        _signed(component.duration_effect_ms),
        _q(component.q, component.test.n),
        component.state.replace("_", " "),
        component.phase or "-",
        component.component,
    ]


def _bar(value: float, largest: float) -> str:
    size = round(BAR * abs(value) / largest) if largest else 0
    return ("█" if value > 0 else "░") * size


def _signed(value: float) -> str:
    """With its sign; what rounds to nothing has none to tell."""
    return f"{round(value, 3) + 0.0:+.3f}"


def _pct(share: float | None) -> str:
    return "-" if share is None else f"{round(share, 1) + 0.0:.1f} %"


def _q(value: float | None, n: Sequence[int]) -> str:
    if value is None:
        return f"n = {n[0]}/{n[1]}"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _by_change(counters: Sequence[CounterChange]) -> list[CounterChange]:
    def change(counter: CounterChange) -> float:
        before, after = counter.normal or 0.0, counter.abnormal or 0.0
        return abs(after - before) / max(abs(before), abs(after), 1e-12)

    return sorted(counters, key=lambda counter: -change(counter))


def _counter(counter: CounterChange) -> list[str]:
    where = "" if counter.device is None else f" (GPU {counter.device})"
    return [
        number(counter.normal, 1),
        number(counter.abnormal, 1),
        counter.unit,
        "/".join(map(str, counter.test.n)),
        _q(counter.q, counter.test.n),
        counter.state,
        counter.name + where,
    ]


def _lists(result: Diagnosis) -> Iterator[tuple[str, list[str]]]:
    if result.latent:
        yield (
            "latent: changed, but no time lost to it",
            [f"  {item.text}" for item in result.latent],
        )
    lines = [line for cause in result.causes for line in _cause(cause)]
    yield "causes", lines
    near = sorted(result.excluded, key=lambda e: _NO_SENSOR.search(e.reason) is not None)[:4]
    if near and result.verdict == "regression":
        yield "ruled out", [f"  {e.id}: {e.reason}" for e in near]
    if result.next_step:
        yield "next", [f"  {result.next_step}"]


def _cause(cause: NamedCause) -> Iterator[str]:
    yield f"{cause.confidence:.0%} {cause.id}: {cause.title}"
    yield from (f"    for: {text}" for text in cause.evidence)
    yield from (f"    against: {text}" for text in cause.against)
