"""One recording on its own: steady, drifting, changing, stuttering, and why."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import click
import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from solscope.cli import app
from solscope.diagnose.changes import steadiness
from solscope.diagnose.changes.alternation import alternation
from solscope.diagnose.changes.steadiness import movement
from solscope.diagnose.matching import parts
from solscope.diagnose.single import diagnose_run
from solscope.diagnose.thresholds import THRESHOLDS
from solscope.intervals import Int64s
from solscope.lab import edits
from solscope.pages.severity import of_run
from solscope.readers.packed import CLOCK_NS, Observations, save
from solscope.resample import Floats, generator
from tests.unit.diagnose.making import EAGER, GRAPH, Made

STEPS = 62
NUMBERS = np.arange(STEPS)
RUN = GRAPH.but(steps=STEPS).run()
MS = 1_000_000


def slower(more_ms: np.ndarray, section: str = "schedule") -> Observations:
    return edits.slower_section(RUN, section, (more_ms * MS).astype(np.int64))


LATE = slower(np.where(NUMBERS >= 40, 2.0, 0.0))
EARLY = slower(np.where(NUMBERS < 20, 2.0, 0.0))
DRIFT = edits.more_calls(RUN, "sync", NUMBERS // 3, 150_000)
EIGHTH = slower(np.where(NUMBERS % 8 == 4, 12.0, 0.0))
TWO = slower(np.where(np.isin(NUMBERS, (20, 50)), 15.0, 0.0))
FEW = slower(np.where(np.isin(NUMBERS, (20, 50)), 6.0, 0.0))
BURST = slower(np.where((NUMBERS > 30) & (NUMBERS < 36), 12.0, 0.0), "gc")


def test_a_few_slow_steps_with_nothing_in_common_are_accidents() -> None:
    one, other = (np.where(at == NUMBERS, 6.0 * MS, 0).astype(np.int64) for at in (20, 50))
    run = edits.more_calls(RUN, "sync", (one > 0).astype(np.int64), 6 * MS)
    result = diagnose_run(edits.slower_section(run, "schedule", other))
    assert result.verdict == "steady"
    assert result.causes == []
    assert "2 of 60 steps are slow, " in result.sentence


@pytest.mark.parametrize(
    ("run", "verdict", "cause"),
    [
        (LATE, "change_point", "slow_section"),
        (EARLY, "change_point", "slow_section"),
        (DRIFT, "drift", "extra_sync"),
        (EIGHTH, "periodic", "slow_section"),
        (TWO, "bursty", "slow_section"),
        (FEW, "bursty", "slow_section"),
        (BURST, "bursty", "gc"),
    ],
    ids=["late", "early", "drift", "every 8th", "2 of 60", "2 of 60, 4 %", "burst"],
)
def test_slowness_within_a_run_is_told_apart_and_explained(
    run: Observations, verdict: str, cause: str
) -> None:
    result = diagnose_run(run)
    assert (result.verdict, result.causes[0].id) == (verdict, cause)
    assert result.delta_ms is not None
    assert result.delta_ms > 0
    assert sum(c.delta_ms for c in result.components) == pytest.approx(result.delta_ms, abs=1e-9)


def test_a_steady_run_is_steady() -> None:
    result = diagnose_run(RUN)
    assert result.verdict == "steady"
    assert (result.causes, result.components, result.outliers) == ([], [], None)
    assert result.sentence == "Steady: no drift, change point or period in 60 steps."
    assert result.next_step.startswith("steps that are alike may all be slow: `solscope show ")


def test_one_slow_step_is_mentioned_and_no_pattern() -> None:
    result = diagnose_run(slower(np.where(NUMBERS == 20, 15.0, 0.0)))
    assert result.verdict == "steady"
    assert "1 of 60 steps is slow" in result.sentence


def test_with_few_steps_nothing_is_told() -> None:
    result = diagnose_run(GRAPH.but(steps=13).run())
    assert result.verdict == "cannot_tell"
    assert "11 whole steps" in result.sentence


UNEVEN = slower(np.random.default_rng(5).permutation(np.linspace(0.0, 12.0, STEPS)))


def test_uneven_steps_say_where_the_longer_ones_spend_more_and_what_would_settle_it() -> None:
    result = diagnose_run(UNEVEN, path="runs/bad day.trace.json.gz")
    assert (result.verdict, result.causes) == ("cannot_tell", [])
    assert "100 % of what the slower half adds (" in result.sentence
    assert result.sentence.startswith("Cannot tell: step times vary widely (")
    assert " ms per step) is waiting for the host; " in result.sentence
    assert result.compared == [30, 30]
    assert result.delta_ms is not None
    assert sum(c.delta_ms for c in result.components) == pytest.approx(result.delta_ms, abs=1e-9)
    assert "`solscope diagnose NORMAL 'runs/bad day.trace.json.gz'`" in result.next_step
    assert result.next_step.endswith("`solscope host 'runs/bad day.trace.json.gz'`")


def test_uneven_steps_without_sensors_ask_for_sensors() -> None:
    bare = msgspec.structs.replace(UNEVEN, counters=[], clocks=[])
    assert "solscope capture --pid PID" in diagnose_run(bare).next_step
    assert "capture" not in diagnose_run(UNEVEN).next_step


def sharing_a_core(waits: float, runs: float, model: Made = EAGER) -> Observations:
    """Steps that wait for the host, whose main thread waits for a core so much of the time."""
    counted = {"runq_ns": waits * 1e9, "oncpu_ns": runs * 1e9}
    return model.but(steps=STEPS, counters={**model.counters, **counted}).run()


NO_CORE = (
    "The host lacks CPU time: its main thread is ready to run but has no core for 70 % of the "
    "recording. "
)


def test_a_host_without_a_core_is_named_also_in_one_run() -> None:
    run = sharing_a_core(0.7, 0.28)
    steady = diagnose_run(run, path="run.json")
    longer = (np.random.default_rng(5).permutation(np.linspace(0.0, 40.0, STEPS)) * MS).astype(int)
    longer_run = edits.slower_section(run, "schedule", longer)
    counted = msgspec.structs.replace(longer_run, counters=run.counters, clocks=run.clocks)
    uneven = diagnose_run(counted, path="run.json")
    for found, verdict in ((steady, "steady"), (uneven, "cannot_tell")):
        assert found.verdict == verdict
        assert found.sentence.startswith(NO_CORE)
        assert found.core_wait_pct == pytest.approx(70, abs=0.1)
        assert found.next_step.startswith("give the process cores of its own (`taskset`, cpuset)")
        assert "`solscope diagnose run.json AFTER`" in found.next_step
        assert found.figures[-1].scope == "of the recording"
        assert of_run(found) == "bad"
        assert of_run(msgspec.structs.replace(found, core_wait_pct=40.0)) == "attention"


@pytest.mark.parametrize(
    "run",
    [
        RUN,
        # It has its core; sums over threads; a GPU that hardly waits.
        sharing_a_core(0.02, 0.9),
        sharing_a_core(0.7, 0.5),
        sharing_a_core(0.7, 0.28, GRAPH.but(tiles={"idle.host:schedule": 0.0})),
        # The GPU waits for most of a step, and the host for a core for the lesser part of that.
        sharing_a_core(0.4, 0.5),
    ],
)
def test_a_host_that_has_its_core_or_need_not_have_one(run: Observations) -> None:
    found = diagnose_run(run)
    assert found.core_wait_pct is None
    assert "core" not in found.sentence + found.next_step


def test_without_counts_of_the_scheduler_nothing_is_said_of_cores() -> None:
    run = msgspec.structs.replace(sharing_a_core(0.7, 0.28), counters=[], clocks=[])
    assert diagnose_run(run).core_wait_pct is None


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (RUN, {"fast step (p10)": "of 60 decode steps", "slow step (p90)": "of 60 decode steps"}),
        (
            LATE,
            {
                "typical step before": "up to step 40",
                "typical step after": "from step 40 on",
                "times as long": "of the typical step",
            },
        ),
        (
            DRIFT,
            {"median step": "of 60 decode steps", "times as long": "the last step as the first"},
        ),
        (
            EIGHTH,
            {
                "median step": "of 60 decode steps",
                "a slow step adds": "per step, mean of 8 against 52",
                "lost in slow steps": "of the time of all steps",
            },
        ),
    ],
)
def test_figures_say_which_steps_they_are_of(run: Observations, said: dict[str, str]) -> None:
    assert {figure.name: figure.scope for figure in diagnose_run(run).figures} == said


def test_prefills_are_no_slow_steps() -> None:
    run = GRAPH.but(steps=STEPS, phases=("mixed", *["decode"] * 7), prefill_factor=6.0).run()
    assert diagnose_run(run).verdict == "steady"


def test_where_it_changes() -> None:
    point = diagnose_run(LATE).change_points[0]
    assert point.step == 40
    assert point.ratio == pytest.approx(point.after_ms / point.before_ms, rel=0.05)
    assert point.p <= 0.01


def test_the_period_and_its_steps() -> None:
    slow = diagnose_run(EIGHTH).outliers
    assert slow is not None
    assert (slow.every, slow.steps) == (8, 8)
    assert slow.numbers == [4, 12, 20, 28, 36, 44, 52, 60]


def test_a_period_is_found_among_other_slow_steps() -> None:
    more = np.where(NUMBERS % 8 == 4, 12.0, 0.0) + np.where(np.isin(NUMBERS, (9, 33)), 9.0, 0.0)
    assert diagnose_run(slower(more)).verdict == "periodic"


@pytest.mark.parametrize("size", [60, 500])
def test_levels_and_a_line_are_told_apart(size: int) -> None:
    noise = np.random.default_rng(1).normal(1.0, 0.02, size)
    at = np.arange(size)
    level = movement(np.where(at >= 0.7 * size, 1.5, 1.0) * noise)
    assert level.slope is None
    assert [change.start for change in level.changes] == [int(0.7 * size)]
    line = movement((1 + at / size) * noise)
    assert line.changes == []
    assert line.slope is not None
    assert line.slope.low < 2.0 < line.slope.high * 1.05


def test_random_orders_are_seldom_called_a_change() -> None:
    times = np.random.default_rng(2).lognormal(0.0, 0.2, (12, 60))
    moved = [movement(row) for row in times]
    assert sum(bool(m.changes) or m.slope is not None for m in moved) <= 1


def wander(size: int, seed: int) -> Floats:
    """Steps of a host whose pace wanders: each keeps 0.9 of how far the one before was off."""
    news = np.random.default_rng(seed).normal(0.0, 0.07, size)
    logs = np.zeros(size)
    for at in range(1, size):
        logs[at] = 0.9 * logs[at - 1] + news[at]
    times: Floats = np.exp(logs - np.median(logs))
    return times


@pytest.mark.parametrize("size", [22, 60])
def test_a_pace_that_wanders_is_neither_levels_nor_a_line(size: int) -> None:
    moved = [movement(wander(size, seed)) for seed in range(10)]
    assert sum(bool(m.changes) or m.slope is not None for m in moved) <= 1


def test_an_abrupt_change_of_a_pace_that_wanders_is_found() -> None:
    jump = np.where(np.arange(60) >= 38, 1.8, 1.0)
    moved = [movement(wander(60, seed) * jump) for seed in range(8)]
    assert sum(any(c.start == 38 for c in m.changes) for m in moved) >= 5


def test_stairs_in_one_direction_are_a_line() -> None:
    """Noise with two peaks is nearer to three levels than to the line it was added to."""
    draw = np.random.default_rng(5)
    peaks = np.where(draw.random(60) < 0.25, 0.65, 1.0) * draw.normal(1.0, 0.03, 60)
    moved = movement((1 + 1.2 * np.arange(60) / 60) * peaks)
    assert moved.changes == []
    assert moved.slope is not None


def test_a_rare_phase_does_not_break_a_period() -> None:
    """What is added to every step of a stretch is a smaller part of a prefill, which is longer."""
    seven = edits.drawn(RUN, STEPS, 3)
    steps = [
        msgspec.structs.replace(step, phase="mixed" if n % 8 == 5 else "decode")
        for n, step in enumerate(seven.steps)
    ]
    longer = np.where(NUMBERS % 8 == 5, 12 * MS, 0)
    mixed = edits.lengthened(
        msgspec.structs.replace(seven, steps=steps), {("idle", "sync"): longer}
    )
    added = (2 * MS * (NUMBERS // 6 % 2)).astype(np.int64)
    result = diagnose_run(edits.slower_section(mixed, "schedule", added))
    assert (result.verdict, result.outliers is None) == ("periodic", False)
    assert result.outliers is not None
    assert result.outliers.every == 12


def test_three_slow_steps_at_equal_distances_are_no_period() -> None:
    slow = slower(np.where(np.isin(NUMBERS, (11, 30, 49)), 12.0, 0.0))
    assert diagnose_run(slow).verdict == "bursty"


def run_command(path: Path, *options: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["diagnose", str(path), *options], standalone_mode=False)
    if isinstance(done.exception, click.UsageError):
        return 2, done.exception.message
    assert done.exception is None, done.output
    return done.return_value, done.output


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[[Observations], Path]:
    return lambda run: save(run, tmp_path / "run.observations.json")


def test_the_command_takes_one_recording(recorded: Callable[[Observations], Path]) -> None:
    code, text = run_command(recorded(EIGHTH), "--json")
    result = json.loads(text)
    assert (code, result["verdict"]) == (1, "periodic")
    code, text = run_command(recorded(RUN))
    assert code == 0
    assert "Steady: " in text
    code, text = run_command(recorded(LATE), "--markdown")
    assert code == 1
    assert "**Change at step 40: " in text
    assert "| `idle.host:schedule` |" in text


def test_one_recording_has_no_classic_report(recorded: Callable[[Observations], Path]) -> None:
    code, text = run_command(recorded(RUN), "--classic")
    assert code == 2
    assert "--classic compares two profiles" in text


def test_a_folder_alone_is_refused(tmp_path: Path) -> None:
    for rank in (0, 1):
        save(RUN, tmp_path / f"rank{rank}.observations.json")
    code, text = run_command(tmp_path)
    assert code == 2
    assert "several profiles" in text


def noisy(*levels: tuple[float, int]) -> Floats:
    """Steps of some levels, with noise of 1 %, over their median."""
    draw = np.random.default_rng(7)
    flat = np.concatenate([np.full(size, level) for level, size in levels])
    times: Floats = flat * (1 + 0.01 * draw.standard_normal(flat.size))
    over: Floats = times / np.median(times)
    return over


@pytest.mark.parametrize("first", [38, 30, 44])
def test_change_points_lie_between_the_levels_that_all_of_them_leave(first: int) -> None:
    found = movement(noisy((4.0, first), (8.0, 40), (16.0, 40)))
    assert [change.start for change in found.changes] == [first, first + 40]
    assert [change.ratio for change in found.changes] == pytest.approx([2.0, 2.0], rel=0.02)
    typical = [level.typical for level in found.levels]
    assert [b / a for a, b in pairwise(typical)] == [change.ratio for change in found.changes]


SQUARE = slower(np.where(NUMBERS // 6 % 2 == 1, 2.0, 0.0))


def test_a_run_that_alternates_between_levels_is_periodic_and_explained() -> None:
    result = diagnose_run(SQUARE)
    assert (result.verdict, result.causes[0].id) == ("periodic", "slow_section")
    assert result.sentence.startswith("Periodic: one section of the host program is slower (")
    assert ". Slow steps every 12 steps, 30 of 60 steps" in result.sentence
    assert result.outliers is not None
    assert result.outliers.numbers[:7] == [6, 7, 8, 9, 10, 11, 18]
    assert sum(c.delta_ms for c in result.components) == pytest.approx(2.0, rel=1e-3)


def test_levels_that_alternate_at_no_fixed_distance_are_bursts() -> None:
    found = movement(noisy((4, 9), (6, 4), (4, 3), (6, 20), (4, 12), (6, 6), (4, 6)))
    assert found.slow.size == 30
    assert found.spacing is None
    assert (found.changes, found.slope) == ([], None)


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_no_two_levels(seed: int) -> None:
    """Neither of single steps, nor that wanders, nor with two peaks in random order."""
    draw = np.random.default_rng(seed)
    noise = 0.05 * draw.standard_normal(247)
    wander = np.convolve(noise, np.ones(8), "valid")
    peaks = noise[:240] + 0.4 * (draw.random(240) < 0.5)
    for logs in (2 * noise, wander, peaks):
        assert alternation(np.exp(logs), THRESHOLDS) is None


def test_two_levels_nearer_than_what_counts_are_one() -> None:
    nearer, apart = (noisy(*[(4.0, 5), (level, 5)] * 6) for level in (4.4, 4.8))
    assert alternation(nearer, THRESHOLDS) is None
    assert alternation(apart, THRESHOLDS) is not None


def shared_now_and_then(stretch: int) -> Observations:
    """All kernels take longer while another process uses the GPU; sampled in every third step."""
    busy = NUMBERS // stretch % 2 == 1
    kernels = []
    for kernel in RUN.kernels:
        factor = np.where(busy & (kernel.category != "memcpy"), 1.6, 1.0)
        ns = (np.array(kernel.ns) * factor).astype(np.int64).tolist()
        kernels.append(msgspec.structs.replace(kernel, ns=ns, exposed_ns=ns))
    more: dict[edits.Key, Int64s] = {
        ("compute", kernel.category): np.where(busy, 0.6 * np.array(kernel.ns), 0).astype(np.int64)
        for kernel in RUN.kernels
        if kernel.category != "memcpy"
    }
    longer = edits.lengthened(RUN, more)
    middles = [(step.start_ns + step.wall_ns // 2) // CLOCK_NS for step in longer.steps[::3]]
    added = {"gpu_other_processes": 1.0, "gpu_usage": 83.0}
    counters = [
        msgspec.structs.replace(
            counter,
            n=len(middles),
            values=np.linspace(0, counter.values[-1], len(middles)).tolist()
            if counter.grows
            else (counter.values[0] + added.get(counter.name, 0.0) * busy[::3]).tolist(),
        )
        for counter in longer.counters
    ]
    return msgspec.structs.replace(longer, kernels=kernels, counters=counters, clocks=[middles])


def test_sensors_count_for_stretches_of_slow_steps() -> None:
    single, stretches = (diagnose_run(shared_now_and_then(stretch)) for stretch in (1, 6))
    assert (single.verdict, stretches.verdict) == ("periodic", "periodic")
    assert stretches.causes[0].id == "gpu_contention"
    assert stretches.causes[0].confidence > single.causes[0].confidence + 0.05


def test_what_a_count_grew_by_between_stretches_is_left_out() -> None:
    times, values = np.arange(8), np.array([0.0, 1, 2, 12, 22, 23, 24, 34])
    inside = np.array([True, True, True, False, True, True, True, False])
    counts, ticks = parts._joined(values, times, inside, grows=True)
    assert (counts, ticks) == ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4])
    readings, ticks = parts._joined(values, times, inside, grows=False)
    assert (readings, ticks) == ([0, 1, 2, 22, 23, 24], [0, 1, 2, 4, 5, 6])


def test_noise_of_single_steps_is_not_uneven() -> None:
    draw = np.random.default_rng(3)
    assert not movement(np.exp(0.12 * draw.standard_normal(300))).uneven


def test_equal_steps_share_a_rank_and_do_not_move() -> None:
    times = np.where(np.arange(200) % 2 == 0, 1.0, 1.2)
    assert movement(times).changes == []
    assert steadiness._ranks(np.array([2.0, 1.0, 2.0, 3.0])).tolist() == [1.5, 0.0, 1.5, 3.0]


@pytest.mark.parametrize("size", [2, 3, 12, 40])
def test_drifts_of_drawn_steps_are_those_of_the_steps_one_by_one(size: int) -> None:
    draw = np.random.default_rng(size)
    times = np.round(draw.gamma(300, 1 / 300, size), 2)
    drawn = draw.integers(0, size, (20, size + 1))
    drawn[0] = 1
    one_by_one = [
        steadiness._drift(rows.astype(np.float64), times[rows]) for rows in np.sort(drawn, axis=1)
    ]
    assert steadiness._drifts(times, drawn).tolist() == one_by_one


def test_blocks_of_ranks_are_shuffled_whole() -> None:
    ranks = np.arange(20.0)  # 7 blocks: 6 of 3 steps, the last of 2
    rows = np.concatenate(list(steadiness._shuffled(ranks)))
    draw = generator()
    blocks = np.array_split(ranks, 7)
    expected = [
        np.concatenate([blocks[number] for number in draw.permutation(7)])
        for _ in range(steadiness.SHUFFLES)
    ]
    assert rows.tolist() == np.stack(expected).tolist()


def test_steps_without_time_are_left_out() -> None:
    # Every fifth step starts together with the next one.
    steps = [
        msgspec.structs.replace(step, wall_ns=0) if step.number % 5 == 0 else step
        for step in RUN.steps
    ]
    result = diagnose_run(msgspec.structs.replace(RUN, steps=steps))
    assert result.run.dropped["no time between its start and the next"] == 12
    assert result.verdict == "steady"
