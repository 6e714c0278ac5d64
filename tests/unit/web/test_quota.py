"""Uploads at the same time stay within the quota together."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from solscope.errors import LimitError
from solscope.web import quota
from solscope.web.library import Library
from solscope.web.quota import Quota
from solscope.web.upload import Body, UploadLimits, take_upload

TRACE = b'{"traceEvents": []}'
DEMO = "demo:vllm-b200"


@pytest.mark.parametrize("length", [0, len(TRACE)], ids=["of unknown length", "of known length"])
def test_of_two_uploads_at_once_only_what_fits_is_taken(tmp_path: Path, length: int) -> None:
    limits = UploadLimits(1000, Quota(tmp_path, len(TRACE) + 5))
    library = Library([DEMO])

    async def both() -> list[object]:
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def slow() -> AsyncIterator[bytes]:
            yield TRACE[:10]
            begun.set()
            await go_on.wait()
            yield TRACE[10:]

        async def quick() -> AsyncIterator[bytes]:
            yield TRACE

        first = asyncio.ensure_future(
            take_upload(library, tmp_path, "a.json", Body(slow(), length), limits)
        )
        await begun.wait()
        second = asyncio.ensure_future(
            take_upload(library, tmp_path, "b.json", Body(quick(), length), limits)
        )
        await asyncio.wait([second])
        go_on.set()
        return list(await asyncio.gather(first, second, return_exceptions=True))

    first, second = asyncio.run(both())
    assert not isinstance(first, BaseException)
    assert isinstance(second, LimitError)
    assert "remove some first" in str(second)
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert limits.quota.reserved == 0
    assert limits.quota.left() == 5


def test_more_than_was_announced_needs_more_room(tmp_path: Path) -> None:
    room = Quota(tmp_path, 100)
    with room.reservation(10) as held:
        held.require(10)
        assert room.left() == 90
        held.require(60)
        with pytest.raises(LimitError, match="100 bytes together"):
            held.require(101)
    assert (room.used, room.reserved) == (60, 0)


def test_unknown_lengths_are_reserved_in_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota, "STEP_BYTES", 30)
    room = Quota(tmp_path, 100)
    with room.reservation(0) as held:
        held.require(1)
        assert held.size == 30
        held.require(31)
        assert held.size == 60
        held.require(99)
        assert held.size == 99
        assert room.left() == 1


def test_a_full_folder_takes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(TRACE)
    room = Quota(tmp_path, len(TRACE))
    room.measure()
    with pytest.raises(LimitError, match="0 are left"), room.reservation(0):
        pass


def test_the_folder_is_measured_once_per_upload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota, "STEP_BYTES", 2)
    room, walks, walk = Quota(tmp_path, 100), [], os.walk

    def counted(folder: Path) -> object:
        walks.append(threading.current_thread())
        return walk(folder)

    monkeypatch.setattr("os.walk", counted)

    async def pieces() -> AsyncIterator[bytes]:
        for byte in TRACE:
            yield bytes([byte])

    limits = UploadLimits(1000, room)
    asyncio.run(take_upload(Library([DEMO]), tmp_path, "a.json", Body(pieces()), limits))
    assert len(walks) == 1
    assert walks[0] is not threading.main_thread()
    assert (room.used, room.reserved, room.at_work) == (len(TRACE), 0, set())


def test_what_killed_uploads_left_counts_and_uploads_at_work_do_not(tmp_path: Path) -> None:
    for name in (".a.json.k2x_81ab", ".b.json.k2x_81ab", "run"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.json").write_bytes(TRACE)
    room = Quota(tmp_path, 1000)
    with room.reservation(100) as held:
        held.write_in(tmp_path / ".b.json.k2x_81ab")
        room.measure()
        assert room.left() == 1000 - 2 * len(TRACE) - 100
    assert room.left() == 1000 - 2 * len(TRACE)
    room.measure()
    assert room.left() == 1000 - 3 * len(TRACE)


def test_a_file_that_cannot_be_looked_at_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(TRACE)
    (tmp_path / "loop.json").symlink_to("loop.json")
    (tmp_path / "nowhere.json").symlink_to("gone/b.json")
    room = Quota(tmp_path, 100)
    room.measure()
    assert room.left() == 100 - len(TRACE)


def test_an_upload_that_ends_while_the_folder_is_measured_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = Quota(tmp_path, 100)

    def in_folder() -> int:
        with room.reservation(10) as held:
            held.require(10)
        return 0

    monkeypatch.setattr(room, "_in_folder", in_folder)
    room.measure()
    assert room.left() == 90
