"""A control group for the loop, so that its CPU time can be limited: version 1 or 2."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

from solscope.errors import SolscopeError

PERIOD_US = 100_000
"""Microseconds after which a quota starts anew: the kernel's default."""
NAME = f"solscope-lab-{os.getpid()}"


class NoGroupError(SolscopeError):
    """No control group can be made here; the message says why."""


class CpuGroup:
    """A group that this process has entered; children started later are in it too."""

    def __init__(self) -> None:
        reasons = []
        # Kept: what it has mounted stays mounted until it is closed.
        self._hierarchies = _hierarchies()
        for version, parent in self._hierarchies:
            try:
                self._enter(version, parent)
                return
            except OSError as error:
                reasons.append(f"{parent}: {error.strerror}")
                self._leave()
        raise NoGroupError("; ".join(reasons) or "no hierarchy with a CPU controller can be had")

    def _enter(self, version: int, parent: Path) -> None:
        self.version = version
        self.folder, self._home = parent / NAME, parent
        if version == 2:
            _write(parent / "cgroup.subtree_control", "+cpu")
        self.folder.mkdir()
        _write(self.folder / "cgroup.procs", str(os.getpid()))
        self.limit(None)

    def limit(self, cores: float | None) -> None:
        """Allow this many cores' worth of time in each period; null for no limit."""
        quota = None if cores is None else max(1000, round(cores * PERIOD_US))
        if self.version == 2:
            value = f"{'max' if quota is None else quota} {PERIOD_US}"
            _write(self.folder / "cpu.max", value)
        else:
            _write(self.folder / "cpu.cfs_period_us", str(PERIOD_US))
            _write(self.folder / "cpu.cfs_quota_us", str(-1 if quota is None else quota))

    def release(self, pid: int) -> None:
        """Put a process outside the group again."""
        _write(self._home / "cgroup.procs", str(pid))

    def close(self) -> None:
        """Leave the group and remove it."""
        self._leave()
        self._hierarchies.close()

    def _leave(self) -> None:
        with suppress(OSError):
            self.release(os.getpid())
        with suppress(OSError):
            self.folder.rmdir()


def _hierarchies() -> Generator[tuple[int, Path], None, None]:
    """Roots of hierarchies that may have a CPU controller; mounted anew where none serves."""
    lines = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    for _, point, kind, options, *_ in lines:
        if kind == "cgroup" and "cpu" in options.split(","):
            yield 1, Path(point)
    yield from ((2, Path(point)) for _, point, kind, *_ in lines if kind == "cgroup2")
    for version, how in ((2, ["-t", "cgroup2"]), (1, ["-t", "cgroup", "-o", "cpu"])):
        with tempfile.TemporaryDirectory(prefix="solscope-cgroup-") as point:
            command = ["mount", *how, "none", point]
            if subprocess.run(command, check=False, capture_output=True).returncode == 0:
                try:
                    yield version, Path(point)
                finally:
                    subprocess.run(["umount", "-l", point], check=False, capture_output=True)  # noqa: S607


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
