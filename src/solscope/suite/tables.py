"""The tables of the suite: operators, their roofline, and every shape with our own bound."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from solscope.hardware import Hardware, find
from solscope.operators import operator
from solscope.operators.base import Axes, Cost, Operator, Published
from solscope.roofline import BoundKind
from solscope.roofline.bound import bound as least_time
from solscope.roofline.operators import check_kind
from solscope.suite import published as page
from solscope.suite.atrex import Suite, SuiteOperator, SuiteShape, load_suite
from solscope.suite.axes import suite_axes
from solscope.suite.files import SuiteFile

PUBLISHED_ON = ("H20", "XPU-A")
"""The platforms of the public page."""


class SuiteRow(msgspec.Struct, frozen=True):
    """One operator of the suite."""

    operator: str
    id: str
    dtype: str
    shapes: int
    """How many shapes it has."""
    importance_pct: float
    """Share of GPU time as published; all together 109.5."""
    importance_norm_pct: float
    """The same, scaled so that all together are 100; what scores use."""


class RooflineRow(SuiteRow, frozen=True):
    """One operator with the published roofline of its middle shape."""

    regime: page.Regime
    """`C` compute, `M` memory, `I` index, by the median intensity of all shapes."""
    intensity: float
    """FLOP per byte."""
    sol_us: dict[str, float | None]
    """Least time by hardware, published or corrected as asked; null without a peak for the dtype.
    """
    prod_us: float
    """Deployed kernel on XPU-A."""


class ShapeRow(msgspec.Struct, frozen=True):
    """One shape of an operator."""

    id: int
    axes: dict[str, Any]
    description: str
    sol_us: dict[str, float | None]
    """Published formula by hardware."""
    prod_us: float
    """Deployed kernel on XPU-A."""
    s_pct: float
    """S on XPU-A as printed: from rounded times, to one decimal."""
    s_exact_pct: float
    """S on XPU-A from unrounded times."""
    corrected_sol_us: dict[str, float | None]
    """Our cost on the same terms: every byte from or to HBM, no launch floor."""


class MedianRow(msgspec.Struct, frozen=True):
    """One operator of the public suite: S of its shapes."""

    operator: str
    shapes: int
    s_median_pct: float
    """Median S on XPU-A, as the public page prints it."""
    s_low_pct: float
    s_high_pct: float


class ListedRow(msgspec.Struct, frozen=True):
    """One shape of an operator of any suite."""

    id: str
    axes: dict[str, Any]
    description: str
    weight_pct: float
    """Share of the operator's time."""
    corrected_sol_us: dict[str, float | None]
    """Our cost: pipes and HBM alone, no launch floor."""


def listed_rows(suite: SuiteFile) -> list[SuiteRow]:
    """The operators of any suite, most important first."""
    return [
        SuiteRow(
            operator=listed.operator,
            id=operator(listed.operator).suite_id or listed.operator,
            dtype=listed.dtype,
            shapes=len(listed.shapes),
            importance_pct=100 * listed.importance,
            importance_norm_pct=100 * listed.importance / suite.importance_sum,
        )
        for listed in suite.by_importance
    ]


def listed_shapes(
    suite: SuiteFile, name: str, hardware: Sequence[str] = PUBLISHED_ON
) -> list[ListedRow]:
    """Every shape of one operator of any suite, with our bound."""
    cards, cost = _cards(hardware), operator(suite.operator(name).operator).cost
    return [
        ListedRow(
            id=shape.id,
            axes=shape.axes,
            description=shape.description,
            weight_pct=100 * shape.weight,
            corrected_sol_us={c.name: corrected_sol_us(cost(shape.axes), c) for c in cards},
        )
        for shape in suite.operator(name).shapes
    ]


def suite_list() -> list[SuiteRow]:
    """The operators of the public suite, most important first."""
    suite = load_suite()
    return [SuiteRow(**_head(suite, op)) for op in suite.by_importance]


def suite_roofline(
    hardware: Sequence[str] = PUBLISHED_ON, *, bound: BoundKind = "published"
) -> list[RooflineRow]:
    """The roofline of each operator's middle shape, on any hardware.

    `corrected` times are those of our costs on the same terms; regime and intensity stay published.
    """
    check_kind(bound)
    suite, cards = load_suite(), _cards(hardware)
    return [_roofline_row(suite, op, cards, bound) for op in suite.by_importance]


def suite_shapes(name: str, hardware: Sequence[str] = PUBLISHED_ON) -> list[ShapeRow]:
    """Every shape of one operator: published figures, S, and our bound."""
    cards, op = _cards(hardware), load_suite().operator(name)
    return [_shape_row(op, shape, cards) for shape in op.shapes]


def suite_medians() -> list[MedianRow]:
    """Median S of every operator, lowest first, as the public page lists them."""
    rows = []
    for op in load_suite().by_importance:
        scores = [row.s_pct for row in suite_shapes(op.name)]
        rows.append(
            MedianRow(op.name, len(scores), page.upper_median(scores), min(scores), max(scores))
        )
    return sorted(rows, key=lambda row: row.s_median_pct)


def _cards(names: Sequence[str]) -> list[Hardware]:
    return list({card.name: card for card in map(find, names)}.values())


def _head(suite: Suite, op: SuiteOperator) -> dict[str, Any]:
    return {
        "operator": op.name,
        "id": op.id,
        "dtype": op.dtype,
        "shapes": len(op.shapes),
        "importance_pct": 100 * op.importance_score,
        "importance_norm_pct": 100 * op.importance_score / suite.importance_sum,
    }


def _roofline_row(
    suite: Suite, op: SuiteOperator, cards: list[Hardware], kind: BoundKind
) -> RooflineRow:
    middle, ours = op.middle_shape, operator(op.name)
    axes = suite_axes(op, middle)
    cost, needed = _published(ours, axes), ours.cost(axes)
    published = kind == "published"
    times = {
        card.name: page.sol_us(cost, card) if published else corrected_sol_us(needed, card)
        for card in cards
    }
    return RooflineRow(
        **_head(suite, op),
        regime=page.regime(op),
        intensity=page.intensity(cost),
        sol_us=times,
        prod_us=middle.prod_us,
    )


def _shape_row(op: SuiteOperator, shape: SuiteShape, cards: list[Hardware]) -> ShapeRow:
    ours, axes = operator(op.name), suite_axes(op, shape)
    stated, needed = _published(ours, axes), ours.cost(axes)
    measured = page.sol_us(stated, find(page.MEASURED_ON))
    if measured is None:
        raise AssertionError(f"{page.MEASURED_ON} has no peak for {op.dtype}")
    return ShapeRow(
        id=shape.id,
        axes=dict(axes),
        description=shape.description,
        sol_us={card.name: page.sol_us(stated, card) for card in cards},
        prod_us=shape.prod_us,
        s_pct=page.s_pct(measured, shape.prod_us),
        s_exact_pct=100 * measured / shape.prod_us,
        corrected_sol_us={card.name: corrected_sol_us(needed, card) for card in cards},
    )


def corrected_sol_us(cost: Cost, card: Hardware) -> float | None:
    """Pipes and HBM alone, as the published formula has them, so that only the costs differ.

    Caches and the launch floor are left out; null if the hardware has no suitable matrix pipe.
    """
    hbm = {"hbm.bandwidth": card.memory["hbm.bandwidth"]}
    result = least_time(cost, msgspec.structs.replace(card, memory=hbm, chip={}))
    lacking = any(name.startswith("tensor.") for name in result.missing)
    return None if lacking else result.time_us


def _published(ours: Operator, axes: Axes) -> Published:
    if ours.published is None:
        raise AssertionError(f"{ours.name} is in the suite but has no published cost")
    return ours.published(axes)
