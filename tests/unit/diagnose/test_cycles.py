from __future__ import annotations

import msgspec
import polars as pl
import pytest

from solscope.diagnose.classic.cycles import METRICS_OF, cycles_of
from solscope.readers.packed import (
    VERSION,
    Counter,
    HostCalls,
    KernelClass,
    Observations,
    Run,
    Section,
    Step,
)

MS = 1_000_000
"""Three steps of 10 ms; the last is cut."""
RUN = Run(
    *("made", "kineto", ["H200"], None, "annotation", 30 * MS, 1_000, 1, 1, False, False),
    *(0, 0.0, 100.0, 0, {}, []),
)


def kernel(name: str, category: str, calls: list[int], ns: list[int]) -> KernelClass:
    return KernelClass(category, name, None, calls, ns, ns, 0, {}, 0)


def observations(**parts: object) -> Observations:
    steps = [Step(at, 10 * MS * at, 10 * MS, "decode", None, None, 1, at < 2) for at in range(3)]
    empty: dict[str, object] = {
        "tiles": [],
        "kernels": [],
        "host_calls": [],
        "sections": [],
        "host_ops": [],
        "stalls": [],
        "clocks": [],
        "counters": [],
    }
    return Observations(VERSION, RUN, steps, **(empty | parts))  # type: ignore[arg-type]


def table(observed: Observations, *columns: str) -> list[tuple[object, ...]]:
    return cycles_of(observed).select(columns).rows()


def test_whole_steps_are_cycles() -> None:
    kernels = [kernel("f", "gemm", [2, 4, 9], [1 * MS, 3 * MS, 9 * MS])]
    columns = ("cycle", "anchor", "anchor_ns", "start_ns", "name", "device", "dur_ns", "calls")
    assert table(observations(kernels=kernels), *columns, "beta_pct", "metric") == [
        (0, "step (annotation)", 10 * MS, 1_000, "f", 0, 1 * MS, 2, 10.0, None),
        (1, "step (annotation)", 10 * MS, 10 * MS + 1_000, "f", 0, 3 * MS, 4, 30.0, None),
    ]


def test_a_function_that_did_not_run_in_a_cycle_has_no_row_there() -> None:
    kernels = [kernel("f", "gemm", [0, 1, 0], [0, MS, 0])]
    assert table(observations(kernels=kernels), "cycle") == [(1,)]


def test_functions_by_resource() -> None:
    ones, ns = [1, 1, 1], [MS, MS, MS]
    observed = observations(
        kernels=[
            kernel("f", "gemm", ones, ns),
            kernel("all_reduce", "comm", ones, ns),
            kernel("Memcpy HtoD (Pinned -> Device)", "memcpy", ones, ns),
            kernel("Memcpy DtoD (Device -> Device)", "memcpy", ones, ns),
        ],
        host_calls=[HostCalls("sync", ones, ns)],
        sections=[Section("schedule", ones, ns, ns, [0, 0, 0])],
    )
    found = (
        cycles_of(observed).select(pl.col("resource").cast(pl.String)).unique(maintain_order=True)
    )
    assert found["resource"].to_list() == [
        *("gpu_compute", "gpu_comm", "gpu_memcpy_h2d", "gpu_memcpy_d2d", "host_call", "section"),
    ]
    assert set(found["resource"]) <= set(METRICS_OF)


def readings(counter: Counter, clock: list[int]) -> list[tuple[object, ...]]:
    """Readings of a counter of the host, by cycle."""
    sections = [Section("schedule", [1, 1, 1], [MS, MS, MS], [0, 0, 0], [0, 0, 0])]
    observed = observations(sections=sections, clocks=[clock], counters=[counter])
    return table(observed, "cycle", "metric", "mu", "estimated")


def test_three_samples_in_a_cycle_are_averaged() -> None:
    clock = [10, 50, 90, 150]  # in tenths of ms: three in the first cycle, one in the second
    counter = Counter("cpu_frequency", None, False, 0, [100.0, 200.0, 600.0, 700.0], 4)
    assert readings(counter, clock) == [
        (0, "cpu_frequency", 300.0, None),
        (1, "cpu_frequency", 700.0, "**"),
    ]


def test_fewer_are_interpolated_at_the_middle() -> None:
    # Samples at 2 ms and 22 ms: the middle of the first cycle, 5 ms, lies 3/20 between them.
    counter = Counter("cpu_frequency", None, False, 0, [100.0, 300.0], 2)
    assert readings(counter, [20, 220]) == [
        (0, "cpu_frequency", pytest.approx(130.0), "**"),
        (1, None, None, None),
    ]


def test_a_cycle_without_a_sample_has_no_reading() -> None:
    counter = Counter("cpu_frequency", None, False, 0, [100.0], 1)
    assert readings(counter, [250]) == [(0, None, None, None), (1, None, None, None)]


def test_a_count_that_grows_is_read_as_its_rate() -> None:
    # 50 in 10 ms are 5,000 per second.
    counter = Counter("ctx_invol", None, True, 0, [0.0, 50.0, 100.0, 150.0], 4)
    assert readings(counter, [0, 100, 200, 300]) == [
        (0, "ctx_invol", pytest.approx(5000.0), "**"),
        (1, "ctx_invol", pytest.approx(5000.0), "**"),
    ]


def test_counters_belong_to_functions_of_their_resource() -> None:
    counters = [
        Counter(name, None if name.startswith("cpu") else 0, False, 0, [1.0], 4)
        for name in ("cpu_frequency", "gpu_usage", "gpu_pcie_receive", "gpu_link_receive")
    ]
    ones, ns = [1, 1, 1], [MS, MS, MS]
    observed = observations(
        kernels=[
            kernel("f", "gemm", ones, ns),
            kernel("nccl", "comm", ones, ns),
            kernel("Memcpy DtoH (Device -> Pinned)", "memcpy", ones, ns),
        ],
        sections=[Section("schedule", ones, ns, ns, [0, 0, 0])],
        clocks=[[10, 50, 90, 150]],
        counters=counters,
    )
    found: dict[object, set[object]] = {}
    for name, metric in table(observed, "name", "metric"):
        found.setdefault(name, set()).add(metric)
    assert found == {
        "f": {"gpu_usage"},
        "nccl": {"gpu_usage", "gpu_pcie_receive", "gpu_link_receive"},
        "Memcpy DtoH (Device -> Pinned)": {"gpu_pcie_receive"},
        "schedule": {"cpu_frequency"},
    }


def test_states_of_the_thread_are_functions() -> None:
    # On a core for 8 of the first 10 ms, and 4 of the next.
    counter = Counter("oncpu_ns", None, True, 0, [0.0, 8.0 * MS, 12.0 * MS], 3)
    observed = observations(clocks=[[0, 100, 200]], counters=[counter])
    rows = [row for row in table(observed, "name", "cycle", "beta_pct") if row[0] == "oncpu"]
    assert rows == [("oncpu", 0, pytest.approx(80.0)), ("oncpu", 1, pytest.approx(40.0))]


def test_nothing_observed_is_an_empty_table() -> None:
    assert cycles_of(observations()).is_empty()
    assert cycles_of(msgspec.structs.replace(observations(), steps=[])).is_empty()
