from __future__ import annotations

import os
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

import solscope
from solscope.cache import background
from solscope.cache.content import FINE_NS
from solscope.errors import DamagedFileError, MissingToolError
from solscope.readers import nsys_report
from solscope.readers.base import Head, ReadOptions
from solscope.readers.nsys_report import READER

REPORT = b"\x0a\x1b\0\0QuadDCommon.Header\0\x01\x02"
EXPORT = """
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 3, 0);
"""


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "my run.nsys-rep"
    path.write_bytes(REPORT)
    return path


def fake_nsys(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Put a program called nsys on PATH that logs its arguments and runs `body`."""
    tool = folder / "bin" / "nsys"
    tool.parent.mkdir()
    log = folder / "arguments"
    tool.write_text(
        f"#!{sys.executable}\nimport pathlib, shutil, sys, time\n"
        f"pathlib.Path({str(log)!r}).write_text('\\n'.join(sys.argv[1:]))\n{body}\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent))


def copying(folder: Path) -> str:
    source = folder / "export.sqlite"
    with closing(sqlite3.connect(source)) as db:
        db.executescript(EXPORT)
    return f"shutil.copy({str(source)!r}, sys.argv[sys.argv.index('-o') + 1])"


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("renamed.bin", REPORT, True),
        ("run.nsys-rep", b"\x01\0\x02", True),
        ("run.qdrep", b"\x01\0\x02", True),
        ("run.bin", b"\x01\0\x02", False),
        ("run.nsys-rep", b'{"traceEvents": []}', False),
        ("run.nsys-rep", b"SQLite format 3\0QuadD", False),
    ],
)
def test_sniff(name: str, data: bytes, expected: bool) -> None:
    assert READER.sniff(Head(Path(name), data)) is expected


def test_without_nsys_the_error_is_the_command_to_run(
    report: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingToolError) as caught:
        READER.read(report, ReadOptions())
    output = report.with_suffix(".sqlite")
    command = f"nsys export --type sqlite --force-overwrite true -o '{output}' '{report}'"
    assert command in str(caught.value)
    assert "\n" not in str(caught.value)


def test_export_is_read_under_the_path_of_the_report(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_nsys(tmp_path, monkeypatch, copying(tmp_path))
    profile = READER.read(report, ReadOptions())
    assert (profile.path, profile.format) == (str(report), "nsys_report")
    assert profile.events.select("kind", "start_ns", "dur_ns").rows() == [("kernel", 1, 2)]


def test_another_nsys_reads_a_report_again(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOLSCOPE_NO_CACHE", "")
    monkeypatch.setenv("SOLSCOPE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("SOLSCOPE_CACHE_MIN_BYTES", "0")
    os.utime(report, (1, 1))
    time.sleep(2 * FINE_NS / 1e9)  # A file that changed just now is never cached.
    fake_nsys(tmp_path, monkeypatch, copying(tmp_path))
    assert solscope.open(report).events.height == 1
    background.wait()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingToolError):
        solscope.open(report)


def test_temporary_export_is_removed(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_nsys(tmp_path, monkeypatch, copying(tmp_path))
    READER.read(report, ReadOptions())
    *options, target, source = (tmp_path / "arguments").read_text().splitlines()
    assert options == ["export", "--type", "sqlite", "--force-overwrite", "true", "-o"]
    assert source == str(report)
    assert not Path(target).parent.exists()


def test_failed_export_gives_its_last_line(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_nsys(tmp_path, monkeypatch, "sys.exit('working\\n\\x1b[31mwrong version')")
    with pytest.raises(DamagedFileError, match=r"status 1 \(\[31mwrong version\)"):
        READER.read(report, ReadOptions())


def test_export_that_writes_nothing_is_an_error(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_nsys(tmp_path, monkeypatch, "")
    with pytest.raises(DamagedFileError, match=r"status 0 \(no message\)"):
        READER.read(report, ReadOptions())


def test_export_that_hangs_is_stopped(
    report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_nsys(tmp_path, monkeypatch, "time.sleep(60)")
    monkeypatch.setattr(nsys_report, "EXPORT_TIMEOUT_S", 0.2)
    with pytest.raises(DamagedFileError, match="did not finish"):
        READER.read(report, ReadOptions())
