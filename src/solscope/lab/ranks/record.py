"""Record the runs of one half: `python -m solscope.lab.ranks.record tune OUT` (as root).

The GPU is cut into four MIG slices, one process runs on each, and NCCL talks over loopback
sockets. NCCL refuses two ranks of one PCI device on one host, so each rank gets a host id of its
own. The slices are given back at the end. With `--share mps` the GPU is not cut: ranks share it
through a service that changes nothing of the card. `--device cpu` tries the program out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from solscope.lab.archive import pack
from solscope.lab.ranks import faults, mps
from solscope.lab.ranks.forks import Fork
from solscope.lab.ranks.plan import WORLD, Scenario, scenarios
from solscope.lab.ranks.worker import serve

SECONDS = 485.0
"""Time for everything."""
PACK_S = 25.0
"""Time that is kept for packing."""
LEAST_S = 10.0
"""No run is started with less time."""
RUN_LIMIT_S = 35.0
"""Seconds after which a run that has not ended is killed."""
AFTER_FAILURE_S = 2.0
"""Seconds that ranks have when another one has failed."""
ATTEMPTS = 2
"""Times that a run is tried in which multiprocessors are held, the second time fewer."""
MOST_FAILURES = 3
"""Runs that fail one after another before the rest is given up."""


class Rank(Protocol):
    """A process that serves one rank."""

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        ...

    def end(self) -> str:
        """Kill it if it still runs; returns what it wrote to standard error."""
        ...


class Spawned:
    """A rank as a program of its own."""

    def __init__(self, command: list[str], environment: dict[str, str], errors: Path) -> None:
        self._errors = errors
        with errors.open("wb") as file:
            self._process = subprocess.Popen(command, env=environment, stderr=file)

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def end(self) -> str:
        """Kill it if it still runs; returns what it wrote to standard error."""
        self._process.kill()
        self._process.wait()
        return self._errors.read_text(errors="replace")


class Slices:
    """A GPU that is cut into slices, one for each rank."""

    def __init__(self, slices: list[str]) -> None:
        self._slices = slices

    def environment(self, scenario: Scenario, rank: int, port: int) -> dict[str, str]:
        """Variables of a rank, and of who disturbs it."""
        del scenario
        return {**_environment(rank, port), "CUDA_VISIBLE_DEVICES": self._slices[rank]}

    def possible(self, scenario: Scenario) -> Scenario:
        """The run that can be made here."""
        return replace(scenario, how=None)

    def refuse(self, held: int) -> None:
        """Nothing is held on slices."""

    def start(
        self, half: str, scenario: Scenario, rank: int, out: Path, go: Path, port: int
    ) -> Rank:
        """Start a rank."""
        module = [sys.executable, "-m", "solscope.lab.ranks.worker"]
        arguments = [half, scenario.name, str(rank), str(out), str(go)]
        errors = out / f"{scenario.name}-{rank}.err"
        return Spawned([*module, *arguments], self.environment(scenario, rank, port), errors)


class Shared:
    """A GPU that all ranks share, each with a part of its multiprocessors."""

    def __init__(self, device: str, held: list[int]) -> None:
        self._device, self._held = device, held

    def environment(self, scenario: Scenario, rank: int, port: int) -> dict[str, str]:
        """Variables of a rank, and of who disturbs it."""
        slow = scenario.how == "share" and rank == scenario.rank
        percent = mps.SLOW_SHARE[scenario.strength] if slow else mps.SHARE
        # Clusters of blocks may not fit beside what is held.
        own = {"NCCL_CGA_CLUSTER_SIZE": "0", **mps.share(percent)}
        return {**_environment(rank, port), **own}

    def possible(self, scenario: Scenario) -> Scenario:
        """The run that can be made here."""
        if self._device == "cpu":
            return replace(scenario, batch=8, context=64, how=None)
        if scenario.how == "held" and not self._held:
            return replace(scenario, how="share")
        if scenario.how == "held":
            weaker = 0 if scenario.strength > 1 else 1
            return replace(scenario, held=self._held[min(weaker, len(self._held) - 1)])
        return scenario

    def refuse(self, held: int) -> None:
        """Do not hold so many multiprocessors again."""
        self._held = [count for count in self._held if count < held]

    def start(
        self, half: str, scenario: Scenario, rank: int, out: Path, go: Path, port: int
    ) -> Rank:
        """Start a rank."""
        del half
        errors = out / f"{scenario.name}-{rank}.err"
        environment = self.environment(scenario, rank, port)
        return Fork(serve, (scenario, rank, out, go, self._device), environment, errors)


def record(half: str, out: Path, only: list[str], share: str, seconds: float, device: str) -> int:
    """Record a half and pack it into `part-NNN.tar` files in `out`; returns the runs recorded."""
    end = time.monotonic() + seconds - PACK_S
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        truths: list[dict[str, object]] = []
        sharing = _slices_of_gpu() if share == "mig" else _shared_gpu(work, device)
        with sharing as gpu:
            if gpu is not None:
                planned = [s for s in scenarios(half) if not only or s.name in only]
                truths = _record_all(half, planned, work, gpu, end)
        lines = "".join(json.dumps(truth) + "\n" for truth in truths)
        (work / f"truth-{half}.jsonl").write_text(lines)
        parts = pack([p for p in work.iterdir() if p.suffix in (".json", ".jsonl")], out)
    sizes = [f"{file.name} {file.stat().st_size / 2**20:.1f} MiB" for file in parts]
    _say(f"{len(truths)} runs; {', '.join(sizes)}")
    return len(truths)


def _record_all(
    half: str, planned: list[Scenario], work: Path, gpu: Slices | Shared, end: float
) -> list[dict[str, object]]:
    truths: list[dict[str, object]] = []
    failures = 0
    for number, scenario in enumerate(planned):
        if time.monotonic() > end - LEAST_S or failures == MOST_FAILURES:
            reason = "others failed" if failures == MOST_FAILURES else "out of time"
            _say(f"{scenario.name}: not recorded, {reason}")
            continue
        truth = None
        for attempt in range(ATTEMPTS):
            possible = gpu.possible(scenario)
            truth = _run(half, possible, work, gpu, 29600 + number + 100 * attempt, end)
            if truth is not None or not possible.held or time.monotonic() > end - LEAST_S:
                break
            gpu.refuse(possible.held)
        failures = failures + 1 if truth is None else 0
        if truth is not None:
            truths.append(truth)
    return truths


@contextmanager
def _slices_of_gpu() -> Iterator[Slices]:
    """Four slices, made where there are none."""
    made = not _slices()
    if made:
        _nvidia_smi("-mig", "1")
        _nvidia_smi("mig", "-cgi", "15,15,15,15", "-C")
    slices = _slices()
    _say(f"{len(slices)} slices")
    try:
        yield Slices(slices)
    finally:
        if made:
            for command in (("mig", "-dci"), ("mig", "-dgi"), ("-mig", "0")):
                _nvidia_smi(*command)


@contextmanager
def _shared_gpu(work: Path, device: str) -> Iterator[Shared | None]:
    """One GPU for all; null where that does not work, in which case nothing can be recorded."""
    import torch.profiler  # noqa: F401 - so that forks have it

    if device == "cpu":
        yield Shared(device, [])
        return
    with mps.serving(_say) as there:
        works = mps.probe(_say, work) if there else {}
        if works.get("overlap") and works.get("traces"):
            yield Shared(device, works["held"])
        else:
            _say("MPS does not work here, and ranks that take turns on a GPU say nothing: stopped")
            yield None


def _run(
    half: str, scenario: Scenario, out: Path, gpu: Slices | Shared, port: int, end: float
) -> dict[str, object] | None:
    """Record one run; null when a rank failed."""
    begin = time.monotonic()
    go = out / f"{scenario.name}.go"
    mtu = faults.set_link_mtu(faults.LINK_MTU[scenario.strength]) if _is_link(scenario) else None
    hogs: list[subprocess.Popen[bytes]] = []
    ranks: list[Rank] = []
    try:
        # A smaller MTU makes a slower link; where it cannot be set, others use the link.
        commands = faults.commands(scenario, go) if mtu is None else []
        environment = gpu.environment(scenario, scenario.rank or 0, port)
        hogs += [subprocess.Popen(command, env=environment) for command in commands]
        ranks += [gpu.start(half, scenario, rank, out, go, port) for rank in range(WORLD)]
        traces = [out / f"{scenario.name}-rank{rank}.trace.json" for rank in range(WORLD)]
        until = min(begin + RUN_LIMIT_S, end)
        while any(rank.alive for rank in ranks) and time.monotonic() < until:
            time.sleep(0.05)
            ended = [trace for rank, trace in zip(ranks, traces, strict=True) if not rank.alive]
            if not all(map(_is_whole, ended)):
                # The others would wait for it.
                until = min(until, time.monotonic() + AFTER_FAILURE_S)
    finally:
        errors = [rank.end() for rank in ranks]
        for hog in hogs:
            hog.kill()
            hog.wait()
        if mtu is not None:
            faults.set_link_mtu(mtu)
    failed = False
    for rank, trace in enumerate(traces):
        if not _is_whole(trace):
            failed = True
            _say(f"{scenario.name} rank {rank} failed: {errors[rank][-600:]}")
    steps, held = (out / f"{scenario.name}-{name}.json" for name in ("steps", "held"))
    if held.exists():
        failed |= not json.loads(held.read_text())
        _say(f"{scenario.name}: held until the end: {held.read_text()}")
        held.unlink()
    if failed or not steps.exists():
        for path in out.glob(f"{scenario.name}-*.json"):
            path.unlink()
        _say(f"{scenario.name}: dropped, {time.monotonic() - begin:.0f} s")
        return None
    walls = json.loads(steps.read_text())
    steps.unlink()
    mean, median = sum(walls) / len(walls) * 1e3, sorted(walls)[len(walls) // 2] * 1e3
    _say(
        f"{scenario.name}: step median {median:.2f} ms, mean {mean:.2f} ms, "
        f"{time.monotonic() - begin:.0f} s"
    )
    more = {"step_ms": median, "mtu_set": mtu is not None, "half": half}
    return scenario.truth() | more


def _is_whole(trace: Path) -> bool:
    """Whether a rank wrote all of its trace, however it ended."""
    return trace.exists() and trace.read_bytes()[-64:].rstrip().endswith(b"}")


def _is_link(scenario: Scenario) -> bool:
    return scenario.fault == "slow_link"


def _environment(rank: int, port: int) -> dict[str, str]:
    return {
        **os.environ,
        "NCCL_HOSTID": f"host{rank}",
        "NCCL_SOCKET_IFNAME": "lo",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "PYTHONPATH": os.pathsep.join(
            [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
        ),
    }


def _slices() -> list[str]:
    return re.findall(r"MIG-[0-9a-f-]{36}", _nvidia_smi("-L"))


def _nvidia_smi(*arguments: str) -> str:
    command = ["nvidia-smi", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        _say(f"{' '.join(command)}: {(done.stdout + done.stderr).strip()}")
    return done.stdout


def _say(line: str) -> None:
    sys.stderr.write(f"{time.monotonic() - _BEGIN:6.1f} s  {line}\n")
    sys.stderr.flush()


_BEGIN = time.monotonic()


def main() -> int:
    """Record what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("half", choices=("tune", "test", "fresh"))
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*", help="runs to record; all when left out")
    parser.add_argument("--share", choices=("mig", "mps"), default="mig")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    given = parser.parse_intermixed_args()
    recorded = record(given.half, given.out, given.names, given.share, given.seconds, given.device)
    return 0 if recorded else 3


if __name__ == "__main__":
    sys.exit(main())
