"""Solutions to start from: what the kernel of the template makes is what is judged."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from solscope.bench.template import write_template
from solscope.bench.verify import draws, load_run, outputs_of, wrong_outputs
from solscope.bench.workloads import workloads
from solscope.cli import run
from solscope.operators import operator
from solscope.suite.scale import scale_down

SUITE = workloads("atrex")
IN_PLACE = [
    name
    for name in SUITE
    if set(operator(name).required_task.outputs) <= set(operator(name).required_task.mutates)
]


@pytest.mark.parametrize("name", [*IN_PLACE, "rms_norm", "moe_topk_gating_softmax"])
def test_the_first_output_goes_through_the_kernel(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_template(name, tmp_path, "triton")
    kernel = ModuleType("_kernel")
    monkeypatch.setitem(sys.modules, "_kernel", kernel)
    task = operator(name).required_task
    axes, draw = next(iter(draws([scale_down(SUITE[name][0].axes)], seed=7)))
    inputs = task.inputs(axes, draw)
    wanted = task.reference(**inputs)
    wrong = []
    for copy in (torch.clone, torch.zeros_like):
        kernel.copy = copy  # type: ignore[attr-defined]
        run = load_run(tmp_path / f"{name}.py")
        wrong.append(wrong_outputs(task, outputs_of(task, run, inputs), wanted, inputs))
    assert wrong[0] == []
    assert [one.split(":")[0] for one in wrong[1]] == [next(iter(task.outputs))]


def test_operators_that_update_in_place_are_there() -> None:
    assert {"fused_add_rms_norm", "reshape_and_cache", "fused_qkv_rope"} <= set(IN_PLACE)


@pytest.mark.parametrize(("name", "suite"), [("rms_norm", ""), ("dense_gemm", " --suite decode")])
def test_the_next_command_names_a_suite_with_shapes_of_the_operator(
    name: str, suite: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", "new", name, "-o", str(tmp_path / "mine")]) == 0
    said = capsys.readouterr().err
    assert f"bench check {tmp_path / 'mine'} --op {name}{suite} (without a GPU" in said
