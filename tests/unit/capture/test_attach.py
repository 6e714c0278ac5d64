"""`solscope capture` on processes that run, and on commands."""

from __future__ import annotations

import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import solscope
from solscope.capture.attach import Target, attach, find_process, run
from solscope.cli import run as program
from solscope.errors import InputError, UsageError

if not sys.platform.startswith("linux"):
    pytest.skip("the sensors are those of Linux", allow_module_level=True)

LONGEST_S = 300
"""What a slow machine may need for anything."""


def metrics(path: Path) -> set[str]:
    table = solscope.open(path).metrics
    assert table is not None
    return set(table["metric"])


def test_a_process_that_runs(tmp_path: Path) -> None:
    path = tmp_path / "run.metrics.csv"
    recording = attach(os.getpid(), Target(path, period_ms=10, seconds=0.2))
    assert recording.pid == os.getpid()
    assert recording.samples > 0
    assert {"oncpu_ns", "process_cpu_ns", "affinity_cores"} <= metrics(path)
    assert [file.name for file in tmp_path.iterdir()] == ["run.metrics.csv"]


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "run.metrics.parquet"
    attach(os.getpid(), Target(path, seconds=0.2))
    assert path.read_bytes()[:4] == b"PAR1"
    assert "oncpu_ns" in metrics(path)
    assert [file.name for file in tmp_path.iterdir()] == ["run.metrics.parquet"]


def until_sampled(path: Path, size: int = 200) -> str:
    """Shell words that wait until samples were written, for at most five minutes."""
    written = shlex.quote(f"{path}.partial")
    enough = f"[ $(stat -c %s {written} 2>/dev/null || echo 0) -ge {size} ]"
    return f"for i in $(seq 15000); do {enough} && break; sleep 0.02; done"


def test_a_command_and_its_exit_code(tmp_path: Path) -> None:
    path = tmp_path / "run.metrics.csv"
    command = ["sh", "-c", f"{until_sampled(path)}; exit 3"]
    recording = run(command, Target(path, period_ms=10))
    assert recording.exit_code == 3
    assert "oncpu_ns" in metrics(path)


def test_a_command_that_is_asked_to_end(tmp_path: Path) -> None:
    target = Target(tmp_path / "run.metrics.csv", seconds=0.2)
    recording = run(["sleep", "60"], target)
    assert recording.exit_code == -signal.SIGTERM
    assert recording.stopped
    assert not recording.failed


def test_a_command_outlives_the_process_found_in_it(tmp_path: Path) -> None:
    path = tmp_path / "run.metrics.csv"
    script = tmp_path / "found-below.sh"
    script.write_text(until_sampled(path))
    command = ["sh", "-c", f"sh {shlex.quote(str(script))} & wait; sleep 0.4; exit 5"]
    recording = run(command, Target(path), find="found-below.sh")
    assert (recording.exit_code, recording.stopped, recording.failed) == (5, False, True)


def test_a_request_to_end_is_passed_on_at_once(tmp_path: Path) -> None:
    path = tmp_path / "run.metrics.csv"
    # With more patience than this test has, for a command that is ending by itself after a Ctrl-C.
    code = (
        "import sys, solscope.capture.attach as attach; from solscope.cli import main;"
        f"attach.PATIENCE_S = {2 * LONGEST_S}; main(sys.argv[1:])"
    )
    words = ["capture", "-o", str(path), "--", "sleep", f"{2 * LONGEST_S}"]
    capture = subprocess.Popen([sys.executable, "-c", code, *words], stderr=subprocess.PIPE)
    written = path.with_name("run.metrics.csv.partial")
    while not written.exists() or written.stat().st_size < 200:
        time.sleep(0.01)
    capture.terminate()
    _, err = capture.communicate(timeout=LONGEST_S)
    assert capture.returncode == 0, err
    assert "oncpu_ns" in metrics(path)


def test_a_full_disk_ends_the_sampling_with_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "run.metrics.csv"
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, limit[1]))
    try:
        # The file gets its name when sampling has ended, while the command still runs.
        named = f"[ -e {shlex.quote(str(path))} ] && break; sleep 0.02"
        command = ["sh", "-c", f"for i in $(seq 15000); do {named}; done; exit 0"]
        recording = run(command, Target(path, period_ms=10))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert recording.lost == {"the file": "File too large"}
    assert recording.failed
    assert recording.exit_code == 0
    text = path.read_text()
    assert 0 < len(text) <= 3000
    assert text.endswith("\n")
    assert "oncpu_ns" in metrics(path)


def test_a_process_below_the_command(tmp_path: Path) -> None:
    seconds = "61.0625"
    command = ["sh", "-c", f"sleep {seconds} & wait"]
    target = Target(tmp_path / "run.metrics.csv", seconds=0.2)
    recording = run(command, target, find=seconds)
    try:
        assert Path(f"/proc/{recording.pid}/comm").read_text() == "sleep\n"
    finally:
        os.kill(recording.pid, signal.SIGKILL)


@pytest.fixture
def start() -> Iterator[Callable[..., int]]:
    """Starts commands that are killed in the end."""
    children = []

    def start(*command: str) -> int:
        child = subprocess.Popen(command)
        children.append(child)
        while not Path(f"/proc/{child.pid}/cmdline").read_bytes():
            time.sleep(0.001)
        return child.pid

    yield start
    for child in children:
        child.kill()
        child.wait()


def test_finding_one_process(start: Callable[..., int]) -> None:
    pid = start("sleep", "62.125")
    assert find_process("sleep 62.125") == pid
    start("sleep", "62.125")
    with pytest.raises(InputError, match=r"2 processes have 'sleep 62.125'"):
        find_process("sleep 62.125")
    with pytest.raises(InputError, match="no process has"):
        find_process("surely no command line has this text")


def test_a_subshell_is_not_the_process_found(tmp_path: Path) -> None:
    script, begun = tmp_path / "has-a-subshell.sh", tmp_path / "begun"
    script.write_text(f"(echo > {shlex.quote(str(begun))}; read line; :)\n:")
    with subprocess.Popen(["sh", str(script)], stdin=subprocess.PIPE) as shell:
        while not begun.exists():
            time.sleep(0.001)
        assert find_process(str(script)) == shell.pid
        shell.communicate(timeout=LONGEST_S)


def test_a_fork_of_the_command_is_not_the_process_found(tmp_path: Path) -> None:
    # The subshell has the text in its command line for longer than the search takes to see it.
    command = ["sh", "-c", "(sleep 0.4; :); sleep 61.03125 & wait"]
    recording = run(command, Target(tmp_path / "run.metrics.csv", seconds=0.1), find="61.03125")
    try:
        assert Path(f"/proc/{recording.pid}/comm").read_text() == "sleep\n"
    finally:
        os.kill(recording.pid, signal.SIGKILL)


def test_ctrl_c_ends_a_recording_and_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "run.metrics.csv"
    written = path.with_name("run.metrics.csv.partial")

    def interrupt() -> None:
        while not written.exists() or written.stat().st_size < 200:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    attach(os.getpid(), Target(path, period_ms=10))
    assert "oncpu_ns" in metrics(path)


def test_what_cannot_be_recorded(tmp_path: Path) -> None:
    target = Target(tmp_path / "run.metrics.csv")
    with pytest.raises(InputError, match="no process"):
        attach(2**22 + 1, target)
    with pytest.raises(InputError, match="cannot start no-such-program"):
        run(["no-such-program"], target)
    with pytest.raises(UsageError, match="not a folder"):
        attach(os.getpid(), Target(tmp_path / "no" / "run.metrics.csv"))
    target.path.write_text("mine")
    with pytest.raises(UsageError, match="exists"):
        run(["true"], target)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.metrics.csv"
    arguments = ["capture", "--pid", str(os.getpid()), "--seconds", "0.2", "-o", str(path)]
    assert program(arguments) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert f"samples of process {os.getpid()}" in err
    assert program(arguments) == 2
    assert capsys.readouterr().err.endswith("choose another name or pass --force\n")
    assert program([*arguments[:-1], str(tmp_path / "b.csv")]) == 2
    err = capsys.readouterr().err
    assert "b.csv would not be loaded with a profile: name it " in err
    assert "b.metrics.csv or " in err
    assert program([*arguments, "--force", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["pid"] == os.getpid()
    assert result["lost"] == {}


def test_a_failing_command_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.metrics.csv"
    assert program(["capture", "-o", str(path), "--", "sh", "-c", "exit 4"]) == 4
    assert "exit code 4" in capsys.readouterr().err
    killed = ["capture", "--force", "-o", str(path), "--", "sh", "-c", "kill -9 $$"]
    assert program(killed) == 128 + signal.SIGKILL


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pid", "1"], "missing output file"),
        (["-o", "x.metrics.csv"], "nothing to record"),
        (["-o", "x.metrics.csv", "--pid", "1", "--find", "x"], "nothing to record"),
        (["-o", "x.metrics.csv", "--pid", "1", "--", "true"], "not both"),
        (["-o", "x.metrics.csv", "--pid", "1", "--period-ms", "1"], "period-ms"),
    ],
)
def test_bad_usage(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert program(["capture", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_the_list_of_sensors(capsys: pytest.CaptureFixture[str]) -> None:
    assert program(["capture", "--list"]) == 0
    out = capsys.readouterr().out
    assert "oncpu_ns, runq_ns" in out
    assert "missing" in out
    assert "amdsmi package is not installed" in out
    assert program(["capture", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {"name", "metrics"} == set(listed["sensors"][0])
    assert {"name", "metrics", "reason"} == set(listed["missing"][0])
