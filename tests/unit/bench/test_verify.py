"""Every operator of the suite, small: inputs, reference, eager solution, and trivial answers."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import msgspec
import pytest
import torch
from msgspec import structs

from solscope.bench.run.reference import CPU_EFFORT, by_rows
from solscope.bench.verify import VARIANTS, Verification, eager_solution, outputs_of, verify
from solscope.bench.verify import wrong_outputs as wrong
from solscope.operators import OPERATOR_MODULES, operator
from solscope.operators.base import Cost
from solscope.operators.task import Draw, Variant
from solscope.suite.atrex import load_suite
from solscope.suite.axes import suite_axes
from solscope.suite.scale import scale_down

RUNNABLE = [op.name for op in load_suite().operators if operator(op.name).task is not None]

PARTS = 4
SOME = [(name, list(VARIANTS[number % PARTS :: PARTS])) for number, name in enumerate(RUNNABLE)]
"""Every operator with one part of the variants."""


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def small_shapes(name: str) -> list[dict[str, object]]:
    """Its shapes made small, where several may become the same."""
    op = load_suite().operator(name)
    shapes = [scale_down(suite_axes(op, shape)) for shape in op.shapes]
    return list({msgspec.json.encode(shape): shape for shape in shapes}.values())


@pytest.mark.parametrize(("name", "variants"), SOME)
def test_operator_holds(name: str, variants: list[Variant]) -> None:
    """On some variants of its first shape; all others, and other shapes, in `make test-long`."""
    found = verify(name, small_shapes(name)[:1], variants=variants)
    assert found.failures == []


@pytest.mark.long
@pytest.mark.parametrize("name", RUNNABLE)
def test_operator_holds_on_every_shape(name: str) -> None:
    """And on every variant of the first."""
    found = verify(name, small_shapes(name))
    assert found.failures == []
    assert found.checks >= 20


@pytest.mark.parametrize("name", RUNNABLE)
def test_one_token_is_fine(name: str) -> None:
    axes = small_shapes(name)[0]
    for axis in ("tokens", "rows", "m"):
        if axis in axes:
            axes[axis] = 1
    task = operator(name).task
    assert task is not None
    inputs = task.inputs(axes, Draw(5))
    wanted = task.reference(**inputs)
    got = outputs_of(task, eager_solution(name), inputs)
    assert wrong(task, got, wanted, inputs) == []


FP8 = ("fp8_dynamic_per_token_quant", "per_token_group_quant_fp8", "fused_rmsnorm_quant")


@pytest.mark.parametrize("name", FP8)
def test_the_other_encoding(name: str) -> None:
    task = operator(name).task
    assert task is not None
    for variant in VARIANTS:
        inputs = task.inputs(small_shapes(name)[0], Draw(5, variant=variant, fp8="e4m3fnuz"))
        wanted = task.reference(**inputs)
        assert wanted["q"].dtype == torch.float8_e4m3fnuz
        got = outputs_of(task, eager_solution(name), inputs)
        assert wrong(task, got, wanted, inputs) == []
        other = {**got, "q": got["q"].view(torch.uint8).view(torch.float8_e4m3fn)}
        same_bytes = other["q"].float()
        assert not torch.equal(same_bytes, wanted["q"].float())


def change_task(patch: pytest.MonkeyPatch, name: str, **changes: Any) -> None:
    """Give an operator of the catalog another task."""
    op = operator(name)
    assert op.task is not None
    changed = structs.replace(op, task=structs.replace(op.task, **changes))
    patch.setattr(import_module(OPERATOR_MODULES[name]), "OPERATOR", changed)


def test_a_wrong_reference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    task = operator("rms_norm").task
    assert task is not None
    right = task.reference

    def too_large(**inputs: object) -> dict[str, torch.Tensor]:
        return {"out": 1.1 * right(**inputs)["out"]}

    change_task(monkeypatch, "rms_norm", reference=too_large)
    found = verify("rms_norm", small_shapes("rms_norm")[:1])
    assert any("eager out" in failure for failure in found.failures)


def test_an_operator_without_a_task_is_said() -> None:
    assert verify("copy", []) == Verification("copy", 0, 0, ["it has no executable half"], 0.0)


def test_an_output_that_rows_do_not_show_is_checked_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    task = operator("causal_conv1d").task
    assert task is not None
    large = Cost(flops={"vector.fp32": 2 * CPU_EFFORT.full_flop})
    assert by_rows(large, task, CPU_EFFORT) is False
    too_large = Cost(
        flops={"vector.fp32": 2 * CPU_EFFORT.max_full_reference_factor * CPU_EFFORT.full_flop}
    )
    assert by_rows(too_large, task, CPU_EFFORT) is None
    norm = operator("rms_norm").task
    assert norm is not None
    assert by_rows(too_large, norm, CPU_EFFORT) is True
    change_task(monkeypatch, "causal_conv1d", unsampled=())
    found = verify("causal_conv1d", small_shapes("causal_conv1d")[:1])
    assert any("left out" in failure for failure in found.failures)
