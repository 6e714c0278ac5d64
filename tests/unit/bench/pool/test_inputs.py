"""Sets of inputs in shared memory."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from solscope.bench.pool import arena as memory  # noqa: E402
from solscope.bench.pool.inputs import InputSets, Repeated  # noqa: E402
from solscope.operators import operator  # noqa: E402


def test_a_twin_is_written_again_as_a_twin() -> None:
    task = operator("chunk_delta_rule_output").task
    assert task is not None
    sizes = dict.fromkeys(("v_heads", "q_heads", "key_dim", "value_dim"), 8)
    sets = InputSets(memory.Arena("cpu"), task)
    sets.draw({"sequences": 1, "tokens": 100, "chunk_size": 64, **sizes}, 1)
    drawn = sets.tensors(0)["q"].clone()
    sets.repeat_rows(0, [Repeated("q", dim=1, row=7, to=3)])
    twin = sets.tensors(0)["q"].clone()
    assert torch.equal(twin[:, 3], drawn[:, 7])
    assert torch.equal(twin[:, 4:], drawn[:, 4:])
    assert sets.changed(0) == []
    sets.tensors(0)["q"].fill_(1.0)
    assert sets.changed(0) == ["q"]
    sets.restore(0)
    assert torch.equal(sets.tensors(0)["q"], twin)
    assert sets.changed(0) == []
    sets.redraw(0)
    assert not torch.equal(sets.tensors(0)["q"], twin)
    sets.restore(0)
    assert torch.equal(sets.tensors(0)["q"], twin)
    sets.arena.close()
