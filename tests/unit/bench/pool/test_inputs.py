"""Sets of inputs in shared memory."""

from __future__ import annotations

from functools import partial

import pytest

torch = pytest.importorskip("torch")

from solscope.bench.pool import arena as memory  # noqa: E402
from solscope.bench.pool.inputs import InputSets, Repeated  # noqa: E402
from solscope.bench.run.reference import wanted  # noqa: E402
from solscope.bench.run.timing import restore_all  # noqa: E402
from solscope.operators import operator  # noqa: E402
from solscope.operators.task import Draw  # noqa: E402


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
    sets.redraw(0, seed=1)
    assert not torch.equal(sets.tensors(0)["q"], twin)
    sets.restore(0)
    assert torch.equal(sets.tensors(0)["q"], twin)
    sets.arena.close()


def test_what_a_layer_computes_anew_can_be_hidden_and_comes_back() -> None:
    task = operator("fused_moe").task
    assert task is not None
    sets = InputSets(memory.Arena("cpu"), task)
    axes = {"tokens": 4, "hidden": 8, "intermediate": 4, "experts": 4, "top_k": 2}
    sets.draw(axes, 2)
    before = {name: value.clone() for name, value in sets.tensors(1).items() if name != "out_dtype"}
    sets.hide(shown=task.weights)
    hidden = sets.tensors(1)
    assert hidden["hidden_states"].isnan().all()
    assert (hidden["topk_ids"] == -1).all()
    assert torch.equal(hidden["w1"], before["w1"])
    for index in range(2):
        sets.restore(index)
    assert all(torch.equal(sets.tensors(1)[name], value) for name, value in before.items())
    sets.arena.close()


def test_rows_change_but_for_those_that_must_stay() -> None:
    task = operator("fused_add_rms_norm").task
    assert task is not None
    sets = InputSets(memory.Arena("cpu"), task)
    sets.draw({"tokens": 6, "hidden": 8}, 1)
    assert {row.name for row in sets.changes(0, (), inner=False)} == {"x", "residual", "weight"}
    assert {row.name for row in sets.changes(0, task.mutates, inner=False)} == {"weight"}
    inner = [row.to for _ in range(40) for row in sets.changes(0, (), inner=True)]
    assert set(inner) <= set(range(1, 7))
    sets.repeat_rows(0, sets.changes(0, (), inner=False))
    changed = sets.tensors(0)["x"].clone()
    sets.forget_changes()
    sets.restore(0)
    assert not torch.equal(sets.tensors(0)["x"], changed)
    sets.arena.close()


@pytest.mark.parametrize("held_bytes", [0, 1 << 30])
def test_what_is_right_does_not_depend_on_memory_that_workers_write_to(
    monkeypatch: pytest.MonkeyPatch, held_bytes: int
) -> None:
    monkeypatch.setattr("solscope.bench.pool.inputs.HELD_BYTES", held_bytes)
    task = operator("rms_norm").required_task
    sets = InputSets(memory.Arena("cpu"), task)
    sets.draw({"tokens": 6, "hidden": 8}, 2)
    drawn = sets.tensors(1)["x"].clone()
    rows = [Repeated("x", dim=0, row=4, to=2)]
    sets.tensors(1)["x"].zero_()
    assert sets.changed(1) == ["x"]
    assert torch.equal(sets.inputs(1)["x"], drawn)
    sets.repeat_rows(1, rows)  # from what was drawn, not from the zeros
    drawn[2] = drawn[4]
    sets.tensors(1)["x"].zero_()
    assert torch.equal(sets.inputs(1)["x"], drawn)
    source = sets.source(1)
    sets.redraw(1, seed=7)
    assert torch.equal(source()["x"], drawn)
    sets.let_go()
    sets.restore(1)
    assert torch.equal(sets.tensors(1)["x"], drawn)
    assert sets.changed(1) == sets.changed(0) == []
    assert len(sets._held) == (2 if held_bytes else 1)
    sets.let_go()
    assert len(sets._held) == (2 if held_bytes else 0)
    sets.arena.close()


@pytest.mark.parametrize("held_bytes", [0, 1 << 30])
@pytest.mark.parametrize("free_bytes", [0, 1 << 40])
def test_memory_that_made_large_values_goes_back_where_it_is_short(
    monkeypatch: pytest.MonkeyPatch, held_bytes: int, free_bytes: int
) -> None:
    asked: list[tuple[str, float]] = []
    released: list[tuple[str, int]] = []

    def is_short(device: str, size: float) -> bool:
        asked.append((device, size))
        return free_bytes < size

    def release(device: str, keep: int) -> None:
        assert not sets._held
        released.append((device, keep))

    monkeypatch.setattr("solscope.bench.pool.inputs.HELD_BYTES", held_bytes)
    monkeypatch.setattr("solscope.bench.pool.inputs.is_short", is_short)
    monkeypatch.setattr("solscope.bench.pool.inputs.release", release)
    sets = InputSets(memory.Arena("cpu"), operator("rms_norm").required_task)
    sets.draw({"tokens": 512, "hidden": 8}, 3)
    restore_all(sets)
    large = not held_bytes
    one_set = sum(memory.aligned(8 * rows * 2) for rows in (512, 1))
    assert asked == [("cpu", one_set)] * large
    assert released == [("cpu", 0)] * (large and not free_bytes)
    sets.arena.close()


def test_a_reference_keeps_only_the_values_of_what_is_updated() -> None:
    axes = {"tokens": 4, "hidden": 8}
    for name, kept in (("rms_norm", []), ("fused_add_rms_norm", ["residual", "x"])):
        task = operator(name).required_task
        inputs = dict(task.inputs(axes, Draw(seed=1)))
        right = wanted(task, partial(dict, inputs), None)
        assert right.source().keys() == inputs.keys()
        tensors = {key: value for key, value in right.inputs.items() if hasattr(value, "device")}
        assert sorted(key for key, value in tensors.items() if value.device.type == "cpu") == kept
