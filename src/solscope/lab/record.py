"""`solscope lab record`: pairs of a normal and an abnormal recording, with a known cause.

For each unit of the plan: the normal run, timed and profiled; then, with the fault injected, a
search for the dose of each strength, and that run timed and profiled. What is done is kept when the
time is over. `pairs.jsonl` has one line per pair, `machine.json` what it was made on.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from solscope.errors import InputError, MissingToolError, UsageError
from solscope.lab import archive
from solscope.lab.cgroup import CpuGroup, NoGroupError
from solscope.lab.dose import Range, search
from solscope.lab.faults.base import Fault, Rig, SetDose
from solscope.lab.fork_server import ForkServer
from solscope.lab.loop import Loop, Mode
from solscope.lab.machine import describe
from solscope.lab.model import SEED
from solscope.lab.pairs import MACHINE, PAIRS
from solscope.lab.plan import STRENGTHS, Unit, Which, plan
from solscope.lab.recording import Samples, Timing, profile_steps, time_steps
from solscope.operators.host_warnings import ignore_host_warnings

LOOP_CORES = 4
"""Cores of the loop, where the machine has twice as many."""
SETTLE_S = 0.15
"""How long a fault acts before it is measured; also what GPU counters need to notice."""
PROBE_S = 0.12
"""Seconds of steps that try out a dose."""
HOPELESS = 3
"""As many failures and no pair yet: the rest would fail, too."""
GRACE_S = 15.0
"""A running unit may continue for this long after the time limit."""
MEASURE_S = 0.3
"""Seconds of steps that give the time of a recording."""
RAW_FREE_BYTES = 16 << 30
"""Free bytes of shared memory that are enough to write traces there first."""
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108

Say = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """What to record, and how long it may take."""

    out: Path
    which: Which = "all"
    modes: tuple[Mode, ...] = ("eager", "graph")
    strengths: tuple[int, ...] = STRENGTHS
    faults: tuple[str, ...] = ()
    steps: int | None = None
    """Profiled steps; by default 24 in eager mode, 40 with a graph."""
    seconds: float = 240.0
    """No unit begins after this time; compressing comes on top."""
    device: str = "cuda"
    tiny: bool = False
    archive: bool = False

    def steps_in(self, mode: Mode) -> int:
        return self.steps or (24 if mode == "eager" else 40)


@dataclass
class Summary:
    """What came of it."""

    pairs: int = 0
    unavailable: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    left_out: int = 0
    """Units skipped for lack of time."""
    seconds: float = 0.0
    parts: list[str] = field(default_factory=list)


class _OverError(Exception):
    """The time is over, or somebody asked to stop."""


@ignore_host_warnings()
def record(options: Options, say: Say) -> Summary:
    """Record everything that `options` ask for; `say` gets progress, a line at a time."""
    units = plan(options.which, options.modes, options.strengths, options.faults)
    if not units:
        raise UsageError("nothing to record: no fault of this half runs in these modes")
    if options.device == "cpu" and "graph" in options.modes:
        raise UsageError("graphs need a GPU; use --modes eager with --device cpu")
    if find_spec("torch") is None:
        raise MissingToolError("the lab needs torch: pip install torch")
    if (options.out / PAIRS).exists():
        raise UsageError(f"{options.out} holds recordings; choose another folder")
    options.out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with ExitStack() as stack:
        raw = stack.enter_context(_raw_folder(options.out))
        recorder = stack.enter_context(_recorder(options, raw, say))
        stack.enter_context(_ending_on_signals())
        summary = recorder.run(units, started + options.seconds)
    summary.seconds = round(time.monotonic() - started, 1)
    return summary


@contextmanager
def _raw_folder(out: Path) -> Iterator[Path]:
    """Where traces are stored until they are compressed: in memory if there is enough."""
    in_memory = SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free > RAW_FREE_BYTES
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY if in_memory else out) as folder:
        yield Path(folder)


@contextmanager
def _ending_on_signals() -> Iterator[None]:
    """A first SIGTERM or SIGINT ends the recording, and what is done is still written."""

    def end(*_: object) -> None:
        raise _OverError("stopped by a signal")

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _recorder(options: Options, raw: Path, say: Say) -> Iterator[_Recorder]:
    every = os.sched_getaffinity(0)
    cores, others = _split(every)
    with ExitStack() as stack:
        # Whatever must not share the loop's cores and control group starts before it.
        fork_server = stack.enter_context(ForkServer(others, with_torch=options.device != "cpu"))
        group, no_group = _group()
        if group is not None:
            stack.callback(group.close)
        stack.callback(os.sched_setaffinity, 0, every)
        samples = Samples(os.getpid(), raw / "session.csv", others)
        stack.callback(samples.sampler.close)
        if group is not None:
            group.release(samples.sampler.pid)
        os.sched_setaffinity(0, cores)
        say(f"loop on cores {sorted(cores)}; building the model")
        import torch

        torch.set_num_threads(1)
        if options.device == "cuda" and not torch.cuda.is_available():
            raise InputError(
                "torch finds no GPU here; --device cpu --tiny --modes eager tries the lab out"
            )
        helpers = min(3, max(1, len(cores) - 1))
        loop = Loop(options.device, raw / "loop.log", options.tiny, helpers)
        stack.callback(loop.close)
        rig = Rig(
            loop=loop,
            fork_server=fork_server,
            cores=cores,
            other_cores=others,
            group=group,
            no_group=no_group,
            folder=options.out,
            base=loop.defaults,
        )
        machine = describe(options.device) | {
            "loop_cores": sorted(cores),
            "control_group": None if group is None else f"v{group.version}",
            "no_control_group": no_group or None,
            "missing_sensors": samples.sampler.missing,
        }
        (options.out / MACHINE).write_text(json.dumps(machine, indent=1) + "\n")
        yield _Recorder(options, raw, rig, samples, say)


def _split(every: set[int]) -> tuple[set[int], set[int]]:
    """Cores of the loop, and those of everything else; the same where there are few."""
    if len(every) < 2 * LOOP_CORES:
        return every, every
    ordered = sorted(every)
    # Not the first two, which often serve interrupts.
    cores = set(ordered[2 : 2 + LOOP_CORES])
    return cores, every - cores


def _group() -> tuple[CpuGroup | None, str]:
    try:
        return CpuGroup(), ""
    except (NoGroupError, OSError) as error:
        return None, str(error)


class _Recorder:
    """Records unit after unit."""

    def __init__(self, options: Options, raw: Path, rig: Rig, samples: Samples, say: Say) -> None:
        self._options, self._raw, self._rig, self._say = options, raw, rig, say
        self._samples = samples
        self._files: list[Path] = []
        self._defaults = rig.base
        self._deadline = 0.0

    def run(self, units: Sequence[Unit], deadline: float) -> Summary:
        summary = Summary()
        self._deadline = deadline
        done = 0
        try:
            self._warm_up()
            for done, unit in enumerate(units):
                if time.monotonic() > deadline:
                    raise _OverError("the time is over")
                if len(summary.failed) >= HOPELESS and not summary.pairs:
                    raise _OverError("nothing but failures")
                self._say(f"{done + 1}/{len(units)} {unit.name}")
                self._unit(unit, summary)
            done = len(units)
        except _OverError as over:
            self._say(f"{over}: {len(units) - done} of {len(units)} units are left out")
        summary.left_out = len(units) - done
        os.sched_setaffinity(0, self._rig.cores | self._rig.other_cores)
        self._say(f"compressing {len(self._files)} files")
        if self._options.archive:
            parts = archive.pack(self._files, self._options.out)
            summary.parts = [file.name for file in parts]
        else:
            archive.compress(self._files, self._options.out)
        return summary

    def _warm_up(self) -> None:
        """The first profile of a process is slow, and so are the first steps."""
        loop = self._rig.loop
        for mode in self._options.modes:
            loop.configure(replace(self._defaults, mode=mode))
            time_steps(loop, 8)
        profile_steps(loop, 2, self._raw / "warm-up.json", lambda: None)
        (self._raw / "warm-up.json").unlink()

    def _unit(self, unit: Unit, summary: Summary) -> None:
        fault, rig = unit.fault, self._rig
        base = {} if self._options.tiny else fault.base
        rig.base = replace(self._defaults, mode=unit.mode, **base)
        if reason := fault.unavailable(rig):
            summary.unavailable[fault.name] = reason
            self._say(f"  not available: {reason}")
            return
        try:
            rig.change()
            time_steps(rig.loop, 8)
            normal, normal_times = self._recording(unit, "normal", lambda: None)
            with fault.inject(rig) as set_dose:
                self._strengths(unit, set_dose, normal, normal_times, summary)
        except _OverError:
            raise
        except Exception as error:  # noqa: BLE001 - one fault that fails must not end the rest
            summary.failed[unit.name] = f"{type(error).__name__}: {error}"[:500]
            self._say(f"  failed: {summary.failed[unit.name]}")

    def _strengths(
        self, unit: Unit, set_dose: SetDose, normal: str, normal_times: Timing, summary: Summary
    ) -> None:
        fault = unit.fault
        tried: dict[float, float] = {}
        limits = Range(fault.doses, fault.highest, fault.integer)
        dose = 0.0

        def measure(dose: float) -> float:
            normal_ms = self._normal_ms(fault, set_dose) or normal_times.mean_ms
            set_dose(dose)
            time.sleep(SETTLE_S / 2)
            return time_steps(self._rig.loop, 8, PROBE_S).mean_ms / normal_ms

        for strength in unit.strengths:
            if time.monotonic() > self._deadline + GRACE_S:
                raise _OverError("the time is over")
            if fault.search and strength:
                dose = search(limits, strength - 1, tried, measure, above=dose)
            else:
                dose = fault.doses[strength - 1]
            near_ms = self._normal_ms(fault, set_dose)
            set_dose(dose)
            time.sleep(SETTLE_S)
            pause = (lambda: None) if fault.rebuilds else (lambda: set_dose(0.0))
            suffix = f"s{strength}" if strength else "again"
            abnormal, times = self._recording(unit, suffix, pause)
            facts = {
                "strength": strength,
                "dose": dose,
                "step_ms_normal_near": near_ms,
                "probes": {f"{key:.5g}": round(value, 3) for key, value in tried.items()},
            }
            self._keep(unit, (normal, normal_times), (abnormal, times), facts)
            summary.pairs += 1

    def _normal_ms(self, fault: Fault, set_dose: SetDose) -> float | None:
        """The step just now without the fault: the speed of a machine drifts.

        Null where the loop would have to be rebuilt for it.
        """
        if fault.rebuilds:
            return None
        set_dose(0.0)
        time.sleep(SETTLE_S / 3)
        return round(time_steps(self._rig.loop, 8, PROBE_S).mean_ms, 4)

    def _recording(self, unit: Unit, suffix: str, pause: Callable[[], None]) -> tuple[str, Timing]:
        loop, name = self._rig.loop, f"{unit.name}-{suffix}"
        begin = time.time_ns()
        times = time_steps(loop, 16, MEASURE_S)
        trace, samples = self._raw / f"{name}.trace.json", self._raw / f"{name}.metrics.csv"
        _, end = profile_steps(loop, self._options.steps_in(unit.mode), trace, pause)
        self._samples.save(begin, end, samples)
        self._files += [trace, samples]
        return name, times

    def _keep(
        self,
        unit: Unit,
        normal: tuple[str, Timing],
        abnormal: tuple[str, Timing],
        facts: dict[str, Any],
    ) -> None:
        fault, before, after = unit.fault, normal[1], abnormal[1]
        line: dict[str, Any] = {
            "id": abnormal[0],
            "half": unit.half,
            "fault": fault.name,
            "family": fault.family,
            "mode": unit.mode,
            "expected": list(fault.expected),
            "normal": normal[0],
            "abnormal": abnormal[0],
            "step_ms_normal": round(before.mean_ms, 4),
            "step_ms_abnormal": round(after.mean_ms, 4),
            "step_ms_median_normal": round(before.median_ms, 4),
            "step_ms_median_abnormal": round(after.median_ms, 4),
            "steps_timed": [before.steps, after.steps],
            "steps_profiled": self._options.steps_in(unit.mode),
            "dose_is": fault.dose,
            "base": dict(fault.base),
            "seed": SEED,
            **facts,
        }
        with (self._options.out / PAIRS).open("a") as file:
            file.write(json.dumps(line) + "\n")
        ratio = after.mean_ms / before.mean_ms
        self._say(
            f"  strength {facts['strength']}: dose {facts['dose']:.4g}, "
            f"step {before.mean_ms:.2f} -> {after.mean_ms:.2f} ms, x{ratio:.2f}"
        )
