"""Simple rankers to measure a diagnosis against, in the same harness and from the same data.

Each ranks rows or counters by a number, and a stated table says which cause a row or a counter
stands for (`COUNTER_CAUSES`, `FUNCTION_CAUSES`). The tables are generous: a row names the cause of
its counter and, after it, that of its function. What no counter and no function stands for, such a
ranker cannot name.

    suspicion     |delta beta| x (|Z beta| + |Z log mu|) of the classic report, rows
    z_log_mu      largest |Z log mu| of a counter over all functions
    log_ratio     |log of the ratio of medians| of a counter, each sample counted once
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solscope.diagnose.classic import FINDING_FROM, ScoredRow, scored_rows
from solscope.diagnose.classic.cycles import Floats, cycles_of, function_name
from solscope.readers.packed import CLOCK_NS, Counter, Observations

COUNTER_CAUSES = (
    (r"cgroup|throttled_(us|ns|periods)|nr_throttled|quota", "cpu_quota"),
    (r"affinity", "cpu_affinity"),
    (r"cpu_frequency|spin_cpu|steal", "cpu_slow"),
    (r"iowait|psi_io|^io_|disk|read_(bytes|calls)|write_(bytes|calls)", "disk_io"),
    (r"psi_mem|page_faults|host_mem", "host_memory"),
    (r"^gc_|process_mem", "gc"),
    (r"ctx_vol|process_threads", "lock_wait"),
    (r"host_cpu|runq|ctx_invol|procs_running|psi_cpu|spin_wall", "cpu_contention"),
    (r"process_cpu|oncpu", "slow_section"),
    (r"pcie", "pcie"),
    (r"link", "interconnect"),
    (r"gpu_mem_used", "allocator"),
    (r"gpu_.*(frequency|power|energy|temp|throttle)", "gpu_clock"),
    (r"gpu", "gpu_contention"),
)
"""The cause of a counter: the first pattern that occurs in its name."""
FUNCTION_CAUSES = (
    (r"^host_call:sync", "extra_sync"),
    (r"^host_call:(alloc|free|host_alloc)", "allocator"),
    (r"^host_call:(graph_launch|launch)", "graphs_off"),
    (r"^host_call:memcpy", "pageable_copy"),
    (r"^section:.*\bgc\b", "gc"),
    (r"^section:.*(fsync|\bio\b|disk)", "disk_io"),
    (r"^section:", "slow_section"),
    (r"^state:runq", "cpu_contention"),
    (r"^memcpy:.*pageable", "pageable_copy"),
    (r"^memcpy:", "pcie"),
    (r"^comm:", "interconnect"),
    (r"^attention:", "workload_context"),
    (r"^gemm:", "kernel_changed"),
)
"""The cause of a function: `KIND:NAME`, where the kind of a kernel is its category."""
SMALLEST_Z = 3.0
"""Three standard deviations: below it nothing is named."""
SMALLEST_LOG_RATIO = math.log(1.2)
_SOFTEN = 0.01
"""Part of the larger median added to both, so that a counter at zero has a ratio."""


@dataclass(frozen=True)
class Compared:
    """Two runs, and what the rankers share of them."""

    normal: Observations
    abnormal: Observations

    @cached_property
    def rows(self) -> list[ScoredRow]:
        """Rows of the classic comparison; none when a run has no whole step."""
        tables = [cycles_of(run) for run in (self.normal, self.abnormal)]
        return [] if any(t.is_empty() for t in tables) else scored_rows(tables[0], tables[1])


Ranker = Callable[[Compared], list[str]]
"""Causes, the most suspicious first; none if nothing is above the ranker's own limit."""


def suspicion(compared: Compared) -> list[str]:
    """By the suspicion score of rows."""
    kinds = {**_kinds(compared.normal), **_kinds(compared.abnormal)}
    named: list[str | None] = []
    for row in compared.rows:
        if row.suspicion_score > FINDING_FROM:
            function = kinds.get((row.device, row.function), row.function)
            named += [cause_of_counter(row.metric), cause_of_function(function)]
    return _distinct(named)


def z_log_mu(compared: Compared) -> list[str]:
    """By the largest |Z log mu| of each counter."""
    largest: dict[str, float] = {}
    for row in compared.rows:
        largest[row.metric] = max(largest.get(row.metric, 0.0), abs(row.z_log_mu))
    return _by_counter(largest, SMALLEST_Z)


def log_ratio(compared: Compared) -> list[str]:
    """By |log ratio| of the medians of each counter."""
    first, second = (_medians(side) for side in (compared.normal, compared.abnormal))
    changes: dict[str, float] = {}
    for key in first.keys() & second.keys():
        a, b = first[key], second[key]
        softener = _SOFTEN * max(a, b)
        if softener > 0 and min(a, b) >= 0:
            change = abs(math.log((b + softener) / (a + softener)))
            changes[key[0]] = max(changes.get(key[0], 0.0), change)
    return _by_counter(changes, SMALLEST_LOG_RATIO)


RANKERS: dict[str, Ranker] = {
    "suspicion score": suspicion,
    "max |Z log mu|": z_log_mu,
    "median |log ratio|": log_ratio,
}
"""The baselines, by the name that the tables show."""


def cause_of_counter(name: str) -> str | None:
    """The cause that a counter indicates."""
    return next((cause for pattern, cause in COUNTER_CAUSES if re.search(pattern, name)), None)


def cause_of_function(kind: str) -> str | None:
    """The cause that a function, as `KIND:NAME`, indicates."""
    return next(
        (cause for pattern, cause in FUNCTION_CAUSES if re.search(pattern, kind, re.IGNORECASE)),
        None,
    )


def nameable(ranker: str) -> set[str]:
    """Causes that a baseline can name at all."""
    by_function = FUNCTION_CAUSES if ranker == "suspicion score" else ()
    return {cause for _, cause in (*COUNTER_CAUSES, *by_function)}


def _kinds(observed: Observations) -> dict[tuple[str, str], str]:
    """`KIND:NAME` of functions, by device and name as the classic table has them."""
    kinds = {("Host", state): f"state:{state}" for state in ("oncpu", "runq")}
    kinds |= {("Host", call.kind): f"host_call:{call.kind}" for call in observed.host_calls}
    kinds |= {("Host", section.name): f"section:{section.name}" for section in observed.sections}
    for kernel in observed.kernels:
        kinds["GPU 0", function_name(kernel)] = f"{kernel.category}:{kernel.name}"
    return kinds


def _medians(observed: Observations) -> dict[tuple[str, int | None], float]:
    """Median reading, or median rate between samples, of every counter."""
    medians = {}
    for counter in observed.counters:
        values = np.array(counter.readings, dtype=np.float64)
        if counter.grows:
            values = _rates(observed, counter, values)
        if values.size:
            medians[counter.name, counter.device] = float(np.median(values))
    return medians


def _rates(observed: Observations, counter: Counter, values: Floats) -> Floats:
    seconds = np.diff(np.array(observed.clocks[counter.clock], dtype=np.float64)) * CLOCK_NS / 1e9
    measured = seconds > 0
    return np.diff(values)[measured] / seconds[measured]


def _by_counter(scores: dict[str, float], least: float) -> list[str]:
    order = sorted((name for name in scores if scores[name] > least), key=lambda n: (-scores[n], n))
    return _distinct(cause_of_counter(name) for name in order)


def _distinct(causes: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(cause for cause in causes if cause is not None))
