"""Opening a profile: reading that begins before the data libraries are imported."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import solscope
from solscope.errors import InputError
from solscope.readers import ReadOptions, opening
from solscope.readers.kineto import READER
from solscope.readers.kineto_core import core_name
from solscope.readers.opening import Opening

DEMO = "demo:vllm-mi300x-graph"


def reading() -> list[str]:
    """Threads that decompress or scan."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name in ("solscope-inflate", "solscope-scan")]


@pytest.mark.usefixtures("core")
def test_starting_imports_no_data_library() -> None:
    # The scanner in Python works with NumPy.
    unwanted = {"polars", "numpy"} if core_name() == "native" else {"polars"}
    code = (
        "import sys\n"
        "from solscope.readers import opening\n"
        f"with opening('{DEMO}') as one:\n"
        "    one.start()\n"
        "    assert one._started is not None\n"
        f"    assert not {unwanted} & set(sys.modules)\n"
        "    assert one.profile().events.height > 1000\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_started_profile_is_the_same() -> None:
    with opening(DEMO) as started:
        started.start()
        started.start()
        profile = started.profile()
    expected = solscope.open(DEMO)
    assert profile.events.equals(expected.events)
    assert profile.metadata == expected.metadata
    assert reading() == []


def test_it_can_be_opened_twice() -> None:
    with opening(DEMO) as one:
        one.start()
        assert one.profile().events.height == one.profile().events.height > 0


def test_what_nobody_awaits_is_stopped() -> None:
    with opening(DEMO) as one:
        one.start()
    assert reading() == []


def test_what_is_dropped_is_stopped() -> None:
    one = opening(DEMO)
    one.start()
    del one
    assert reading() == []


@pytest.mark.parametrize("content", [None, b"", b"hello", b'{"a": 1}', b"\x1f\x8b\x08broken"])
def test_errors_are_raised_when_the_profile_is_asked_for(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "trace.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as expected:
        solscope.open(path)
    with opening(path) as one:
        one.start()
        with pytest.raises(InputError) as raised:
            one.profile()
    assert str(raised.value) == str(expected.value)


def test_a_trace_that_turns_out_to_be_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('{"schemaVersion": 1, "other": []}')
    with opening(path) as one:
        one.start()
        with pytest.raises(InputError, match="without a traceEvents array"):
            one.profile()
    assert reading() == []


def test_a_cached_profile_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOLSCOPE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("SOLSCOPE_CACHE_MIN_BYTES", "0")
    monkeypatch.setenv("SOLSCOPE_NO_CACHE", "")
    with opening(DEMO) as first:
        first.start()
        assert first._started is not None
        first.profile()
        assert first.key() is not None  # the digest is stored
    with opening(DEMO) as second:
        second.start()
        assert second._started is None


def test_another_reader_takes_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    class Other:
        name = summary = "other"
        sniff = READER.sniff

        def read(self, path: Path, options: ReadOptions) -> solscope.Profile:
            assert reading() == []
            return READER.read(path, options)

    path = opening(DEMO)._path
    with Opening(str(path), ReadOptions(), lambda _: Other(), lambda _: READER) as one:
        one.start()
        assert one.profile().events.height > 0
