"""The digest of a file: looked up when that is safe, computed when it is not."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from solscope.cache import content
from solscope.cache.content import COARSE_NS, FileState

LONG_AGO_NS = 1_600_000_000_123_456_789


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "index"


def old_file(path: Path, text: str = "content " * 100_000) -> Path:
    """A file that was not changed just now. Its time of change cannot be set, so wait it out."""
    path.write_text(text)
    os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
    while time.time_ns() - path.stat().st_ctime_ns < content.FINE_NS:
        time.sleep(0.01)
    return path


def test_a_file_that_was_never_seen_is_not_read(tmp_path: Path, index: Path) -> None:
    assert FileState(old_file(tmp_path / "a"), index).known_digest() is None


def test_a_file_that_was_seen_is_known_without_reading_it(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = old_file(tmp_path / "a")
    digest = FileState(path, index).digest()
    assert digest is not None
    monkeypatch.setattr(FileState, "digest", lambda self: pytest.fail("it was read"))
    assert FileState(path, index).known_digest() == digest


def test_a_copy_and_a_touched_file_are_known_by_their_content(tmp_path: Path, index: Path) -> None:
    path = old_file(tmp_path / "a")
    digest = FileState(path, index).digest()
    shutil.copyfile(path, tmp_path / "b")
    os.utime(path)
    os.utime(tmp_path / "b", ns=(LONG_AGO_NS, LONG_AGO_NS))
    time.sleep(2 * content.FINE_NS / 1e9)
    assert FileState(path, index).known_digest() == digest
    assert FileState(tmp_path / "b", index).known_digest() == digest


def test_a_change_between_the_samples_that_keeps_size_and_time_is_noticed(
    tmp_path: Path, index: Path
) -> None:
    path = old_file(tmp_path / "a")
    before = FileState(path, index).digest()
    with path.open("r+b") as file:
        file.seek(content.SAMPLE_BYTES * 2)
        file.write(b"CHANGED!")
    os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
    time.sleep(2 * content.FINE_NS / 1e9)
    after = FileState(path, index).known_digest()
    assert after is not None
    assert after != before


def test_a_file_that_changes_while_it_is_read_has_no_digest(tmp_path: Path, index: Path) -> None:
    path = old_file(tmp_path / "a")
    state = FileState(path, index)
    with path.open("a") as file:
        file.write("more")
    assert state.digest() is None
    assert not index.exists()


@pytest.mark.parametrize(("age_ns", "coarse"), [(0, False), (COARSE_NS - 10**8, True)])
def test_a_file_that_was_changed_just_now_has_no_digest(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch, age_ns: int, coarse: bool
) -> None:
    """Another change in the same tick of the clock would not show."""
    path = old_file(tmp_path / "a")
    changed_ns = LONG_AGO_NS // 10**9 * 10**9 if coarse else LONG_AGO_NS
    fields = list(path.stat())
    found = os.stat_result(
        fields, {"st_mtime_ns": changed_ns, "st_ctime_ns": changed_ns, "st_atime_ns": 0}
    )
    monkeypatch.setattr(Path, "stat", lambda self, **_: found)
    monkeypatch.setattr(time, "time_ns", lambda: changed_ns + age_ns)
    assert FileState(path, index).digest() is None
    monkeypatch.setattr(time, "time_ns", lambda: changed_ns + COARSE_NS + 1)
    assert FileState(path, index).digest() is not None


def test_a_damaged_index_is_as_good_as_none(tmp_path: Path, index: Path) -> None:
    path = old_file(tmp_path / "a")
    FileState(path, index).digest()
    for name in index.iterdir():
        name.write_bytes(b"\xff not a digest")
    assert FileState(path, index).known_digest() is None


def test_a_file_that_is_gone_has_no_digest(tmp_path: Path, index: Path) -> None:
    path = old_file(tmp_path / "a")
    state = FileState(path, index)
    path.unlink()
    assert state.known_digest() is None
    assert state.digest() is None
