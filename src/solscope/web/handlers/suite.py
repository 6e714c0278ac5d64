"""Questions about the public suite: its tables, and local measurements next to them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from solscope.bench.base import ShapeResult
from solscope.bench.results.score import best_per_shape, score, select
from solscope.errors import UsageError
from solscope.hardware import find, match_device
from solscope.operators import operator
from solscope.pages.bench import PUBLIC_SUITE
from solscope.pages.profile import Roofs, roofs_of
from solscope.suite.atrex import load_suite
from solscope.suite.axes import suite_axes
from solscope.suite.published import upper_median
from solscope.suite.tables import (
    PUBLISHED_ON,
    RooflineRow,
    ShapeRow,
    suite_roofline,
    suite_shapes,
)
from solscope.web.library import Library, Query

MAX_HARDWARE = 32
"""GPUs of one question: more than there are hardware files."""


class Fastest(msgspec.Struct, frozen=True):
    """The fastest solution that passed on one shape."""

    solution: str
    median_us: float
    s_pct: float | None
    """Bound over time; null without a bound."""


class MeasuredOperator(msgspec.Struct, frozen=True):
    """What was measured of one operator."""

    middle: Fastest | None
    """On the middle shape, the one that the suite's roofline is about."""
    s_pct: float | None
    """Over all shapes, as `solscope bench score` has it: shapes that did not pass count as 0."""
    shapes_passed: int


class Measured(msgspec.Struct, frozen=True):
    """Results of the benchmark on one GPU."""

    device: str
    hardware: str | None
    """The same GPU as bounds know it; null when they do not."""
    operators: dict[str, MeasuredOperator]


class SuitePage(msgspec.Struct, frozen=True):
    """The suite's operators with their roofline on the chosen GPUs."""

    hardware: list[str]
    operators: list[RooflineRow]
    flop: dict[str, float]
    """FLOP of each operator's middle shape, as published."""
    median_s_pct: dict[str, float]
    """Median over an operator's shapes of S on XPU-A, as published."""
    roofs: list[Roofs]
    measured: list[Measured]
    """By GPU, from the results that are shown; empty without any."""


class MeasuredShapes(msgspec.Struct, frozen=True):
    """The fastest on each shape of one operator, on one GPU."""

    device: str
    shapes: dict[str, Fastest]
    """By id of the shape; those that nothing passed are missing."""


class ShapesPage(msgspec.Struct, frozen=True):
    """Every shape of one operator of the suite."""

    operator: str
    hardware: list[str]
    shapes: list[ShapeRow]
    measured: list[MeasuredShapes]


def suite_page(library: Library, query: Query) -> SuitePage:
    """The operators of the suite."""
    chosen, suite = _hardware(query), load_suite()
    middles = {op.name: str(op.middle_shape.id) for op in suite.by_importance}
    return SuitePage(
        hardware=chosen,
        operators=suite_roofline(chosen),
        flop={op.name: _flop(op.name) for op in suite.by_importance},
        median_s_pct={
            op.name: upper_median([row.s_pct for row in suite_shapes(op.name)])
            for op in suite.by_importance
        },
        roofs=[roofs_of(find(name)) for name in chosen],
        measured=[_measured(device, lines, middles) for device, lines in _by_device(library)],
    )


def shapes_page(library: Library, query: Query) -> ShapesPage:
    """Every shape of one operator."""
    chosen, name = _hardware(query), query["operator"]
    shapes = suite_shapes(name, chosen)
    return ShapesPage(
        operator=name,
        hardware=chosen,
        shapes=shapes,
        measured=[
            MeasuredShapes(device, {r.shape: _fastest(r) for r in best_per_shape(lines, name)})
            for device, lines in _by_device(library)
        ],
    )


def _hardware(query: Query) -> list[str]:
    asked = list(dict.fromkeys(name for name in query.get("hardware", "").split(",") if name))
    if len(asked) > MAX_HARDWARE:
        raise UsageError(f"choose at most {MAX_HARDWARE} GPUs at a time")
    return [find(by_name(name)).name for name in asked] or list(PUBLISHED_ON)


def _flop(name: str) -> float:
    op = load_suite().operator(name)
    published = operator(name).published
    assert published is not None
    return sum(published(suite_axes(op, op.middle_shape)).flops.values())


def _by_device(library: Library) -> list[tuple[str, list[ShapeResult]]]:
    """Results of the public suite at full size, by GPU."""
    if not library.result_files:
        return []
    lines = [line for line in library.results() if line.suite == PUBLIC_SUITE and line.scale == 1]
    devices = sorted({line.device for line in lines})
    return [(device, select(lines, None, device)) for device in devices]


def _measured(device: str, lines: Sequence[ShapeResult], middles: dict[str, str]) -> Measured:
    operators: dict[str, MeasuredOperator] = {}
    for scored in score(lines, None, device).operators:
        best = {result.shape: result for result in best_per_shape(list(lines), scored.operator)}
        middle = best.get(middles.get(scored.operator, ""))
        operators[scored.operator] = MeasuredOperator(
            middle=None if middle is None else _fastest(middle),
            s_pct=None if scored.s is None else 100 * scored.s,
            shapes_passed=scored.shapes_passed,
        )
    card = match_device(device)
    return Measured(device, None if card is None else card.name, operators)


def _fastest(result: ShapeResult) -> Fastest:
    assert result.median_us is not None
    return Fastest(result.solution, result.median_us, None if result.s is None else 100 * result.s)


def by_name(name: str) -> str:
    """A name of a GPU; files of this machine are not for whoever asks over the network."""
    if name.endswith(".toml"):
        raise UsageError(f"choose hardware by name here, not by file: {name!r}")
    return name
