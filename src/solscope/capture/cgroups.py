"""CPU quota and throttling of the control group a process is in, version 2 or 1."""

from __future__ import annotations

import time
from pathlib import Path

from solscope.capture.base import HOST, MissingSensorError, ProcFile, Write


class Throttling:
    """Quota, periods, and how often and how long the group was stopped."""

    name = "cgroup CPU throttling"
    metrics = (
        "cgroup_periods",
        "cgroup_throttled_periods",
        "cgroup_throttled_ns",
        "cgroup_quota_cores",
    )
    slow = False

    def __init__(self, pid: int) -> None:
        folder, version = cpu_group(pid)
        self._version = version
        self._stat = ProcFile(f"{folder}/cpu.stat", 1024)
        if b"nr_throttled" not in self._stat.read():
            raise MissingSensorError(f"{folder}/cpu.stat counts no throttling (no CPU controller)")
        if version == 2:
            self._quota = [ProcFile(f"{folder}/cpu.max", 64)]
        else:
            names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            self._quota = [ProcFile(f"{folder}/{name}", 64) for name in names]

    def sample(self, write: Write) -> None:
        values = dict(line.split() for line in self._stat.read().splitlines())
        now = time.time_ns()
        write(now, "cgroup_periods", HOST, int(values[b"nr_periods"]))
        write(now, "cgroup_throttled_periods", HOST, int(values[b"nr_throttled"]))
        if self._version == 2:
            throttled_ns = int(values[b"throttled_usec"]) * 1000
        else:
            throttled_ns = int(values[b"throttled_time"])
        write(now, "cgroup_throttled_ns", HOST, throttled_ns)
        quota, period = b" ".join(file.read() for file in self._quota).split()
        if quota not in (b"max", b"-1"):
            write(now, "cgroup_quota_cores", HOST, round(int(quota) / int(period), 4))


def cpu_group(pid: int) -> tuple[Path, int]:
    """The folder of the group that limits the CPU of `pid`, and the version of its kind."""
    paths = _memberships(pid)
    mounts = _mounts()
    for version, controller in ((1, "cpu"), (2, "")):
        if controller not in paths:
            continue
        for mount, root in mounts.get((version, controller), []):
            inside = Path(paths[controller])
            relative = inside.relative_to(root) if inside.is_relative_to(root) else Path()
            folder = mount / relative
            if (folder / "cpu.stat").exists() and _limits(folder, version):
                return folder, version
    raise MissingSensorError("no control group with a CPU controller is mounted")


def _limits(folder: Path, version: int) -> bool:
    return (folder / ("cpu.max" if version == 2 else "cpu.cfs_quota_us")).exists()


def _memberships(pid: int) -> dict[str, str]:
    """From controller to the group's path; the key of version 2 is empty."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError as error:
        raise MissingSensorError(f"/proc/{pid}/cgroup: {error.strerror}") from error
    memberships: dict[str, str] = {}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        memberships.update(dict.fromkeys(controllers.split(","), path))
    return memberships


def _mounts() -> dict[tuple[int, str], list[tuple[Path, str]]]:
    """Mounted hierarchies: where, and which part of the hierarchy is mounted there."""
    mounts: dict[tuple[int, str], list[tuple[Path, str]]] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        root, point = left.split()[3:5]
        kind, _, options = right.split(maxsplit=2)
        if kind == "cgroup2":
            mounts.setdefault((2, ""), []).append((Path(point), root))
        elif kind == "cgroup" and "cpu" in options.split(","):
            mounts.setdefault((1, "cpu"), []).append((Path(point), root))
    return mounts
