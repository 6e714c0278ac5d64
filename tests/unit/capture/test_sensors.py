"""Sensors of this machine: they read what the kernel says, and name what is missing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from solscope.capture import cgroups, host, process
from solscope.capture.base import MissingSensorError, ProcFile
from solscope.capture.sensors import find_sensors
from solscope.readers.metric_kinds import METRICS

if not sys.platform.startswith("linux"):
    pytest.skip("the sensors are those of Linux", allow_module_level=True)


class Samples(list[tuple[int, str, str, float]]):
    def write(self, time_ns: int, metric: str, device: str, value: float) -> None:
        self.append((time_ns, metric, device, value))

    def value(self, metric: str) -> float:
        return [value for _, name, _, value in self if name == metric][-1]


@pytest.fixture
def sleeper() -> Iterator[int]:
    child = subprocess.Popen(["sleep", "60"])
    yield child.pid
    child.kill()
    child.wait()


def test_every_metric_has_a_kind() -> None:
    found = find_sensors(os.getpid(), spin=True)
    present = {metric for sensor in found.present for metric in sensor.metrics}
    missing = {metric for sensor in found.missing for metric in sensor.metrics}
    assert present | missing == set(METRICS)


def test_sensors_write_only_what_they_announce() -> None:
    for sensor in find_sensors(os.getpid(), spin=True).present:
        samples = Samples()
        sensor.sample(samples.write)
        assert {metric for _, metric, _, _ in samples} <= set(sensor.metrics)


def test_samples_carry_the_time_at_which_they_were_taken() -> None:
    samples = Samples()
    before = time.time_ns()
    process.Stat(os.getpid()).sample(samples.write)
    assert all(before <= time_ns <= time.time_ns() for time_ns, *_ in samples)


def test_cpu_time_of_another_process(sleeper: int) -> None:
    samples = Samples()
    process.CpuClock(sleeper).sample(samples.write)
    assert 0 < samples.value("process_cpu_ns") < 1e9


def test_cpu_time_grows_with_work() -> None:
    samples = Samples()
    sensor = process.CpuClock(os.getpid())
    sensor.sample(samples.write)
    first = samples.value("process_cpu_ns")
    until = time.process_time() + 0.02
    while time.process_time() < until:
        pass
    sensor.sample(samples.write)
    assert samples.value("process_cpu_ns") - first >= 20e6


def test_usage_needs_two_samples() -> None:
    samples = Samples()
    sensor = process.CpuUsage(os.getpid())
    sensor.sample(samples.write)
    assert samples == []
    sensor.sample(samples.write)
    assert samples.value("process_cpu_usage") >= 0


def test_switches_and_affinity(sleeper: int) -> None:
    allowed = sorted(os.sched_getaffinity(sleeper))
    os.sched_setaffinity(sleeper, {allowed[0]})
    samples = Samples()
    process.Status(sleeper).sample(samples.write)
    assert samples.value("affinity_cores") == 1
    assert samples.value("process_threads") == 1
    assert samples.value("ctx_vol") >= 0
    assert samples.value("ctx_invol") >= 0


def test_voluntary_and_involuntary_switches_are_not_mixed_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = b"Threads:\t3\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t5\n"
    monkeypatch.setattr(ProcFile, "read", lambda _: text)
    samples = Samples()
    process.Status(os.getpid()).sample(samples.write)
    assert [value for _, _, _, value in samples] == [7, 5, 3]


def test_bytes_that_were_written(tmp_path: Path) -> None:
    samples = Samples()
    sensor = process.Input(os.getpid())
    sensor.sample(samples.write)
    before = samples.value("write_calls")
    with (tmp_path / "file").open("wb", buffering=0) as file:
        for _ in range(5):
            file.write(b"x")
    sensor.sample(samples.write)
    assert samples.value("write_calls") - before >= 5


def test_a_process_name_with_brackets_and_spaces(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = " ".join(str(number) for number in range(1, 50))
    monkeypatch.setattr(ProcFile, "read", lambda _: f"12 (a) b (c)) S {fields}".encode())
    samples = Samples()
    process.Stat(os.getpid()).sample(samples.write)
    assert samples.value("page_faults_minor") == 7
    assert samples.value("page_faults_major") == 9
    assert samples.value("process_mem_used") == 21 * process.PAGE_BYTES


def test_a_process_that_does_not_exist() -> None:
    with pytest.raises(MissingSensorError, match="No such file"):
        process.Schedule(2**22 + 1)


def test_descendants(sleeper: int) -> None:
    assert process.descends(sleeper, os.getpid())
    assert process.descends(sleeper, sleeper)
    assert not process.descends(os.getpid(), sleeper)


def test_cpu_use_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = iter(
        [
            b"cpu  0 0 0 0 0 0 0 0 0 0\nprocs_running 2\n",
            b"cpu  0 0 0 0 0 0 0 0 0 0\nprocs_running 2\n",
            b"cpu  20 0 10 50 10 0 0 10 0 0\nprocs_running 5\n",
        ]
    )
    monkeypatch.setattr(ProcFile, "read", lambda _: next(texts))
    samples = Samples()
    sensor = host.CpuTime()
    sensor.sample(samples.write)
    sensor.sample(samples.write)
    assert samples.value("host_cpu_usage") == 40
    assert samples.value("host_cpu_iowait") == 10
    assert samples.value("host_cpu_steal") == 10
    assert samples.value("host_procs_running") == 5


def test_pressure_is_in_nanoseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.0 total=3\n"
    monkeypatch.setattr(ProcFile, "__init__", lambda *_: None)
    monkeypatch.setattr(ProcFile, "__del__", lambda _: None)
    monkeypatch.setattr(ProcFile, "read", lambda _: text)
    samples = Samples()
    host.Pressure().sample(samples.write)
    assert samples.value("psi_io_some_ns") == 12_000
    assert samples.value("psi_memory_full_ns") == 3_000


def test_no_frequency_is_a_missing_sensor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "glob", lambda *_: iter(()))
    monkeypatch.setattr(ProcFile, "read", lambda _: b"processor: 0\n")
    with pytest.raises(MissingSensorError, match="CPU frequency"):
        host.Frequency()


def test_the_spin_loop_runs_seldom() -> None:
    samples = Samples()
    sensor = host.Spin()
    for _ in range(3):
        sensor.sample(samples.write)
    assert [metric for _, metric, _, _ in samples] == ["spin_wall_us", "spin_cpu_us"]


VERSION_2 = {
    "cpu.stat": "usage_usec 9\nnr_periods 10\nnr_throttled 4\nthrottled_usec 1500\n",
    "cpu.max": "30000 100000\n",
}
VERSION_1 = {
    "cpu.stat": "nr_periods 10\nnr_throttled 4\nthrottled_time 1500000\n",
    "cpu.cfs_quota_us": "30000\n",
    "cpu.cfs_period_us": "100000\n",
}


@pytest.mark.parametrize(("version", "files"), [(2, VERSION_2), (1, VERSION_1)])
def test_throttling(
    version: int, files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(cgroups, "cpu_group", lambda _: (tmp_path, version))
    samples = Samples()
    cgroups.Throttling(1).sample(samples.write)
    assert {metric: value for _, metric, _, value in samples} == {
        "cgroup_periods": 10,
        "cgroup_throttled_periods": 4,
        "cgroup_throttled_ns": 1_500_000,
        "cgroup_quota_cores": 0.3,
    }


def test_a_group_without_quota_writes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {**VERSION_2, "cpu.max": "max 100000\n"}.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(cgroups, "cpu_group", lambda _: (tmp_path, 2))
    samples = Samples()
    cgroups.Throttling(1).sample(samples.write)
    assert "cgroup_quota_cores" not in {metric for _, metric, _, _ in samples}


def test_the_group_of_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = tmp_path / "pod" / "server"
    inside.mkdir(parents=True)
    for name, text in VERSION_2.items():
        (inside / name).write_text(text)
    monkeypatch.setattr(cgroups, "_memberships", lambda _: {"": "/pod/server"})
    monkeypatch.setattr(cgroups, "_mounts", lambda: {(2, ""): [(tmp_path, "/")]})
    assert cgroups.cpu_group(1) == (inside, 2)


def test_the_root_group_limits_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpu.stat").write_text(VERSION_2["cpu.stat"])
    monkeypatch.setattr(cgroups, "_memberships", lambda _: {"": "/"})
    monkeypatch.setattr(cgroups, "_mounts", lambda: {(2, ""): [(tmp_path, "/")]})
    with pytest.raises(MissingSensorError, match="control group"):
        cgroups.cpu_group(1)
