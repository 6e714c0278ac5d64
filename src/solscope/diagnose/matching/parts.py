"""Two parts of one run, compared like two runs: slow steps with others, the end with the start.

What a recording has for the whole run only, the time of host operators, is left out of both parts;
the typical call of a kernel is taken from the steps of the part.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from solscope.diagnose.matching.units import Side, Stratum, Units, batches_of
from solscope.diagnose.thresholds import THRESHOLDS, Thresholds
from solscope.intervals import Int64s
from solscope.readers.packed import CLOCK_NS, Counter, KernelClass, Observations

_replace = msgspec.structs.replace


@dataclass(frozen=True)
class Parts:
    """Steps of one run, by their indices."""

    usual: Int64s
    slower: Int64s


def compare_parts(
    run: Observations, parts: Parts, *, sensors: bool, limits: Thresholds = THRESHOLDS
) -> Units | None:
    """Both parts matched phase by phase; null when they have no phase in common.

    With `sensors`, each part keeps the samples taken between its first and its last step, which
    asks for parts that are stretches of the run.
    """
    strata = []
    for phase in dict.fromkeys(step.phase for step in run.steps):
        usual, slower = (_of_phase(run, steps, phase) for steps in (parts.usual, parts.slower))
        enough = min(usual.size, slower.size) >= limits.min_steps
        stratum = Stratum(phase, usual, slower, tested=enough)
        if stratum.common:
            strata.append(stratum)
    if not strata:
        return None
    sides = [
        Side(_part(run, rows, sensors=sensors), rows, {})
        for rows in (
            np.concatenate([stratum.normal for stratum in strata]),
            np.concatenate([stratum.abnormal for stratum in strata]),
        )
    ]
    return Units(
        normal=sides[0],
        abnormal=sides[1],
        strata=strata,
        factor=1.0,
        comparable="good",
        reasons=[],
        batches=batches_of((sides[0], sides[1])),
        mix={},
        moved=[],
        noise=None,
    )


def _of_phase(run: Observations, rows: Int64s, phase: str | None) -> Int64s:
    return np.array([at for at in rows.tolist() if run.steps[at].phase == phase], dtype=np.int64)


def _part(run: Observations, rows: Int64s, *, sensors: bool) -> Observations:
    counters, clocks = _samples(run, rows) if sensors else ([], [])
    return _replace(
        run,
        kernels=[_typical(kernel, rows) for kernel in run.kernels],
        host_ops=[],
        clocks=clocks,
        counters=counters,
    )


def _typical(kernel: KernelClass, rows: Int64s) -> KernelClass:
    """The median over steps of the mean call, which is all that is known of single steps."""
    calls, ns = np.array(kernel.calls)[rows], np.array(kernel.ns)[rows]
    ran = calls > 0
    if not ran.any():
        return kernel
    return _replace(kernel, p50_ns=int(np.median(ns[ran] / calls[ran])))


def _samples(run: Observations, rows: Int64s) -> tuple[list[Counter], list[list[int]]]:
    first, last = run.steps[int(rows.min())], run.steps[int(rows.max())]
    begin, end = first.start_ns, last.start_ns + last.wall_ns
    clocks: list[list[int]] = []
    counters: list[Counter] = []
    for counter in run.counters:
        times = np.array(run.clocks[counter.clock], dtype=np.int64) if counter.n else None
        if times is None:
            continue
        inside = (times * CLOCK_NS >= begin) & (times * CLOCK_NS <= end)
        if inside.any():
            values = np.array(counter.readings)[inside].tolist()
            counters.append(_replace(counter, clock=len(clocks), values=values, n=len(values)))
            clocks.append(times[inside].tolist())
    return counters, clocks
