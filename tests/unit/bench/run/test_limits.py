"""Limits of the evaluator, each at its edge."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

torch = pytest.importorskip("torch")

from solscope.bench.base import ShapeResult  # noqa: E402
from solscope.bench.catalog import find_solution  # noqa: E402
from solscope.bench.pool import device_memory  # noqa: E402
from solscope.bench.pool.arena import ALIGNMENT, aligned, fingerprint  # noqa: E402
from solscope.bench.results.contrast import contrast  # noqa: E402
from solscope.bench.run import agenda, timing_gpu  # noqa: E402
from solscope.bench.run.agenda import Agenda, Options  # noqa: E402
from solscope.bench.run.check import Verdict  # noqa: E402
from solscope.bench.run.correctness import MAX_TIMEOUTS, Checked, OperatorCheck  # noqa: E402
from solscope.bench.run.evaluate import Evaluation  # noqa: E402
from solscope.bench.run.reference import ROWS, Effort, by_rows, draw_rows  # noqa: E402
from solscope.bench.run.sensors import BUSY_PCT  # noqa: E402
from solscope.bench.run.statistics import is_noisy  # noqa: E402
from solscope.bench.run.timing import Measured  # noqa: E402
from solscope.bench.worker.messages import CallTimes  # noqa: E402
from solscope.bench.workloads import REHEARSALS, Workload, beside, rehearsal  # noqa: E402
from solscope.errors import UsageError  # noqa: E402
from solscope.operators import operator  # noqa: E402
from solscope.operators.base import Cost  # noqa: E402

# --- Guards of timing


@pytest.mark.parametrize(("lag_us", "ok"), [(70.0, True), (70.1, False)])
def test_work_may_go_on_for_60_us_and_a_tenth_of_the_call(lag_us: float, ok: bool) -> None:
    measured = Measured()
    times = CallTimes(outputs=[], events_us=[100.0], host_us=[1.0], lag_us=[lag_us])
    timing_gpu._check_lag(times, measured)
    assert measured.verdict.ok is ok


@pytest.mark.parametrize(("cold_us", "false"), [(50.0, False), (49.9, True)])
def test_half_of_the_time_in_a_graph_may_be_claimed(cold_us: float, false: bool) -> None:
    in_graph_us = 100.0 + timing_gpu.GRAPH_GAP_US
    assert timing_gpu._is_too_little(cold_us, in_graph_us) is false


def test_a_batch_fits_into_time_and_memory() -> None:
    def batch(call_us: float, output_bytes: int, seconds: float) -> int:
        return timing_gpu.Pace(call_us, 0.0, [output_bytes], seconds).batch(30, warm=False)

    assert batch(100.0, 1, 1.0) == 30
    assert batch(900.0, 1, 0.01) == 10, "1 ms each, flush and surroundings included"
    assert batch(100.0, timing_gpu.KEPT_BYTES // 7, 1.0) == 7
    assert batch(100.0, timing_gpu.KEPT_BYTES, 1.0) == 3, "fewer say nothing about noise"


def test_copies_of_updated_tensors_end_at_1_gib() -> None:
    def copied(bytes_per_call: int, calls: int) -> int:
        tensor = Mock(numel=lambda: bytes_per_call, element_size=lambda: 1)
        sets = Mock(tensors=lambda _: {"state": tensor})
        return len(timing_gpu._copied(sets, Mock(mutates=("state",)), calls))

    assert copied(1 << 28, 9) == 4
    assert copied(1 << 30, 9) == 1
    assert copied((1 << 30) + 1, 9) == 0
    assert copied(1, 9) == 9


# --- Statistics


@pytest.mark.parametrize(("spread_us", "noisy"), [(1.27, False), (1.28, True)])
def test_the_median_must_be_known_to_1_percent(spread_us: float, noisy: bool) -> None:
    """Half of the interval is 1.57 IQR / sqrt(4): 1 us of a median of 100 us at 1.274 us."""
    values = [100 - spread_us / 2, 100 - spread_us / 2, 100 + spread_us / 2, 100 + spread_us / 2]
    assert is_noisy(values) is noisy


@pytest.mark.parametrize(("spread_us", "noisy"), [(0.127, False), (0.128, True)])
def test_nothing_is_asked_to_be_surer_than_a_tenth_of_a_microsecond(
    spread_us: float, noisy: bool
) -> None:
    values = [1 - spread_us / 2, 1 - spread_us / 2, 1 + spread_us / 2, 1 + spread_us / 2]
    assert is_noisy(values) is noisy


def result(median_us: float, restarts: int, run: str = "one") -> ShapeResult:
    return ShapeResult(
        *("rms_norm", "0", "mine", "passed", "gpu", "cold-v1"),
        median_us=median_us,
        samples=[median_us] * 30,
        samples_per_restart=[30 // restarts] * restarts,
        suite="atrex",
        run={"id": run},
    )


@pytest.mark.parametrize(
    ("b_us", "restarts", "verdict"),
    [
        (98.9, 3, "faster"),
        (99.1, 3, "cannot tell"),
        (100.9, 3, "cannot tell"),
        (101.1, 3, "slower"),
        (91.6, 1, "faster"),
        (91.8, 1, "cannot tell"),
        (109.0, 1, "cannot tell"),
        (109.2, 1, "slower"),
    ],
)
def test_a_difference_is_more_than_1_percent_and_more_than_processes_differ(
    b_us: float, restarts: int, verdict: str
) -> None:
    """A single process may be off by 8 %: 0.99 / 1.08 = 0.9167, 1.01 * 1.08 = 1.0908."""
    found = contrast([result(100.0, restarts)], [result(b_us, restarts)])
    assert found.shapes[0].verdict == verdict


@pytest.mark.parametrize(
    ("b_us", "verdict"),
    [(95.5, "faster"), (95.8, "cannot tell"), (104.4, "cannot tell"), (104.7, "slower")],
)
def test_runs_that_may_be_of_two_machines_may_differ_by_more(b_us: float, verdict: str) -> None:
    """Two machines may be 3.5 % apart: 0.99 / 1.035 = 0.9565, 1.01 * 1.035 = 1.0454."""
    found = contrast([result(100.0, 3)], [result(b_us, 3, run="two")])
    assert found.shapes[0].verdict == verdict


# --- References


def test_a_reference_is_whole_up_to_its_limits() -> None:
    effort = Effort()
    norm, unsampled = operator("rms_norm").task, SimpleNamespace(sampled=None, unsampled=())
    assert norm is not None

    def rows(flop: float, size: float, task: Any = norm) -> bool | None:
        return by_rows(
            Cost(flops={"vector.fp32": flop}, read_bytes={"activations": size}), task, effort
        )

    assert rows(effort.full_flop, effort.full_bytes) is False
    assert rows(1.01 * effort.full_flop, 0) is True
    assert rows(0, 1.01 * effort.full_bytes) is True
    assert rows(64 * effort.full_flop, 0, unsampled) is False
    assert rows(64.1 * effort.full_flop, 0, unsampled) is None
    assert rows(0, 64.1 * effort.full_bytes, unsampled) is None


def test_up_to_64_rows_all_are_compared() -> None:
    assert ROWS == 64
    assert draw_rows(64) == list(range(64))
    drawn = draw_rows(65)
    assert len(drawn) == 64
    assert {0, 64} <= set(drawn)


@pytest.mark.parametrize(("timeouts", "given_up"), [(1, False), (2, True)])
def test_a_solution_that_does_not_answer_twice_is_not_asked_again(
    timeouts: int, given_up: bool
) -> None:
    assert MAX_TIMEOUTS == 2
    stage = Mock(found={"x": Checked()})
    slot = Mock(candidate=Mock(key="x"))
    for number in range(timeouts):
        shape = Mock(shape=str(number))
        OperatorCheck._note(stage, slot, shape, Verdict("timeout", "late"), Mock(seeds=[]), "full")
    assert (stage.found["x"].everywhere is not None) is given_up


# --- Memory


def test_a_shape_needs_seven_times_what_it_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (700, 1000))
    assert not device_memory.is_short("cuda", 100.0)
    assert device_memory.is_short("cuda", 100.1)
    assert not device_memory.is_short("cpu", 1e12)


@pytest.mark.parametrize(("reserved", "freed"), [(10, 0), (11, 1)])
def test_cached_memory_is_given_back_only_when_it_is_much(
    monkeypatch: pytest.MonkeyPatch, reserved: int, freed: int
) -> None:
    empty = Mock()
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: reserved)
    monkeypatch.setattr(torch.cuda, "ipc_collect", Mock())
    monkeypatch.setattr(torch.cuda, "empty_cache", empty)
    device_memory.release("cuda", keep=10)
    assert empty.call_count == freed


def test_sizes_are_aligned_as_cuda_does() -> None:
    assert [aligned(size) for size in (0, 1, 512, 513)] == [0, ALIGNMENT, 512, 1024]


@pytest.mark.parametrize("size", [32767, 32768, 32769])
def test_a_fingerprint_changes_with_any_byte(size: int) -> None:
    """At 32 KiB a tensor is no more compared whole, but by the sums of a grid."""
    values = torch.zeros(size, dtype=torch.uint8)
    before = fingerprint(values)
    for index in (0, size // 2, size - 1):
        values[index] = 1
        assert not torch.equal(fingerprint(values), before)
        values[index] = 0
    assert torch.equal(fingerprint(values), before)


# --- What is run


@pytest.mark.parametrize(("memory_bytes", "limit"), [(None, 256e6), (1000, 150.0)])
def test_shapes_that_are_too_large_are_not_run(memory_bytes: int | None, limit: float) -> None:
    options = Options(["rms_norm"], [find_solution("torch-eager")], device="cpu")
    planned = Agenda(options, "cpu", memory_bytes, lambda _: None)
    shape = Workload("rms_norm", "0", {}, 1.0, None, 1.0, "atrex")
    run: Any = Mock(candidates=[Mock(operator="rms_norm", hash="")])
    for size, fits in ((limit, True), (limit + 1, False)):
        run.operator.cost = lambda _, size=size: Cost(read_bytes={"activations": size})
        assert planned._fits(run, shape) is fits
    (left_out,) = planned.too_large
    assert left_out[3].endswith("(--max-bytes)")


def test_a_wave_holds_48_processes() -> None:
    assert agenda.MAX_PROCESSES == 48
    options = Options(["rms_norm"], [], device="cpu", restarts=3)
    planned = Agenda(options, "cpu", None, lambda _: None)
    runs: Any = [Mock(candidates=[None] * count) for count in (8, 8, 1)]
    assert [len(wave) for wave in planned.waves(runs)] == [2, 1]


@pytest.mark.parametrize(("busy", "refused"), [(BUSY_PCT, False), (BUSY_PCT + 1, True)])
def test_a_busy_gpu_is_not_timed(busy: float, refused: bool) -> None:
    evaluation = Mock(about={}, options=Mock(allow_busy=False, check_only=False))
    watch: Any = Mock(card=Mock(busy_pct=lambda: busy, driver=lambda: "1"))
    if refused:
        with pytest.raises(UsageError, match="the GPU is busy"):
            Evaluation._require_idle(evaluation, watch)
        evaluation.options.allow_busy = True
    Evaluation._require_idle(evaluation, watch)


def test_a_few_shapes_show_a_compiler_all_that_varies() -> None:
    axes = [{"tokens": n, "hidden": h} for n, h in ((1, 8), (2, 8), (4, 16), (8, 8), (9, 32))]
    shapes = [Workload("rms_norm", str(i), a, 1.0, None, 1.0, "x") for i, a in enumerate(axes)]
    chosen = rehearsal(operator("rms_norm"), shapes)
    assert chosen[0] == axes[0]
    assert len(chosen) <= REHEARSALS
    assert {axis for one in chosen for axis in one if one[axis] != axes[0][axis]} == set(axes[0])


def test_extra_cases_are_no_larger_than_allowed() -> None:
    norm = operator("rms_norm")
    axes = {"tokens": 4096, "hidden": 1024}
    size = norm.cost(axes).bytes
    assert next(beside(norm, axes, size)).axes == axes
    assert next(beside(norm, axes, size - 1)).axes["tokens"] == 2048
