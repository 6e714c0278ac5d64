"""Call a file of a shipped solution on the CPU as a worker does, and judge what it returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from solscope.bench.catalog import load_module
from solscope.bench.one_call import arguments
from solscope.bench.verify import outputs_of, wrong_outputs
from solscope.operators import operator
from solscope.operators.task import Draw, Inputs, Outputs, Task, Variant

FOLDER = Path(__file__).parents[1] / "src/solscope/bench/solutions"


def load(monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    """The file `SOLUTION/OPERATOR`, which finds its helpers beside it."""
    path = FOLDER / f"{name}.py"
    monkeypatch.syspath_prepend(str(path.parent))
    return load_module(path)


def task_of(name: str) -> Task:
    """The executable half of an operator."""
    return operator(name).required_task


def call(found: Any, task: Task, made: Inputs) -> Outputs:
    """Outputs by name; inputs that the operator does not update must stay as they are."""

    def run(**own: Any) -> Any:
        got = found.run(**arguments(found, task, own))
        for name in made.keys() - set(task.mutates):
            if isinstance(made[name], torch.Tensor):
                assert own[name].view(torch.uint8).equal(made[name].view(torch.uint8)), name
        parts = got if isinstance(got, tuple) else () if got is None else (got,)
        assert len(parts) == len(set(task.outputs) - set(task.mutates))
        return got

    return outputs_of(task, run, made)


def check(found: Any, name: str, axes: dict[str, Any], variant: Variant = "typical") -> None:
    """Draw inputs and compare with the reference."""
    torch.set_num_threads(1)
    task = task_of(name)
    made = task.inputs(axes, Draw(seed=7, variant=variant))
    got = call(found, task, made)
    assert wrong_outputs(task, got, task.reference(**made), made) == []
    for key, output in task.outputs.items():
        assert got[key].dtype == output.torch_dtype(made)
        assert got[key].is_contiguous()
