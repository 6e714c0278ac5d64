"""The published formulas give back every published integer."""

from __future__ import annotations

import pytest

from solscope.hardware import find
from solscope.operators import OPERATOR_MODULES, operator, operators
from solscope.roofline.bound import published_bound
from solscope.suite.atrex import SuiteOperator, load_suite
from solscope.suite.axes import suite_axes

SUITE = load_suite().operators
every_operator = pytest.mark.parametrize("op", SUITE, ids=[op.name for op in SUITE])

DRAWN = {"fused_moe": "drawn_pairs", "moe_align_block_size": "padded_slots"}
"""Published with the outcome of one random routing, which the stored figures give back.

One integer per shape is then taken from the data instead of being computed. That the rest fits it
without remainder is what these tests hold for the two operators.
"""


@every_operator
def test_flops_and_bytes_are_those_published(op: SuiteOperator) -> None:
    published = operator(op.name).published
    assert published is not None
    for shape in op.shapes:
        assert published(suite_axes(op, shape)) == shape.published, shape.id


@every_operator
def test_only_drawn_operators_take_a_figure_from_the_data(op: SuiteOperator) -> None:
    axes = {name for shape in op.shapes for name in suite_axes(op, shape)}
    expected = {DRAWN[op.name]} if op.name in DRAWN else set()
    assert axes & set(DRAWN.values()) == expected


def test_drawn_pairs_are_a_possible_outcome() -> None:
    op = load_suite().operator("fused_moe")
    for shape in op.shapes:
        axes = suite_axes(op, shape)
        slots = axes["tokens"] * axes["top_k"]
        assert 0.9 * slots < axes["drawn_pairs"] <= slots


def test_padded_slots_are_a_possible_outcome() -> None:
    op = load_suite().operator("moe_align_block_size")
    for shape in op.shapes:
        axes = suite_axes(op, shape)
        slots, size = axes["tokens"] * axes["top_k"], axes["block_size"]
        assert axes["padded_slots"] % size == 0
        assert slots <= axes["padded_slots"] <= slots + 128 * (size - 1)


@pytest.mark.parametrize("name", ["H20", "XPU-A"])
def test_our_hardware_files_hold_the_published_peaks(name: str) -> None:
    ours, theirs = find(name), load_suite().hardware[name]
    assert ours.memory["hbm.bandwidth"].value == theirs.hbm_bytes_per_s
    assert {pipe: ours.peaks[pipe].value for pipe in PATHS} == {
        pipe: theirs.peak_flops[path] for pipe, path in PATHS.items()
    }


PATHS = {
    "tensor.bf16": "bf16_tc",
    "tensor.fp16": "fp16_tc",
    "tensor.fp8": "fp8_e4m3_tc",
    "vector.fp32": "fp32_strict",
}


@every_operator
@pytest.mark.parametrize("name", ["H20", "XPU-A"])
def test_speed_of_light_is_that_published(op: SuiteOperator, name: str) -> None:
    for shape in op.shapes:
        computed = published_bound(shape.published, find(name)).time_us
        assert computed == pytest.approx(1e3 * shape.sol_ms[name], rel=1e-9)


def test_every_operator_of_the_suite_is_in_the_catalogue() -> None:
    ids = {op.name: op.suite_id for op in operators() if op.suite_id}
    assert ids == {op.name: op.id for op in SUITE}


def test_names_of_files_and_operators_agree() -> None:
    assert [op.name for op in operators()] == list(OPERATOR_MODULES)
    assert all(module.endswith(f".{name}") for name, module in OPERATOR_MODULES.items())


@every_operator
def test_axes_of_the_suite_are_those_declared(op: SuiteOperator) -> None:
    ours = operator(op.name)
    for shape in op.shapes:
        axes = set(suite_axes(op, shape))
        assert set(ours.axes) <= axes <= {*ours.axes, *ours.optional}
