"""Views of runs: layers, comparison, gate and work list, on a small recording of four ranks."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from solscope import cli
from solscope.attribution.opening import open_attributed
from solscope.attribution.usual_steps import LeftOut, StepBasis
from solscope.compare.run_gate import _step_times, gate_runs
from solscope.compare.runs import PARTS, compare_runs
from solscope.errors import UsageError
from solscope.ranks.analysis import Analysis, analyze
from solscope.ranks.files import is_run
from solscope.ranks.read import read_run
from solscope.report.results.layers import csv_run_layers
from solscope.run import Run
from solscope.views.hotspots import HotspotTable, hotspots_by_phase
from solscope.views.hotspots.base import Hotspot, HotspotCoverage
from solscope.views.hotspots.runs import run_hotspots
from solscope.views.layers import layers
from solscope.views.run_layers import run_layers
from solscope.views.run_roles import PhaseOfRun, step_phases
from tests.ranks_making import MS, US, Program, make


@pytest.fixture(scope="module")
def opened() -> tuple[Analysis, dict[int, list[HotspotTable]]]:
    run, tables = read_run(["demo:ranks"], partial(hotspots_by_phase, target_pct=80.0))
    return analyze(run), tables


@pytest.fixture(scope="module")
def slow(opened: tuple[Analysis, dict[int, list[HotspotTable]]]) -> Analysis:
    return opened[0]


def tensor_parallel(ranks: int, busy: int) -> Analysis:
    """A run without kernels: only its collectives and steps."""
    return analyze(make(Program(ranks=ranks, busy=busy, steps=12)))


def test_roles_add_up_to_the_step_on_every_rank(slow: Analysis) -> None:
    side = PhaseOfRun(slow, "decode")
    overlapped = side.overlapped()
    assert overlapped is not None
    for at in side.places:
        steps = side.steps[at]
        idle = int(steps["held_ns"].sum()) + int(steps["idle_ns"].sum())
        roles = int(side.roles[at]["total_ns"].sum())
        assert roles + idle == slow.rank_length_ns(at)  # nothing overlaps in this recording
    assert (overlapped.least, overlapped.most) == (0, 0)


def test_layers_of_a_run_have_the_spread_over_ranks(slow: Analysis) -> None:
    table = run_layers([slow], ["slow"])
    assert (table.phase, table.per, table.steps) == ("decode", "layer", [5])
    assert table.layers == {"attention+dense": [6.0]}
    sums = {(row.group, row.role): row for row in table.rows}
    reduced = sums["attention", "all_reduce: all_reduce"]
    time, wait = reduced.time_us[0], reduced.wait_us[0]
    assert time is not None
    assert wait is not None
    # The others wait for rank 2, which therefore spends least in collectives.
    assert (time.least_rank, wait.least_rank) == (2, 2)
    assert time.least <= time.mean <= time.most
    product = sums["attention", "qkv"]
    assert product.wait_us == [None]
    assert product.time_us[0] is not None
    assert product.time_us[0].most < 1.1 * product.time_us[0].least


def test_roles_of_a_run_come_in_the_order_in_which_one_rank_runs_them(slow: Analysis) -> None:
    one = layers([open_attributed(slow.run.ranks[0].path)], ["rank0"])
    in_layer = [
        (group.group, row.role)
        for kind in one.layer_kinds
        for group in kind.groups
        for row in group.rows
    ]
    of_run = [
        (row.group, row.role.split(":")[0])
        for row in run_layers([slow], ["slow"]).rows
        if row.layer_kind is not None
    ]
    assert of_run == in_layer


def test_layers_of_runs_as_csv_have_all_figures(slow: Analysis) -> None:
    result = run_layers([slow, slow], ["=a", "b"])
    header, *rows = csv.reader(io.StringIO(csv_run_layers(result)))
    assert header[:4] == ["kind", "group", "role", "'=a mean us"]
    assert {len(row) for row in rows} == {3 + 2 * 6}
    assert len(rows) == 4 + len(result.rows)
    step = result.step_us[0]
    assert step is not None
    assert rows[0] == ["step", "", "per step", *2 * [*map(str, (
        step.mean, step.least, step.least_rank, step.most, step.most_rank)), ""]]  # fmt: skip
    (reduced,) = (row for row in rows if row[1:3] == ["attention", "all_reduce: all_reduce"])
    named = dict(zip(header, reduced, strict=True))
    assert named["b least on"] == "2"
    assert float(named["b wait us"]) > 0


def test_per_step_is_per_layer_times_layers(slow: Analysis) -> None:
    by_layer, by_step = (run_layers([slow], ["slow"], per=per) for per in ("layer", "step"))
    for one, other in zip(by_layer.rows, by_step.rows, strict=True):
        layers = 6 if one.layer_kind else 1
        first, second = one.time_us[0], other.time_us[0]
        assert first is not None
        assert second is not None
        assert second.mean == pytest.approx(layers * first.mean)


def test_a_phase_that_is_not_there_is_refused(slow: Analysis) -> None:
    with pytest.raises(UsageError, match="no step of phase prefill; there are: decode"):
        run_layers([slow], ["slow"], phase="prefill")


def test_runs_with_other_numbers_of_ranks_are_compared_by_the_step_of_a_rank() -> None:
    result = compare_runs(tensor_parallel(4, 100 * US), tensor_parallel(8, 60 * US), ("a", "b"))
    assert [side.ranks for side in result.runs] == [4, 8]
    (phase,) = result.phases
    (exchange,) = phase.communication
    assert exchange.calls == pytest.approx([6, 6])
    assert exchange.bytes == [65536, 65536]
    assert exchange.transfer_ms == pytest.approx([6 * 0.081, 6 * 0.081], rel=0.1)


def test_parts_of_a_step_add_up_on_both_sides(slow: Analysis) -> None:
    (phase,) = compare_runs(slow, slow, ("a", "b")).phases
    assert [row.name for row in phase.parts] == list(PARTS)
    *parts, step = [row.before_ms or 0.0 for row in phase.parts]
    assert sum(parts) == pytest.approx(step, abs=1e-9)
    mean = sum(slow.rank_length_ns(at) for at in range(4)) / 4 / 5 / 1e6
    assert step == pytest.approx(mean, abs=1e-9)
    assert all(row.diff_ms == 0 for row in (*phase.parts, *phase.roles))


def test_phases_that_only_one_run_has_are_refused(slow: Analysis) -> None:
    with pytest.raises(UsageError, match=r"no phase in common \(a: decode; b: not known\)"):
        compare_runs(slow, tensor_parallel(4, 100 * US), ("a", "b"))


@pytest.mark.parametrize(("busy", "verdict"), [(100, "ok"), (300, "worse")])
def test_the_gate_tests_the_step_of_the_run(busy: int, verdict: str) -> None:
    before, after = tensor_parallel(4, 100 * US), tensor_parallel(4, busy * US)
    result = gate_runs(before, after, 0.05, budgets={"comm": 0.05})
    assert result.verdict == verdict
    assert [check.what for check in result.checks] == ["step", "comm"]
    assert result.checks[1].verdict == "ok"


def test_the_gate_says_that_the_runs_have_other_ranks() -> None:
    result = gate_runs(tensor_parallel(4, 100 * US), tensor_parallel(2, 100 * US), 0.5)
    assert [warning.code for warning in result.warnings] == ["other_ranks"]


def with_phases(run: Run, phases: Callable[[int, int], str]) -> Run:
    """The run with these phases, by rank and step."""
    ranks = [
        replace(
            rank,
            steps=rank.steps.with_columns(
                pl.Series("phase", [phases(rank.rank, step) for step in rank.steps["step"]])
            ),
        )
        for rank in run.ranks
    ]
    return replace(run, ranks=tuple(ranks))


def without_step(run: Run, rank: int, step: int) -> Run:
    """The run as if one rank had not recorded a step."""
    other = pl.col("step") != step
    ranks = [
        replace(r, steps=r.steps.filter(other), calls=r.calls.filter(other))
        if r.rank == rank
        else r
        for r in run.ranks
    ]
    return replace(run, ranks=tuple(ranks))


def prompts(rank: int, step: int, call: int) -> int:
    """Every third step is 5 ms longer on all ranks."""
    return 5 * MS if step % 3 == 0 and call == 0 else 0


def test_the_gate_takes_steps_of_the_run_not_the_nth_of_each_rank() -> None:
    whole = make(Program(steps=18, late=prompts))
    lacking = without_step(without_step(whole, 1, 5), 2, 10)
    counts = [analyze(run).steps.size for run in (whole, lacking)]
    assert counts == [17, 15]
    # The same program: what a rank lacks makes no step faster or slower.
    result = gate_runs(analyze(whole), analyze(lacking), 0.02)
    (check,) = result.checks
    assert check.n == [16, 14]
    baseline, candidate = check.baseline_ms, check.candidate_ms
    assert baseline is not None
    assert candidate is not None
    times = sorted(_step_times(PhaseOfRun(analyze(lacking), None)) / MS)
    short, long = [t for t in times if t < 3], [t for t in times if t >= 5]
    assert len(short) + len(long) == len(times), "a mean of a short and a long step"
    assert len(long) == 5


def test_the_gate_keeps_phases_of_ranks_apart() -> None:
    """Rank 1 is at a prompt in step 7, in which the others decode."""
    run = with_phases(
        make(Program(steps=18, late=prompts)),
        lambda rank, step: "prefill" if step % 3 == 0 or (rank, step) == (1, 7) else "decode",
    )
    analysis = analyze(run)
    result = gate_runs(analysis, analysis, 0.02)
    by_phase = {check.phase: check for check in result.checks}
    decode = _step_times(PhaseOfRun(analysis, "decode")) / MS
    assert decode.max() < 3
    assert by_phase["decode"].n == [11, 11]
    assert step_phases(analysis)[7] == "decode"


def table_of(phase: str, step_ms: float, saved_us: float) -> HotspotTable:
    row = Hotspot(
        rank=1, kind="operator", operator=f"gemm of {phase}", role=None, axes=None,
        calls_per_step=1, time_us=saved_us, bound_us=None, limiter=None, expected_us=None,
        efficiency_pct=None, recoverable_us=saved_us, recoverable_pct_of_step=0.0,
        confidence="high", why="", advice="",
    )  # fmt: skip
    basis = StepBasis(phase, 5, 5, step_ms, "start_to_start", LeftOut(), None)
    return HotspotTable("p", None, phase, 5, basis, step_ms, 80.0, HotspotCoverage(None), [row])


def test_the_work_list_of_a_run_is_about_one_phase() -> None:
    """Ranks may differ in the phase that takes most of their own time."""
    run = with_phases(
        make(Program(steps=18, late=prompts)),
        lambda rank, step: "prefill" if step % 3 == 0 else "decode",
    )
    # Something to hide communication under.
    computing = pl.lit(3_000_000, pl.Int64).alias("compute_ns")
    busy = (replace(rank, steps=rank.steps.with_columns(computing)) for rank in run.ranks)
    run = replace(run, ranks=tuple(busy))
    analysis = analyze(run)
    prefill, decode = table_of("prefill", 6.0, 9.0), table_of("decode", 1.2, 0.9)
    tables = {0: [prefill, decode], 1: [decode, prefill], 2: [prefill, decode], 3: [prefill]}
    result = run_hotspots(analysis, tables)
    assert (result.phase, result.steps) == ("prefill", 5)
    assert result.step_ms > 5, "short steps of the other phase count"
    operators = {row.operator: row for row in result.hotspots if row.kind == "operator"}
    assert list(operators) == ["gemm of prefill"]
    assert operators["gemm of prefill"].recoverable_us == pytest.approx(9.0)
    (comm,) = (row for row in result.hotspots if row.kind == "comm")
    assert comm.calls_per_step == pytest.approx(6)


def test_waiting_for_a_rank_is_apart_from_communication(
    opened: tuple[Analysis, dict[int, list[HotspotTable]]],
) -> None:
    analysis, tables = opened
    result = run_hotspots(analysis, tables)
    first = result.hotspots[0]
    assert (first.kind, first.operator) == ("imbalance", "waiting for rank 2")
    assert first.confidence == "high"
    assert first.recoverable_pct_of_step == pytest.approx(analysis.suspect.step_share_pct)
    (reduced,) = (row for row in result.hotspots if row.operator == "all_reduce")
    waited = re.search(r"([\d,.]+) µs waiting for other ranks", reduced.why)
    assert waited is not None
    waiting_us = float(waited[1].replace(",", ""))
    assert waiting_us > 0
    assert reduced.recoverable_us <= reduced.time_us - waiting_us
    assert [row.rank for row in result.hotspots] == list(range(1, len(result.hotspots) + 1))


def test_what_makes_a_rank_late_counts_once(
    opened: tuple[Analysis, dict[int, list[HotspotTable]]],
) -> None:
    """Launched work waits on the slow GPU of rank 2: its idle time is why the others wait."""
    analysis, tables = opened
    result = run_hotspots(analysis, tables)
    of_ranks = [
        next(row for row in tables[rank][0].hotspots if row.operator == "launch")
        for rank in sorted(tables)
    ]
    (launch,) = (row for row in result.hotspots if row.operator == "launch")
    saved = [row.recoverable_us for row in of_ranks]
    assert saved[2] > 4 * max(saved[:2] + saved[3:])
    assert launch.recoverable_us <= max(saved[:2] + saved[3:])
    assert "what rank 2 has more counts as waiting for it" in launch.why
    assert sum(row.recoverable_us for row in result.hotspots) <= 1e3 * result.step_ms


def test_a_folder_is_a_run_when_each_file_has_its_own_rank(tmp_path: Path) -> None:
    def write(name: str, rank: int | None = None) -> None:
        header = "" if rank is None else f'"distributedInfo": {{"rank": {rank}}}, '
        (tmp_path / name).write_text(f'{{{header}"traceEvents": []}}')

    write("a.json", 0)
    assert not is_run(tmp_path / "a.json")
    assert not is_run(tmp_path)
    write("b.json", 1)
    assert is_run(tmp_path)
    assert is_run(str(tmp_path / "*.json"))
    write("c.json", 1)
    assert is_run(tmp_path)  # A copy.
    (tmp_path / "c.json").write_text((tmp_path / "b.json").read_text() + " ")
    assert not is_run(tmp_path)
    (tmp_path / "c.json").unlink()
    write("c.json")
    assert not is_run(tmp_path)
    assert is_run("demo:ranks")
    assert not is_run(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["layers", "demo:ranks", "--kernels"], "--kernels: for single profiles only"),
        (["layers", "demo:ranks", "--per", "call"], "--per call: for single profiles only"),
        (["compare", "demo:ranks"], "compare takes two runs of many ranks, not 1"),
        (["hotspots", "demo:ranks", "--with", "x"], "--with: for single profiles only"),
    ],
)
def test_what_runs_do_not_take_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(arguments) == 2
    assert said in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "arguments",
    [
        ["layers", "demo:ranks"],
        ["compare", "demo:ranks", "demo:ranks"],
        ["gate", "demo:ranks", "demo:ranks", "--max-regression", "5%"],
        ["hotspots", "demo:ranks"],
    ],
)
def test_tables_of_runs_fit_the_terminal(
    arguments: list[str],
    width: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert cli.run(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert max(map(len, lines)) <= width


def test_a_diagnosis_of_runs_is_titled_by_them(capsys: pytest.CaptureFixture[str]) -> None:
    cli.run(["diagnose", "demo:ranks", "demo:ranks"])
    first = capsys.readouterr().out.splitlines()[0]
    assert first == "demo:ranks against demo:ranks; profiles of rank 2"
