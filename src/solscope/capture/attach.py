"""Recording a process from outside: one that runs, or one that is started here."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from solscope.capture.files import check_free, finish_metrics, partial
from solscope.capture.process import parent_of
from solscope.capture.sampler import THE_FILE, Sampler
from solscope.capture.sensors import Missing, find_sensors
from solscope.errors import InputError

TICK_S = 0.25
"""Seconds from one look at the process to the next."""
PATIENCE_S = 10.0
"""How long a command that was asked to end may take for it."""
FIND_S = 120.0
"""How long a process that is to be found may take to appear."""


@dataclass(frozen=True)
class Target:
    """What to record, and how."""

    path: Path
    period_ms: float = 100.0
    seconds: float | None = None
    spin: bool = False
    force: bool = False


@dataclass(frozen=True)
class Recording:
    """What was recorded."""

    path: str
    pid: int
    samples: int
    seconds: float
    missing: list[Missing]
    lost: dict[str, str]
    """Sensors that failed on the way, and how; `the file` when it was not written to the end."""
    sampler_cpu_pct: float
    """CPU time of the sampler, in percent of one core."""
    stopped: bool = False
    """True when the time was over, or a signal came, before the process ended."""
    exit_code: int | None = None
    """Of the command, when one was started."""

    @property
    def command_failed(self) -> bool:
        """True when the command failed by itself, and not because it was asked to end."""
        return bool(self.exit_code) and not self.stopped

    @property
    def failed(self) -> bool:
        """True when the command failed, or the file could not be written to the end."""
        return self.command_failed or THE_FILE in self.lost


def attach(pid: int, target: Target) -> Recording:
    """Sample process `pid` until it ends, the time is over, or Ctrl-C."""
    if not Path(f"/proc/{pid}").is_dir():
        raise InputError(f"no process {pid}")
    with _stop_requests() as stopped:
        return _sample(pid, target, stopped)


def run(command: Sequence[str], target: Target, find: str | None = None) -> Recording:
    """Start a command and sample it until it ends.

    With `find`, the process sampled is the one below it whose command line has that text.
    Ctrl-C reaches the command, whose end is awaited; after `seconds`, or when this process is asked
    to end, it is asked too.
    """
    check_free(target.path, force=target.force, option="--force")
    try:
        child = subprocess.Popen(list(command))
    except OSError as error:
        raise InputError(f"cannot start {command[0]}: {error.strerror}") from error
    with _stop_requests() as stopped:
        try:
            pid = child.pid if find is None else _await(find, child)
            recording = _sample(pid, target, stopped)
            # The process found may end before the command that started it.
            while not recording.stopped and not stopped and child.poll() is None:
                time.sleep(TICK_S)
            code = _end(child, patient=signal.SIGINT in stopped)
            return replace(recording, stopped=recording.stopped or bool(stopped), exit_code=code)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()


def _end(child: subprocess.Popen[bytes], patient: bool) -> int:
    """The exit code of the command, which after a Ctrl-C may be ending by itself."""
    if patient:
        try:
            return child.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            pass
    child.terminate()
    try:
        return child.wait(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()


def find_process(text: str) -> int:
    """The one process whose command line has `text`; a shell that started it does not count."""
    return _only(text, _matches(text))


def _matches(text: str, below: int | None = None) -> dict[int, str]:
    """Processes with `text` in their command line: any, or those that `below` started.

    A fork has its parent's command line until it runs a program: a subshell, or a command that a
    shell is about to start. It ends, or gets another line, so it is not the process meant.
    """
    processes = dict(_processes())
    lines = {pid: line for pid, (_, line) in processes.items()}
    above = {pid: _ancestors(pid, processes) for pid in processes if text in lines[pid]}
    own = set(_ancestors(os.getpid(), processes)) | {os.getpid()}
    matching = {
        pid
        for pid, ancestors in above.items()
        if (pid not in own if below is None else below in ancestors)
        and not (ancestors and lines.get(ancestors[0]) == lines[pid])
    }
    starters = {pid for other in matching for pid in above[other]}
    return {pid: lines[pid] for pid in matching - starters}


def _ancestors(pid: int, processes: dict[int, tuple[int, str]]) -> list[int]:
    """The parent of a process, its parent, and so on."""
    above: list[int] = []
    while pid in processes and (pid := processes[pid][0]) > 1 and pid not in above:
        above.append(pid)
    return above


def _only(text: str, matching: dict[int, str]) -> int:
    if len(matching) == 1:
        return next(iter(matching))
    if not matching:
        raise InputError(f"no process has {text!r} in its command line")
    names = "; ".join(f"{pid} {line[:60]}" for pid, line in list(matching.items())[:8])
    raise InputError(f"{len(matching)} processes have {text!r} in their command line: {names}")


def _sample(pid: int, target: Target, stopped: list[int]) -> Recording:
    check_free(target.path, force=target.force, option="--force")
    written = partial(target.path)
    sensors = find_sensors(pid, target.spin)
    sampler = Sampler(written, sensors, target.period_ms)
    begin, spent = time.monotonic(), time.process_time()
    sampler.start()
    over = False
    try:
        while not (stopped or over or sampler.wait(TICK_S)):
            over = target.seconds is not None and time.monotonic() - begin >= target.seconds
    finally:
        sampler.stop()
    seconds = time.monotonic() - begin
    spent = time.process_time() - spent
    finish_metrics(written, target.path)
    return Recording(
        path=str(target.path),
        pid=pid,
        samples=sampler.samples,
        seconds=round(seconds, 3),
        missing=sensors.missing,
        lost=sampler.lost,
        sampler_cpu_pct=round(100 * spent / seconds, 3),
        stopped=over or bool(stopped),
    )


@contextmanager
def _stop_requests() -> Iterator[list[int]]:
    """SIGINT and SIGTERM are noted, so that the file gets its name."""
    noted: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda got, _: noted.append(got)) for number in numbers}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _await(text: str, child: subprocess.Popen[bytes]) -> int:
    """The process below `child` that has `text` in its command line, as soon as it is there."""
    deadline = time.monotonic() + FIND_S
    while not (matching := _matches(text, below=child.pid)):
        if child.poll() is not None or time.monotonic() > deadline:
            break
        time.sleep(TICK_S)
    return _only(text, matching)


def _processes() -> Iterator[tuple[int, tuple[int, str]]]:
    """Every process with a command line: its parent and that line."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if line.strip():
            pid = int(folder.name)
            yield pid, (parent_of(pid), line.strip())
