from __future__ import annotations

from pathlib import Path

import pytest

from solscope.lab.rankers import (
    COUNTER_CAUSES,
    RANKERS,
    Compared,
    cause_of_counter,
    cause_of_function,
    log_ratio,
    nameable,
    suspicion,
    z_log_mu,
)
from solscope.readers.packed import Counter
from tests.unit.lab.made import observations

DATA = Path(__file__).parents[2] / "data" / "behavior"


@pytest.mark.parametrize(
    ("counter", "cause"),
    [
        ("cpu_frequency", "cpu_slow"),
        ("host_cpu_usage", "cpu_contention"),
        ("host_cpu_iowait", "disk_io"),
        ("host_cpu_steal", "cpu_slow"),
        ("runq_ns", "cpu_contention"),
        ("gc_ns", "gc"),
        ("ctx_vol", "lock_wait"),
        ("ctx_invol", "cpu_contention"),
        ("cgroup_throttled_ns", "cpu_quota"),
        ("affinity_cores", "cpu_affinity"),
        ("psi_io_some_us", "disk_io"),
        ("psi_memory_some_us", "host_memory"),
        ("gpu_pcie_transmit", "pcie"),
        ("gpu_link_receive", "interconnect"),
        ("gpu_sm_frequency", "gpu_clock"),
        ("gpu_throttle_reasons", "gpu_clock"),
        ("gpu_other_usage", "gpu_contention"),
        ("process_gpu_usage", "gpu_contention"),
        ("write_calls", "disk_io"),
        ("moon_phase", None),
    ],
)
def test_a_counter_stands_for_a_cause(counter: str, cause: str | None) -> None:
    assert cause_of_counter(counter) == cause


@pytest.mark.parametrize(
    ("function", "cause"),
    [
        ("host_call:sync", "extra_sync"),
        ("section:schedule", "slow_section"),
        ("section:gc", "gc"),
        ("memcpy:Memcpy HtoD (Pageable -> Device)", "pageable_copy"),
        ("memcpy:Memcpy HtoD (Pinned -> Device)", "pcie"),
        ("attention:flash_fwd", "workload_context"),
        ("norm:rms", None),
    ],
)
def test_a_function_stands_for_a_cause(function: str, cause: str | None) -> None:
    assert cause_of_function(function) == cause


def test_only_the_suspicion_score_knows_functions() -> None:
    assert "extra_sync" in nameable("suspicion score")
    assert "extra_sync" not in nameable("median |log ratio|")
    assert {cause for _, cause in COUNTER_CAUSES} == nameable("max |Z log mu|")


def test_the_same_run_twice_is_silent() -> None:
    run = observations()
    assert {name: ranker(Compared(run, run)) for name, ranker in RANKERS.items()} == {
        name: [] for name in RANKERS
    }


def test_a_clock_that_fell() -> None:
    slow = observations(wall=350_000, cpu_mhz=900.0)
    compared = Compared(observations(), slow)
    assert log_ratio(compared) == ["cpu_slow"]
    assert z_log_mu(compared) == ["cpu_slow"]


def test_the_suspicion_score_names_the_counter_then_the_function() -> None:
    # The attention kernel takes more of the step; the clock it is read with did not change.
    grown = observations(attention=60_000)
    assert suspicion(Compared(observations(), grown))[:2] == ["gpu_clock", "workload_context"]


def test_a_count_that_grows_is_compared_by_its_rate() -> None:
    counts = [Counter("runq_ns", None, True, 0, [0.0, 5.0, 10.0, 15.0], 4)]
    more = [Counter("runq_ns", None, True, 0, [0.0, 50.0, 100.0, 150.0], 4)]
    assert log_ratio(Compared(observations(counters=counts), observations(counters=more))) == [
        "cpu_contention"
    ]


def test_a_run_without_whole_steps_ranks_nothing() -> None:
    run = observations(steps=0)
    assert suspicion(Compared(run, run)) == []
