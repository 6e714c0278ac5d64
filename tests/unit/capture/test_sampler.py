from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import solscope
from solscope.capture.base import HOST, Write
from solscope.capture.sampler import HEADER, Sampler
from solscope.capture.sensors import Sensors

if not sys.platform.startswith("linux"):
    pytest.skip("the sensors are those of Linux", allow_module_level=True)

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(solscope.__file__).parents[1])}


class Counter:
    name = "a counter"
    metrics = ("count",)
    slow = False

    def __init__(self, breaks_at: int | None = None) -> None:
        self.count = 0
        self._breaks_at = breaks_at

    def sample(self, write: Write) -> None:
        if self.count == self._breaks_at:
            raise OSError("the sensor broke")
        self.count += 1
        write(time.time_ns(), "count", HOST, self.count)


def until(condition: object, timeout_s: float = 300.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def test_samples_are_written_in_order_until_stopped(tmp_path: Path) -> None:
    counter = Counter()
    sampler = Sampler(tmp_path / "x.csv", Sensors(None, fast=[counter]), period_ms=10)
    sampler.start()
    until(lambda: counter.count >= 3)
    sampler.stop()
    lines = (tmp_path / "x.csv").read_text().splitlines()
    assert lines[0] + "\n" == HEADER.decode()
    values = [line.split(",")[3] for line in lines[1:]]
    assert values == [str(number + 1) for number in range(counter.count)]
    assert sampler.samples == counter.count


def test_the_file_is_whole_at_every_moment(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    sampler = Sampler(path, Sensors(None, fast=[Counter() for _ in range(50)]), period_ms=10)
    sampler.start()
    for _ in range(20):
        text = path.read_bytes()
        assert text.endswith(b"\n")
        assert all(line.count(b",") == 3 for line in text.splitlines())
        time.sleep(0.005)
    sampler.stop()


def test_a_sensor_that_breaks_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    good = Counter()
    sensors = Sensors(os.getpid(), fast=[Counter(breaks_at=1), good])
    sampler = Sampler(tmp_path / "x.csv", sensors, period_ms=10)
    sampler.start()
    until(lambda: good.count >= 3)
    assert not sampler.wait(0)
    sampler.stop()
    assert sampler.lost == {"a counter": "the sensor broke"}


def test_the_end_of_the_process_is_noticed_even_if_nobody_buries_it(tmp_path: Path) -> None:
    child = subprocess.Popen(["true"])
    sampler = Sampler(tmp_path / "x.csv", Sensors(child.pid, fast=[Counter()]), period_ms=10)
    sampler.start()
    until(lambda: sampler.wait(0.01))
    sampler.stop()
    child.wait()


def sampler_program(path: Path, pid: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "solscope.capture.sampler", "--pid", str(pid)]
    program = subprocess.Popen(
        [*command, "--period-ms", "10", "-o", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    assert program.stdout is not None
    while program.stdout.readline() != "ready\n":
        assert program.poll() is None
    return program


def test_the_program_ends_with_its_input(tmp_path: Path) -> None:
    with sampler_program(tmp_path / "x.csv", os.getpid()) as program:
        assert program.stdin is not None
        program.stdin.close()
        assert program.wait(timeout=300) == 0
    assert (tmp_path / "x.csv").stat().st_size > len(HEADER)


def test_a_killed_sampler_leaves_a_file_that_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    with sampler_program(path, os.getpid()) as program:
        until(lambda: path.stat().st_size > 2000)
        program.send_signal(signal.SIGKILL)
    profile = solscope.open(path)
    assert profile.metrics is not None
    assert [warning.code for warning in profile.warnings] == ["metrics_only"]


def test_the_sampler_needs_no_data_library() -> None:
    code = "import solscope.capture.sampler, sys; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"polars", "numpy", "msgspec", "rich", "click", "torch"}
