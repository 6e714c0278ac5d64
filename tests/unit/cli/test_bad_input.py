"""The command line on bad input: exit code 2 and one line on stderr, or a result with a warning."""

from __future__ import annotations

import gzip
import json
import os
import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from solscope.cli import run
from solscope.readers import open as open_profile
from solscope.readers.source import FREE_BYTES

SRC = Path(__file__).parents[3] / "src"
KERNEL = {
    "ph": "X",
    "cat": "kernel",
    "name": "k",
    "ts": 1,
    "dur": 5,
    "args": {"device": 0, "stream": 7},
}


def trace(*events: dict[str, Any]) -> bytes:
    return json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Run `solscope show`, which must fail properly; returns its one line."""
    assert run(["show", *map(str, arguments)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1, err
    assert err.startswith("solscope: ")
    return err


def shown(capsys: pytest.CaptureFixture[str], *arguments: str | Path, command: str = "show") -> str:
    """Run a command, which must succeed; returns what it prints."""
    assert run([command, *map(str, arguments)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def bomb(size: int) -> bytes:
    """A trace with one kernel behind `size` bytes of white space, compressed a thousandfold."""
    return gzip.compress(much_space(size), compresslevel=6)


def much_space(size: int) -> bytes:
    return b'{"traceEvents": [' + b" " * size + json.dumps(KERNEL).encode() + b"]}"


# Refused


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (random.Random(1).randbytes(5000), "unknown profile format"),
        (b"hello\nworld\n", "text without a kernel table"),
        (b'{"a": 1}', "JSON, but not a trace"),
        (b"[1, 2, 3]", "JSON, but not a trace"),
        (b'{"schemaVersion": 1, "x": []}', "without a traceEvents array"),
        (b'{"schemaVersion": 1, "traceEv', "cut off before its first event"),
        (b'{"traceEvents": [{"ph": "X", "na', "no event in this trace can be read"),
        (b"\x1f\x8b" + b"\0" * 50, "damaged compressed file"),
        (gzip.compress(trace(KERNEL), mtime=0)[:12], "damaged compressed file"),
        (b"\x28\xb5\x2f\xfd" + b"\xff" * 50, "damaged compressed file"),
        (b'{"rocprofiler-sdk-tool": [{"agents": [', "damaged or truncated rocprofv3 JSON"),
        (b"SQLite format 3\0" + b"\0" * 200, "SQLite"),
        (b"PAR1" + b"\0" * 50, "Parquet"),
        (b"t_ns,metric,device,value\n", "none of 0 rows"),
    ],
)
def test_bad_content(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, says: str
) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    assert says in refused(capsys, path)


def test_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no such file" in refused(capsys, tmp_path / "absent.json")


def test_glob_without_match(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no profile matches" in refused(capsys, tmp_path / "*.json")


def test_folder_without_profiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("nothing here")
    (tmp_path / "empty.json").write_bytes(b"")
    assert "no profile in this folder" in refused(capsys, tmp_path)


def test_an_option_that_is_too_long_for_a_name_is_no_file() -> None:
    assert run(["kernels", "--top", "2", "--op", 300 * "x", "demo:vllm-b200"]) == 0


def test_name_that_is_too_long(capsys: pytest.CaptureFixture[str]) -> None:
    assert "too long" in refused(capsys, "x" * 300)


def test_file_below_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_text("x")
    refused(capsys, tmp_path / "a" / "b.json")


def test_unknown_demo(capsys: pytest.CaptureFixture[str]) -> None:
    assert "vllm-b200" in refused(capsys, "demo:absent")


def test_permission_denied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "secret.json"
    path.write_bytes(trace(KERNEL))
    path.chmod(0)
    if os.access(path, os.R_OK):  # root may read anything: let the system call refuse instead

        def denied(*_arguments: object, **_options: object) -> None:
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(Path, "open", denied)
    assert "Permission denied" in refused(capsys, path)


def test_folder_that_may_not_be_entered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(self: Path, **_options: object) -> os.stat_result:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "stat", denied)
    assert "Permission denied" in refused(capsys, tmp_path / "trace.json")


def test_sqlite_of_another_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE notes (text)")
    db.close()
    assert "not an Nsight Systems export" in refused(capsys, path)


def test_compression_bomb_is_refused_quickly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(bomb(FREE_BYTES + (1 << 20)))
    begin = time.process_time()
    assert "--max-expansion" in refused(capsys, path)
    assert time.process_time() - begin < 20


def test_zstd_bomb_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import zstandard

    path = tmp_path / "bomb.json.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(much_space(FREE_BYTES + (1 << 20))))
    assert "--max-expansion" in refused(capsys, path)


def test_a_raised_limit_lets_the_bomb_through(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(bomb(FREE_BYTES + (1 << 20)))
    assert "1 kernels" in shown(capsys, "--max-expansion", "2000", path)


def test_a_small_file_may_grow_as_it_likes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "small.json.gz"
    path.write_bytes(bomb(1 << 20))
    assert "1 kernels" in shown(capsys, path)


def test_hostile_file_name_in_the_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "\x1b" not in refused(capsys, tmp_path / "a\x1b[31m\nb.json")


# Read, with a warning


@pytest.mark.parametrize(
    ("content", "warning"),
    [
        (trace(KERNEL, KERNEL)[:-40], "warning truncated"),
        (trace({**KERNEL, "dur": None}, KERNEL), "warning missing_duration"),
        (trace({**KERNEL, "dur": -1}, KERNEL), "warning negative_duration"),
        (trace({**KERNEL, "ts": 1e300}, KERNEL), "warning absurd_number"),
        (trace({**KERNEL, "ts": 10**40}, KERNEL), "warning absurd_number"),
        (trace({**KERNEL, "cat": "quantum"}, KERNEL), "warning unknown_category"),
        (trace(KERNEL, KERNEL, KERNEL).replace(b'"k"', b'"a"b"', 1), "warning damaged_events"),
    ],
)
def test_usable_content(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, warning: str
) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    assert warning in shown(capsys, path)


def test_gzip_cut_in_the_middle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [{**KERNEL, "name": f"kernel_{index * 7919 % 10007}"} for index in range(2000)]
    packed = gzip.compress(trace(*events))
    path = tmp_path / "trace.json.gz"
    path.write_bytes(packed[: len(packed) // 2])
    assert "warning truncated" in shown(capsys, path)


def test_a_trace_without_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(trace())
    assert "0 kernels" in shown(capsys, path)


# Hostile text

HOSTILE = "[bold]x[/bold] \x1b[31m <script> \x9b2J \u202e \r\n"


@pytest.mark.parametrize("command", ["show", "kernels"])
@pytest.mark.parametrize("option", ["--full-names", "--json", None])
def test_names_cannot_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, option: str | None
) -> None:
    path = tmp_path / "trace.json"
    category = {**KERNEL, "cat": f"odd {HOSTILE}"}
    device = {"id": 0, "name": f"GPU {HOSTILE}"}
    events = [{**KERNEL, "name": HOSTILE}, category]
    path.write_text(json.dumps({"deviceProperties": [device], "traceEvents": events}))
    out = shown(capsys, path, *([option] if option else []), command=command)
    assert "\x1b" not in out
    assert "[bold]" in out
    assert "<script>" in out


def test_control_characters_of_names_are_shown_as_escapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(trace({**KERNEL, "name": HOSTILE}))
    out = shown(capsys, path, "--full-names")
    assert not {"\x1b", "\x9b", "\u202e", "\r"} & set(out)
    assert r"\x1b[31m" in out


# As a program


def solscope(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    command = [sys.executable, "-m", "solscope", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_program_on_bad_input(tmp_path: Path) -> None:
    done = solscope("show", tmp_path / "absent.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [f"solscope: {tmp_path / 'absent.json'}: no such file"]


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    done = solscope("--debug", "show", tmp_path / "absent.json")
    assert done.returncode == 2
    assert "Traceback" in done.stderr


# Activities without a time, without a name, and numbers that fit no column


def untimed(**header: Any) -> bytes:
    """GPU activities that have a duration but no start."""
    events = [{key: value for key, value in KERNEL.items() if key != "ts"}] * 20
    call = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 5, "dur": 9, "pid": 1, "tid": 1}
    return json.dumps({"schemaVersion": 1, **header, "traceEvents": [*events, call]}).encode()


@pytest.mark.parametrize("command", ["show", "kernels", "hotspots"])
def test_kernels_without_a_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(untimed())
    assert shown(capsys, path, command=command)
    assert run(["report", str(path), "-o", str(tmp_path / "report.html")]) == 0


def test_kernels_without_a_start_beside_a_metrics_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zero = 1_700_000_000_000_000_000
    lines = [f"{zero + at},gpu_util,0,50" for at in range(20)]
    (tmp_path / "trace.metrics.csv").write_text("\n".join(["t_ns,metric,device,value", *lines]))
    events = [{key: value for key, value in KERNEL.items() if key != "ts"}] * 20
    document = {"schemaVersion": 1, "baseTimeNanoseconds": zero, "traceEvents": events}
    (tmp_path / "trace.json").write_text(json.dumps(document))
    assert "no event has a time" in shown(capsys, tmp_path / "trace.json")


def test_a_diagnosis_of_kernels_and_copies_without_a_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events: list[dict[str, Any]] = []
    for step in range(12):
        at, host = 1000 * step, {"ph": "X", "pid": 1, "tid": 1}
        name = f"ProfilerStep#{step}"
        events.append(host | {"cat": "user_annotation", "name": name, "ts": at, "dur": 900})
        for i in range(6):
            link = {"correlation": 100 * step + i + 1}
            events += [
                host
                | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": link}
                | {"ts": at + 10 * i, "dur": 5},
                {"ph": "X", "cat": "kernel" if i < 4 else "gpu_memcpy"}
                | {"ts": at + 100 * i + 50, "dur": 40}
                | {"args": {"device": 0, "stream": 7} | link},
            ]
    path = tmp_path / "trace.json"
    path.write_bytes(trace(*events))
    assert run(["diagnose", str(path), str(path), "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["schema"].startswith("solscope.diagnose")


@pytest.mark.parametrize(
    "changes",
    [{"rank": 1 << 40}, {"world_size": 1 << 40}, {"unix_offset_ns": 1 << 63}],
)
def test_a_saved_profile_with_numbers_out_of_range(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, int]
) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(trace(KERNEL | {"name": "ncclDevKernel_AllReduce"}))
    manifest = open_profile(path).save(tmp_path / "saved") / "profile.json"
    document = json.loads(manifest.read_bytes())
    document["metadata"] |= changes
    manifest.write_text(json.dumps(document))
    assert "a number is out of range" in refused(capsys, manifest.parent)


def test_a_hardware_file_that_is_nested_too_deeply(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "trace.json").write_bytes(trace(KERNEL))
    (tmp_path / "deep.toml").write_text("a = " + "[" * 100_000)
    deep = str(tmp_path / "deep.toml")
    assert run(["operators", str(tmp_path / "trace.json"), "--hardware", deep]) == 2
    assert "not a hardware file" in capsys.readouterr().err
