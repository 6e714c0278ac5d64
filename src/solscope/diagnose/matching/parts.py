"""Two parts of one run, compared like two runs: slow steps with others, the end with the start.

What a recording has for the whole run only, the time of host operators, is left out of both parts;
the typical call of a kernel is taken from the steps of the part.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from solscope.diagnose.matching.units import Side, Stratum, Units, batches_of
from solscope.diagnose.thresholds import THRESHOLDS, Thresholds
from solscope.intervals import Int64s
from solscope.readers.packed import CLOCK_NS, Counter, KernelClass, Observations
from solscope.resample import Floats

_replace = msgspec.structs.replace


@dataclass(frozen=True)
class Parts:
    """Steps of one run, by their indices."""

    usual: Int64s
    slower: Int64s


def in_one_state(run: Observations, usual: Int64s, slow: Int64s) -> bool:
    """Whether all slow steps are longer in the same state of the GPU than others of their phase."""
    phases = np.array([step.phase or "" for step in run.steps])
    states = np.array([tile.ns for tile in run.tiles], dtype=np.float64)
    longest = set()
    for row in slow.tolist():
        alike = usual[phases[usual] == phases[row]]
        if not alike.size:
            return False
        longest.add(int(np.argmax(states[:, row] - np.median(states[:, alike], axis=1))))
    return len(longest) == 1


def compare_parts(
    run: Observations, parts: Parts, *, sensors: bool, limits: Thresholds = THRESHOLDS
) -> Units | None:
    """Both parts matched phase by phase; null when they have no phase in common.

    With `sensors`, each part keeps the samples taken between its first and its last step, without
    those taken during the other part; which asks for parts that are stretches of the run.
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
    both = (
        np.concatenate([stratum.normal for stratum in strata]),
        np.concatenate([stratum.abnormal for stratum in strata]),
    )
    sides = [
        Side(_part(run, rows, other if sensors else None), rows, {})
        for rows, other in (both, both[::-1])
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
    return np.array(
        [index for index in rows.tolist() if run.steps[index].phase == phase], dtype=np.int64
    )


def _part(run: Observations, rows: Int64s, other: Int64s | None) -> Observations:
    """The run with figures of these steps; sensors only where the other part is given."""
    counters, clocks = ([], []) if other is None else _samples(run, rows, other)
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


def _samples(
    run: Observations, rows: Int64s, other: Int64s
) -> tuple[list[Counter], list[list[int]]]:
    first, last = run.steps[int(rows.min())], run.steps[int(rows.max())]
    begin, end = first.start_ns, last.start_ns + last.wall_ns
    starts = np.array([step.start_ns for step in run.steps])
    own = _belongs(len(run.steps), rows, other)
    clocks: list[list[int]] = []
    counters: list[Counter] = []
    for counter in run.counters:
        times = np.array(run.clocks[counter.clock], dtype=np.int64) if counter.n else None
        if times is None:
            continue
        inside = (times * CLOCK_NS >= begin) & (times * CLOCK_NS <= end)
        inside &= own[np.maximum(0, np.searchsorted(starts, times * CLOCK_NS, "right") - 1)]
        if inside.any():
            values = np.array(counter.readings, dtype=np.float64)
            kept, ticks = _joined(values, times, inside, grows=counter.grows)
            counters.append(_replace(counter, clock=len(clocks), values=kept, n=len(kept)))
            clocks.append(ticks)
    return counters, clocks


def _joined(
    values: Floats, times: Int64s, inside: npt.NDArray[np.bool_], *, grows: bool
) -> tuple[list[float], list[int]]:
    """The samples of a part; what a count grew by between stretches, and that time, is left out."""
    kept = values[inside].tolist(), times[inside].tolist()
    indices = np.flatnonzero(inside)
    within = np.diff(indices) == 1
    if not grows or within.all():
        return kept
    grown, passed = (np.diff(series[inside])[within] for series in (values, times))
    counts = np.concatenate([[0.0], np.cumsum(grown)])
    ticks = times[indices[0]] + np.concatenate([[0], np.cumsum(passed)])
    return counts.tolist(), ticks.tolist()


def _belongs(steps: int, rows: Int64s, other: Int64s) -> npt.NDArray[np.bool_]:
    """Whether each step belongs to a part; one of neither belongs where the step before it does."""
    observed = np.sort(np.concatenate([rows, other]))
    before = np.maximum(0, np.searchsorted(observed, np.arange(steps), "right") - 1)
    belongs: npt.NDArray[np.bool_] = np.isin(observed[before], rows)
    return belongs
