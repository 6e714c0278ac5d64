"""Twins of a draw."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from solscope.bench.pool import arena as memory  # noqa: E402
from solscope.bench.pool.inputs import InputSets  # noqa: E402
from solscope.bench.run import check  # noqa: E402
from solscope.bench.run.reference import Wanted  # noqa: E402
from solscope.operators import operator  # noqa: E402
from solscope.operators.tasks.paging import STALE, STALE_KEY  # noqa: E402
from solscope.operators.tasks.remembered import remembered  # noqa: E402


@pytest.mark.parametrize(
    ("name", "axes"),
    [
        ("unified_attention", {"sequences": [[9, 41, 3], [7, 7, 1]], "block_size": 16}),
        ("paged_attention_decode", {"contexts": [[41, 3], [7, 1]], "block_size": 16}),
        ("mla_decode_attention", {"contexts": [[200, 3], [7, 1]]}),
    ],
)
def test_twins_of_a_paged_cache_hold_no_stale_data(name: str, axes: dict[str, Any]) -> None:
    """A finite value for masked scores is right as long as no true score is far below it."""
    found = operator(name)
    assert found.task is not None
    heads = {"q_heads": 4, "kv_heads": 2, "head_dim": 8, "latent_dim": 16, "rope_dim": 8}
    axes |= {key: value for key, value in heads.items() if key in found.axes}
    arenas = {what: memory.Arena("cpu") for what in ("inputs", "outputs")}
    sets = InputSets(arenas["inputs"], found.task)
    twins = 0
    for turn in range(12):
        sets.draw(axes, 1)
        before = {key: value.clone() for key, value in sets.tensors(0).items() if "cache" in key}
        sets.repeat_rows(0, sets.changes(0, (), inner=turn % 2 == 1))
        twins += any(not torch.equal(sets.tensors(0)[key], before[key]) for key in before)
        outputs = found.task.reference(**sets.inputs(0))
        assert all(value.abs().max() < STALE / 100 for value in outputs.values())
        assert found.task.whole is not None
        for key, rows in found.task.whole(sets.tensors(0)).items():
            filled = STALE if key == "v_cache" else STALE_KEY
            clean = (before[key] != filled).flatten(1).all(1).nonzero().flatten()
            assert sorted(rows.tolist()) == clean.tolist()
    assert twins > 8
    for arena in arenas.values():
        arena.close()


def test_nothing_is_remembered_of_inputs_after_a_comparison() -> None:
    """What is made of large inputs is large."""
    import torch

    asked = []
    answer = remembered(lambda inputs: asked.append(inputs))
    inputs = {"x": torch.ones(2)}
    answer(inputs)
    answer(inputs)
    assert len(asked) == 1
    right = Wanted({}, inputs, lambda: inputs)
    check.compare(operator("rms_norm").required_task, {}, right, check.Verdict())
    answer(inputs)
    assert len(asked) == 2
