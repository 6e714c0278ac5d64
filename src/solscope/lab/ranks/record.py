"""Record the runs of one half: `python -m solscope.lab.ranks.record tune OUT` (as root).

The GPU is cut into four MIG slices, one process runs on each, and NCCL talks over loopback
sockets. NCCL refuses two ranks of one PCI device on one host, so each rank gets a host id of its
own. The slices are given back at the end.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from solscope.lab.archive import pack
from solscope.lab.ranks import faults
from solscope.lab.ranks.plan import WORLD, Scenario, scenarios

BUDGET_S = 455.0
"""No run is started after this time."""
RUN_LIMIT_S = 45.0
"""Seconds after which a run that has not ended is killed."""


def record(half: str, out: Path, only: list[str]) -> None:
    """Record a half and pack it into `part-NNN.tar` files in `out`."""
    start = time.monotonic()
    made = not _slices()
    if made:
        _nvidia_smi("-mig", "1")
        _nvidia_smi("mig", "-cgi", "15,15,15,15", "-C")
    slices = _slices()
    _say(f"{len(slices)} slices")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        truths = []
        for number, scenario in enumerate(scenarios(half)):
            if only and scenario.name not in only:
                continue
            if time.monotonic() - start > BUDGET_S:
                _say(f"{scenario.name}: not recorded, out of time")
                continue
            truths.append(_run(half, scenario, work, slices, 29600 + number))
        lines = "".join(json.dumps(truth) + "\n" for truth in truths if truth)
        (work / f"truth-{half}.jsonl").write_text(lines)
        if made:
            for command in (("mig", "-dci"), ("mig", "-dgi"), ("-mig", "0")):
                _nvidia_smi(*command)
        parts = pack([p for p in work.iterdir() if p.suffix in (".json", ".jsonl")], out)
    sizes = [f"{file.name} {file.stat().st_size / 2**20:.1f} MiB" for file in parts]
    _say(f"{', '.join(sizes)}; {time.monotonic() - start:.0f} s")


def _run(
    half: str, scenario: Scenario, out: Path, slices: list[str], port: int
) -> dict[str, object] | None:
    """Record one run; null when a rank failed."""
    start = time.monotonic()
    go = out / f"{scenario.name}.go"
    mtu = faults.set_link_mtu(faults.LINK_MTU[scenario.strength]) if _is_link(scenario) else None
    hogs = [
        subprocess.Popen(command, env=_environment(slices, scenario.rank or 0, port))
        # A smaller MTU makes a slower link; where it cannot be set, others use the link.
        for command in (faults.commands(scenario, go) if mtu is None else [])
    ]
    ranks = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "solscope.lab.ranks.worker",
                half,
                scenario.name,
                str(rank),
                str(out),
                str(go),
            ],
            env=_environment(slices, rank, port),
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(WORLD)
    ]
    failed = False
    for rank, process in enumerate(ranks):
        try:
            _, errors = process.communicate(
                timeout=max(1.0, RUN_LIMIT_S - (time.monotonic() - start))
            )
        except subprocess.TimeoutExpired:
            process.kill()
            _, errors = process.communicate()
            errors = f"timeout; {errors}"
        if not _is_whole(out / f"{scenario.name}-rank{rank}.trace.json"):
            failed = True
            _say(f"{scenario.name} rank {rank} failed: {errors[-600:]}")
    for hog in hogs:
        hog.kill()
        hog.wait()
    if mtu is not None:
        faults.set_link_mtu(mtu)
    steps = out / f"{scenario.name}-steps.json"
    if failed or not steps.exists():
        for path in out.glob(f"{scenario.name}-rank*"):
            path.unlink()
        return None
    walls = json.loads(steps.read_text())
    steps.unlink()
    median = sorted(walls)[len(walls) // 2] * 1e3
    _say(f"{scenario.name}: step median {median:.2f} ms, {time.monotonic() - start:.0f} s")
    more = {"step_ms": median, "mtu_set": mtu is not None, "half": half}
    return scenario.truth() | more


def _is_whole(trace: Path) -> bool:
    """Whether a rank wrote all of its trace, however it ended."""
    return trace.exists() and trace.read_bytes()[-64:].rstrip().endswith(b"}")


def _is_link(scenario: Scenario) -> bool:
    return scenario.fault == "slow_link"


def _environment(slices: list[str], rank: int, port: int) -> dict[str, str]:
    return {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": slices[rank],
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
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    chosen_half, target, *names = sys.argv[1:]
    record(chosen_half, Path(target), names)
