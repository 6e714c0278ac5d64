"""Tensors in shared memory, and their fingerprints."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from solscope.bench.pool import arena as memory  # noqa: E402


def test_tensors_keep_their_strides_in_an_arena() -> None:
    arena = memory.Arena("cpu")
    source = torch.arange(24.0).view(4, 6).t()[1:5]
    arena.reserve(4096)
    spec = memory.place(arena, source, 512)
    found = memory.view(arena, spec)
    assert found.stride() == source.stride()
    assert torch.equal(found, source)
    before = memory.fingerprint(found)
    found[2, 1] += 1
    assert not torch.equal(memory.fingerprint(found), before)
    arena.close()


def test_a_fingerprint_sees_every_change_of_small_tensors() -> None:
    arena = memory.Arena("cpu")
    arena.reserve(1 << 10)
    found = memory.view(arena, memory.place(arena, torch.tensor([7, 7, 7], dtype=torch.uint8), 0))
    before = memory.fingerprint(found)
    found.copy_(torch.tensor([9, 6, 7], dtype=torch.uint8))  # 1 x 7 + 2 x 7 = 1 x 9 + 2 x 6
    assert not torch.equal(memory.fingerprint(found), before)
    arena.close()


def test_a_fingerprint_sees_swapped_values_in_large_tensors() -> None:
    arena = memory.Arena("cpu")
    arena.reserve(1 << 20)
    memory.place(arena, torch.arange(100_000, dtype=torch.int64), 0)
    found = arena.at(0, [100_000], torch.int64)
    before = memory.fingerprint(found)
    found[10], found[50_000] = int(found[50_000]), int(found[10])
    assert not torch.equal(memory.fingerprint(found), before)
    arena.close()


@pytest.mark.parametrize("size", [1 << 20, 12 << 30, 16 << 30])
def test_a_fingerprint_is_small_enough_to_leave_large_memory_alone(size: int) -> None:
    """From a MiB on, torch takes a part of a block that is there for large tensors."""
    found = memory.fingerprint(torch.empty(size - 512, dtype=torch.uint8, device="meta"))
    assert found.nbytes <= 1 << 20


@pytest.mark.parametrize("place", [0, 3_000, 3_999])
def test_a_fingerprint_sees_every_part_of_a_wide_grid(
    monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    monkeypatch.setattr(memory, "NARROWEST", 16)
    values = torch.arange(4_000, dtype=torch.uint8)
    before = memory.fingerprint(values)
    assert len(before) < 16 + 32 + 16 + 8  # 500 words in rows of 16, 4 more, no bytes
    values[place] += 1
    assert (memory.fingerprint(values) != before).sum() <= 2
    assert not torch.equal(memory.fingerprint(values), before)


@pytest.mark.parametrize(
    ("one", "other"), [(0, 8), (0, 128), (3_712, 3_840)], ids=["in a row", "in a column", "rows"]
)
def test_a_fingerprint_sees_swapped_words_and_rows(
    monkeypatch: pytest.MonkeyPatch, one: int, other: int
) -> None:
    """Of a grid of 31 rows of 16 words, which are 128 bytes."""
    monkeypatch.setattr(memory, "NARROWEST", 16)
    values = torch.randint(0, 256, (3_968,), generator=torch.Generator().manual_seed(1)).byte()
    swapped = values.clone()
    for place in range(8 if one == 0 else 128):
        swapped[one + place], swapped[other + place] = values[other + place], values[one + place]
    assert not torch.equal(memory.fingerprint(swapped), memory.fingerprint(values))


def test_a_fingerprint_sees_bytes_that_fill_no_word() -> None:
    values = torch.zeros(8 * memory.NARROWEST + 11, dtype=torch.uint8)
    before = memory.fingerprint(values)
    values[-1] = 1
    assert not torch.equal(memory.fingerprint(values), before)


def test_a_fingerprint_of_a_small_tensor_is_its_bytes() -> None:
    values = torch.tensor([7, 1, 0, 255, 9], dtype=torch.uint8)
    assert memory.fingerprint(values[1:4]).tolist() == [1, 0, 255]


def test_an_arena_that_found_no_room_can_be_asked_for_less() -> None:
    arena = memory.Arena("cpu")
    with pytest.raises(MemoryError, match="no room"):
        arena.reserve(1 << 60)
    assert Path(arena.handle().path or "").stat().st_size == arena.data.numel() == memory.ALIGNMENT
    assert arena.reserve(1 << 10)
    arena.data.fill_(1)
    arena.wipe()
    arena.close()
