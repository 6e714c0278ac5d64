"""Every command means the same steps by "a step", and the same time by "step time"."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import polars as pl
import pytest

from solscope import cli, hardware
from solscope.attribution import Attributed
from solscope.attribution.usual_steps import LeftOut, StepBasis, usual_steps
from solscope.compare.gate import gate
from solscope.compare.kernels import compare_kernels
from solscope.compare.profiles import compare_profiles
from solscope.errors import InputError
from solscope.profile import Profile
from solscope.views.device_time import device_times
from solscope.views.efficiency import efficiency
from solscope.views.host import host_table
from solscope.views.hotspots import hotspots_by_phase
from solscope.views.layers import layers
from solscope.views.steps import step_summary
from solscope.views.verdict import verdict
from solscope.whatif.predict import predict_many
from solscope.whatif.scenario import Scenario
from tests.making import attributed, event
from tests.recordings import attributed_recording, recording
from tests.sampling import some

US = 1000
REAL = (
    "traces/h100_qwen1.5-0.5b.json.gz",
    "traces/mi300_qwen1.5-0.5b.json.gz",
    "traces/b200_eager.json.gz",
    "traces/vllm_decode_full_exec.json.gz",
    "h200/graph/normal.trace.json.gz",
    "h200/ranks/tp4-slow_gpu/rank2.trace.json.zst",
)
LENGTHS = (100, 100, 110, 900, 90, 100, 120, 100)
"""Step times of the made recording, us; the last one is not known to it."""


def made() -> Attributed:
    """Decode steps of three kernels: work before the first, one pause, and a last step."""
    lost = [event("kernel", "gemm", 2 * US * at, US) for at in range(3)]
    events, start, call = [*lost], 50 * US, 0
    for length in LENGTHS:
        # A pause is in the step, not behind it, so that every definition of a length shows it.
        parts = (0, length // 4, length - 40)
        events.append(event("annotation", "decode_step", start - 9 * US, (length - 1) * US))
        for part in parts:
            call += 1
            at = start + part * US
            events += [
                event("runtime", "cudaLaunchKernel", at - 5 * US, 2 * US, correlation=call),
                event("kernel", "gemm", at, 20 * US, correlation=call),
            ]
        start += length * US
    return attributed(*events)


def said(profile: Attributed) -> Iterator[tuple[str, StepBasis, float]]:
    """What each command says about each phase: its steps, and the step time in ms."""
    card = hardware.find("H100")
    for of_phase in step_summary(profile).phases:
        yield "show", of_phase.basis, of_phase.basis.step_ms
        if of_phase.tpot_ms is not None:
            yield "show, TPOT", of_phase.basis, of_phase.tpot_ms
    found = verdict(profile, device_times(profile))
    assert found.basis is not None
    yield "show, verdict", found.basis, found.figures[0].value
    for table in hotspots_by_phase(profile, card):
        yield "hotspots", table.basis, table.step_ms
    rates = efficiency(profile, card)
    for row, basis in zip(rates.rows, rates.basis, strict=True):
        yield "efficiency", basis, row.time_ms
    predicted = predict_many(profile, [Scenario()], None, card)
    yield "whatif", predicted.basis, predicted.recorded_ms
    yield "whatif, waterfall", predicted.basis, predicted.predictions[0].recorded_ms
    for phase in compare_profiles([profile, profile], ["a", "b"]).phases:
        for side in phase.steps:
            if side is not None:
                yield "compare", side.basis, side.time_ms
                if side.basis == found.basis:
                    assert side.busy_pct == pytest.approx(found.busy_pct)
    for of_kernels in compare_kernels(profile, profile).phases:
        for basis in of_kernels.basis:
            yield "compare --kernels", basis, basis.step_ms
    for check in gate(profile, profile, 0.03).checks:
        assert check.baseline_ms is not None
        yield "gate", check.basis[0], check.baseline_ms
    try:
        for basis in host_table(profile).basis:
            yield "host", basis, basis.step_ms
    except InputError:
        pass
    try:
        for basis in layers([profile], ["a"]).basis[0]:
            yield "layers", basis, basis.step_ms
    except InputError:
        pass


def check_agreement(profile: Attributed) -> None:
    bases: dict[str | None, StepBasis] = {}
    for command, basis, step_ms in said(profile):
        first = bases.setdefault(basis.phase, basis)
        assert step_ms == pytest.approx(first.step_ms, rel=1e-9), command
        assert msgspec.structs.replace(basis, step_ms=0.0) == msgspec.structs.replace(
            first, step_ms=0.0
        ), command
        left = basis.left_out
        assert basis.steps + left.cut + left.last + left.outlier == basis.of


@pytest.mark.parametrize("name", some(REAL, 3))
def test_all_commands_agree_on_the_step_of_a_recording(name: str) -> None:
    check_agreement(attributed_recording(recording(name)))


def test_all_commands_leave_out_the_same_steps() -> None:
    profile = made()
    check_agreement(profile)
    (usual,) = usual_steps(profile)
    basis = usual.basis
    assert (basis.steps, basis.of) == (6, 8)
    assert basis.left_out == LeftOut(last=1, outlier=1)
    assert basis.step_ms == pytest.approx(sum(LENGTHS[:3] + LENGTHS[4:7]) / 6 / 1e3)
    assert basis.outlier_ms == pytest.approx(0.9)
    kernels = compare_kernels(profile, profile).phases[0]
    assert kernels.steps == [6, 6]
    assert kernels.basis == [basis, basis]


def test_the_commands_print_the_same_step_time(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The JSON of the program itself, of a saved recording with an outlier."""
    path = str(tmp_path / "made.solscope")
    stored: Profile = made().profile
    stored.save(path)
    places: dict[str, tuple[str | int, ...]] = {
        "show": ("steps", "phases", 0, "basis"),
        "hotspots": ("basis",),
        "efficiency": ("basis", 0),
        "whatif": ("basis",),
        "host": ("basis", 0),
    }
    times = {}
    for command, place in places.items():
        words = [command, path, "--json"]
        if command in ("hotspots", "efficiency", "whatif"):
            words += ["--hardware", "H100"]
        assert cli.run([*words, *(["--graphs"] if command == "whatif" else [])]) == 0
        found = msgspec.json.decode(capsys.readouterr().out)
        basis: Any = found["profiles"][0] if "profiles" in found else found
        for key in place:
            basis = basis[key]
        times[command] = (basis["steps"], basis["of"], basis["step_ms"], basis["outlier_ms"])
    assert len(set(times.values())) == 1, times


def test_a_recording_without_steps_is_one_recording() -> None:
    profile = attributed(*(event("kernel", f"gemm{at}", 10 * US * at, US) for at in range(4)))
    assert [usual.is_step for usual in usual_steps(profile)] == [False]
    for command, basis, step_ms in said(profile):
        assert (basis.measured, basis.steps) == ("recording", 0), command
        assert step_ms == pytest.approx(0.031), command


def test_each_process_has_its_own_steps() -> None:
    """Ranks in one file: the next step of one rank is not the end of the step of another."""
    events, call = [], 0
    for rank in (0, 1):
        for number in range(4):
            start = (100 * number + 50 * rank) * US
            call += 1
            events += [
                event("annotation", "decode_step", start, 90 * US, rank=rank, pid=rank),
                event(
                    *("runtime", "cudaLaunchKernel", start + US, 2 * US),
                    correlation=call, rank=rank, pid=rank,
                ),
                event(
                    *("kernel", "gemm", start + 5 * US, 60 * US),
                    correlation=call, rank=rank, device=rank, pid=rank,
                ),
            ]  # fmt: skip
    profile = attributed(*events)
    assert profile.steps["process"].n_unique() == 2
    check_agreement(profile)
    (usual,) = usual_steps(profile)
    assert usual.table["wall_ns"].to_list() == [100 * US] * 6
    (phase,) = compare_profiles([profile, profile], ["a", "b"]).phases
    assert phase.steps[0] is not None
    assert phase.steps[0].gpu_ms == pytest.approx(0.06)
    assert pl.Series(usual.numbers).n_unique() == 6


def test_outliers_of_the_candidate_keep_the_gate_from_saying_ok() -> None:
    """Steps that are not tested are not ignored either."""
    usual = [event("kernel", "gemm", 100 * US * at, 90 * US, correlation=at + 1) for at in range(9)]
    notes = [event("annotation", "decode_step", 100 * US * at, 95 * US) for at in range(9)]
    calls = [
        event("runtime", "cudaLaunchKernel", 100 * US * at + US, US, correlation=at + 1)
        for at in range(9)
    ]
    baseline = attributed(*usual, *notes, *calls)

    def later(which: dict[str, Any], by: int) -> dict[str, Any]:
        moved = which["start_ns"] >= 400 * US
        return {**which, "start_ns": which["start_ns"] + (by if moved else 0)}

    paused = attributed(*(later(each, 900 * US) for each in (*usual, *notes, *calls)))
    (check,) = gate(baseline, paused, 0.03).checks
    assert check.n == [8, 7]
    assert check.ratio == pytest.approx(1.0)
    assert check.verdict == "cannot_tell"
    assert "1 of 9 steps of the candidate takes more than 2 times its median" in check.reason
    assert gate(paused, paused, 0.03).verdict == "ok"


def _with_slow_steps(count: int, slow: dict[int, int]) -> Attributed:
    """Decode steps of 100 us, one kernel each; `slow` has how many times as long some take."""
    events: list[dict[str, Any]] = []
    begin = 0
    for number in range(count):
        took = 100 * US * slow.get(number, 1)
        events += [
            event("annotation", "decode_step", begin, took * 95 // 100),
            event("runtime", "cudaLaunchKernel", begin + US, US, correlation=number + 1),
            event("kernel", "gemm", begin + 2 * US, took * 9 // 10, correlation=number + 1),
        ]
        begin += took
    return attributed(*events)


def test_many_long_steps_are_no_outliers() -> None:
    """A slowdown of 18 of 41 steps is what the phase is like, not something to leave out."""
    baseline = _with_slow_steps(41, {})
    slower = _with_slow_steps(41, dict.fromkeys(range(2, 38, 2), 3))
    (usual,) = usual_steps(slower)
    assert usual.basis.left_out.outlier == 0
    result = gate(baseline, slower, 0.05, budgets={"gemm": 0.05})
    assert [check.verdict for check in result.checks] == ["worse", "worse"]
    (phase,) = compare_profiles([baseline, slower], ["a", "b"]).phases
    times = [side.time_ms for side in phase.steps if side is not None]
    assert times[1] / times[0] == pytest.approx(1 + 2 * 18 / 40)


@pytest.mark.parametrize(("slow", "outliers"), [(4, 4), (5, 0)])
def test_at_most_a_tenth_of_the_steps_are_outliers(slow: int, outliers: int) -> None:
    steps = _with_slow_steps(41, {3 * number: 3 for number in range(1, slow + 1)})
    (usual,) = usual_steps(steps)
    assert usual.basis.left_out.outlier == outliers


def test_the_gate_tests_outliers_with_every_limit() -> None:
    """Four steps of forty that take twenty times as long triple the mean."""
    baseline = _with_slow_steps(41, {})
    slower = _with_slow_steps(41, dict.fromkeys((5, 15, 25, 35), 20))
    result = gate(baseline, slower, 0.05, budgets={"gemm": 0.05})
    assert [check.verdict for check in result.checks] == ["worse", "worse"]
    assert "with outliers ×2.9" in result.checks[0].reason
    assert gate(slower, slower, 0.05).verdict == "ok"


def test_a_comparison_names_outliers_and_counts_them_in_quantiles() -> None:
    baseline = _with_slow_steps(41, {})
    slower = _with_slow_steps(41, dict.fromkeys((5, 15, 25, 35), 20))
    compared = compare_profiles([baseline, slower], ["a", "b"])
    assert [w.message for w in compared.warnings if w.code == "outlier_steps"] == [
        "decode: b: 4 steps take more than 2 times the median and are left out of the means; with "
        "them the step time is 0.290 instead of 0.100 ms"
    ]
    (phase,) = compared.phases
    assert phase.steps[1] is not None
    assert phase.steps[1].time_ms == pytest.approx(0.1)
    assert (phase.steps[1].p90_ms or 0) > 0.1
