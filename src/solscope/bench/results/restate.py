"""Lines with what the suite and the hardware files say, in place of what a file states of them.

A results file is text that anyone can edit. Weights, calls and importance are the suite's; the
bound is computed anew from the suite's axes; the median is that of the samples. What is left to
believe are the samples and the status, which `bench verify` guards by a digest.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from statistics import median

import msgspec

from solscope.bench.base import ShapeResult, Timing
from solscope.bench.bounds import ShapeBound, shape_bound
from solscope.bench.workloads import DEFAULT_SUITE, Workload, workloads
from solscope.errors import SolscopeError
from solscope.hardware import match_device, with_measured
from solscope.operators import operator

ROUNDING_US = 0.002
"""Samples are written with three decimals, medians are taken before."""


def restate(results: Sequence[ShapeResult]) -> list[ShapeResult]:
    """The lines as the suite says; of a suite that cannot be loaded, as they state."""
    return [_restated(result) for result in results]


def _restated(result: ShapeResult) -> ShapeResult:
    listed = suite_shapes(result.suite).get((result.operator, result.shape))
    if listed is None:
        return result
    bound = stated_or_less(result, suite_bound(result.suite, *_key(result), result.device))
    median_us = true_median(result)
    return msgspec.structs.replace(
        result,
        axes=listed.axes,
        weight=listed.weight,
        calls=listed.calls,
        importance=listed.importance,
        bound_us=bound,
        median_us=median_us,
        s=bound / median_us if bound and median_us else None,
    )


def _key(result: ShapeResult) -> tuple[str, str]:
    return result.operator, result.shape


def true_median(result: ShapeResult | Timing) -> float | None:
    """The median of the samples, where what is stated is not that; null where nothing is stated."""
    if not result.median_us or not result.samples:
        return result.median_us
    own = median(result.samples)
    return result.median_us if abs(own - result.median_us) <= ROUNDING_US else own


def stated_or_less(result: ShapeResult, computed: ShapeBound) -> float | None:
    """The bound that counts: never more than the suite's axes give.

    Less is possible, where a draw had fewer tokens or experts than the axes allow. A device without
    a hardware file has only what was stated, by the file that `--hardware` named.
    """
    if computed.bound_us is None or result.bound_us is None:
        return result.bound_us
    return min(result.bound_us, computed.bound_us)


@cache
def suite_shapes(suite: str) -> dict[tuple[str, str], Workload]:
    """Shapes of a suite by operator and id; none where it cannot be loaded."""
    try:
        listed = workloads(suite)
    except SolscopeError:
        return {}
    return {(name, shape.shape): shape for name, shapes in listed.items() for shape in shapes}


@cache
def suite_bound(suite: str, name: str, shape: str, device: str) -> ShapeBound:
    """The bound of a suite's shape on a device."""
    listed = suite_shapes(suite)[name, shape]
    card = None if device == "cpu" else match_device(device)
    hardware = None if card is None else with_measured(card)
    public = suite == DEFAULT_SUITE
    return shape_bound(operator(name), listed.axes, listed.axes, hardware, published=public)
