"""Another mix of phases: what is sure, what it costs, and what only looks like it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solscope.diagnose.changes.decompose import decompose
from solscope.diagnose.diagnosis import Diagnosis, diagnose_runs
from solscope.diagnose.evidence.work import graphs_lost, prompts_differ
from solscope.diagnose.findings.findings import Findings, find
from solscope.diagnose.matching.mix import shares
from solscope.diagnose.matching.units import match
from solscope.readers.packed import HostCalls, Observations, load
from tests.sampling import some_rows
from tests.unit.diagnose.making import EAGER, GRAPH, Made

LAB = Path(__file__).parents[3] / "results" / "lab"
EVERY_EIGHTH = ("decode",) * 7 + ("mixed",)
SOME = EAGER.but(phases=EVERY_EIGHTH, steps=34)
"""32 fit steps, 4 of which prefill, too."""
ALL = SOME.but(phases=("mixed",))
DECODE_MS = sum(EAGER.tiles.values())
MIXED_MS = EAGER.prefill_factor * DECODE_MS


def cause_ids(result: Diagnosis) -> list[str]:
    return [cause.id for cause in result.causes]


def found(normal: Observations, abnormal: Observations) -> Findings:
    findings = find(match(normal, abnormal))
    assert isinstance(findings, Findings)
    return findings


# --- What is sure


def test_a_shift_in_steady_runs_is_sure() -> None:
    share = shares(EVERY_EIGHTH * 5, ("decode", "mixed") * 20)["mixed"]
    assert (share.normal, share.abnormal, share.shift) == (0.125, 0.5, 0.375)
    assert share.within == pytest.approx(0.05)  # One step of half a run.
    assert share.sure


@pytest.mark.parametrize(
    ("normal", "abnormal"),
    [
        # Few steps: 4 of 19 and none of 18 happen by chance.
        (["mixed"] * 4 + ["decode"] * 15, ["decode"] * 18),
        # Bursts: the next window of the same program may well have none.
        (["mixed"] * 20 + ["decode"] * 20, ["decode"] * 40),
        ([], ["decode"]),
    ],
)
def test_a_shift_that_a_window_can_make_is_not_sure(normal: list[str], abnormal: list[str]) -> None:
    assert not any(share.sure for share in shares(normal, abnormal).values())


def test_a_phase_that_one_short_run_lacks_by_chance_is_no_change() -> None:
    few = EAGER.but(phases=("decode", "decode", "mixed", "decode", "decode", "decode"), steps=8)
    result = diagnose_runs(few.run(), EAGER.but(steps=8).run(1))
    assert result.verdict == "no_change"
    assert result.unit == "decode step, start to start"


# --- What it costs


@pytest.mark.parametrize(("normal", "abnormal", "sign"), [(SOME, ALL, 1), (ALL, SOME, -1)])
def test_a_phase_that_one_run_lacks_is_a_change_of_the_mix(
    normal: Made, abnormal: Made, sign: int
) -> None:
    result = diagnose_runs(normal.run(), abnormal.run(1))
    assert result.verdict == "workload_changed"
    assert cause_ids(result)[0] == "workload_mix"
    assert result.causes[0].explains_pct == pytest.approx(100, abs=0.5)
    # Steps of the same phase take as long as before.
    assert result.ratio == pytest.approx(1, abs=0.01)
    assert result.delta_ms == pytest.approx(sign * 28 / 32 * (MIXED_MS - DECODE_MS), rel=0.01)
    assert result.mix_effect_ms == pytest.approx(result.delta_ms, rel=0.02)
    assert "like for like, mixed steps take ×1.00" in result.sentence
    matched = [100.0, 12.5]
    assert result.comparability.matched_pct == (matched[::-1] if sign > 0 else matched)
    where = "normal" if sign > 0 else "abnormal"
    assert result.comparability.reasons == [
        f"28 decode steps of the {where} run count in its mean; the other run has none"
    ]
    assert result.comparability.level == "weak"


def test_too_few_steps_in_common_do_not_hide_another_mix() -> None:
    few = SOME.but(steps=26)  # 24 fit steps, 3 of which prefill.
    result = diagnose_runs(few.run(), ALL.run())
    assert result.ratio_ci95 is None
    assert result.verdict == "workload_changed"
    assert cause_ids(result)[0] == "workload_mix"


def test_the_mix_and_slower_steps_add_up_to_the_difference() -> None:
    slower = ALL.but(tiles={name: 1.5 * ms for name, ms in ALL.tiles.items()})
    parts = decompose(match(SOME.run(), slower.run()))
    # By hand: decode 28/32 to 0 at its own time; mixed 4/32 to 1 at the mean of both times.
    mix = -28 / 32 * DECODE_MS + 28 / 32 * 1.25 * MIXED_MS
    within = (1 + 4 / 32) / 2 * 0.5 * MIXED_MS
    assert parts.mix_ms == pytest.approx(mix, rel=0.005)
    assert parts.delta_ms - parts.mix_ms == pytest.approx(within, rel=0.02)
    assert sum(c.delta_ms for c in parts.components) == pytest.approx(parts.delta_ms, rel=1e-12)
    for c in parts.components:
        assert c.count_effect_ms + c.duration_effect_ms == pytest.approx(c.delta_ms, abs=1e-12)
        if c.phase == "decode":
            assert (c.abnormal_ms, c.q) == (0.0, None)
            assert c.count_effect_ms == pytest.approx(c.delta_ms, rel=0.02)


PHASES = st.lists(st.sampled_from(["decode", "mixed", "prefill"]), min_size=4, max_size=24)


@given(PHASES, PHASES)
def test_whatever_the_phases_all_adds_up(normal: list[str], abnormal: list[str]) -> None:
    runs = [EAGER.but(phases=tuple(p), steps=len(p)).run() for p in (normal, abnormal)]
    result = diagnose_runs(runs[0], runs[1])
    if result.delta_ms is None:
        assert result.verdict == "cannot_compare"
        return
    assert result.normal.mean_ms is not None
    total = sum(component.delta_ms for component in result.components)
    assert total == pytest.approx(result.delta_ms, abs=1e-9 * result.normal.mean_ms)
    # Steps of a phase take as long in both runs, so that the mix is all there is.
    assert result.mix_effect_ms == pytest.approx(result.delta_ms, abs=0.02 * result.normal.mean_ms)
    assert result.verdict in ("no_change", "workload_changed", "cannot_compare")


def test_runs_without_any_phase_in_common_are_refused() -> None:
    result = diagnose_runs(EAGER.run(), EAGER.but(phases=("prefill",)).run())
    assert result.verdict == "cannot_compare"
    assert "no whole steps of the same phase" in result.sentence


# --- What only looks like it

PRODUCTS = "aten::mm"


def with_rows(run: Observations, *rows: int) -> Observations:
    """The run with matrix products of these numbers of rows."""
    shapes = {f"[[{n},4096],[4096,4096]]": 12 for n in rows}
    ops = [
        msgspec.structs.replace(op, shapes=shapes) if op.name == PRODUCTS else op
        for op in run.host_ops
    ]
    return msgspec.structs.replace(run, host_ops=ops)


def launched(run: Observations, eager: list[bool]) -> Observations:
    """The run with some steps launched kernel by kernel, which then tell their batch."""
    calls = [c for c in run.host_calls if c.kind not in ("launch", "graph_launch")]
    counts = {
        "launch": [300 if e else 10 for e in eager],
        "graph_launch": [int(not e) for e in eager],
    }
    calls += [HostCalls(kind, n, [k * 5000 for k in n]) for kind, n in counts.items()]
    waited = [2_000_000 if e else 0 for e in eager]
    tiles = [
        msgspec.structs.replace(t, ns=[a + b for a, b in zip(t.ns, waited, strict=True)])
        if t.name == "host:decode"
        else t
        for t in run.tiles
    ]
    steps = [
        msgspec.structs.replace(s, requests=32 if e else None, wall_ns=s.wall_ns + w)
        for s, e, w in zip(run.steps, eager, waited, strict=True)
    ]
    share = run.run.graph_share_pct * (1 - sum(eager) / len(eager))
    return msgspec.structs.replace(
        run,
        run=msgspec.structs.replace(run.run, graph_share_pct=share),
        host_calls=calls,
        tiles=tiles,
        steps=steps,
    )


@pytest.mark.parametrize("every", [4, 2, 1])
def test_eager_steps_instead_of_replays_are_no_other_mix(every: int) -> None:
    normal = with_rows(GRAPH.run(), 1, 256)
    eager = [at % every == 0 for at in range(GRAPH.steps)]
    abnormal = with_rows(launched(GRAPH.run(1), eager), 32, 256)
    result = diagnose_runs(normal, abnormal)
    assert result.verdict == "regression"
    assert cause_ids(result)[0] == "graphs_off"
    assert "workload_mix" not in cause_ids(result)
    assert result.comparability.matched_pct == [100.0, 100.0]
    title = result.causes[0].title
    assert ("of what they replayed" in title) == (every > 1)


def test_other_prompts_are_found_beside_replays_as_many_as_before() -> None:
    made = GRAPH.but(phases=("decode", "decode", "decode", "mixed"))
    normal, abnormal = with_rows(made.run(), 1, 256), with_rows(made.run(1), 1, 512)
    assert prompts_differ(found(normal, abnormal)).holds
    assert diagnose_runs(normal, abnormal).verdict == "workload_changed"


def test_more_prefills_without_replays_are_no_lost_graphs() -> None:
    def run(phases: tuple[str, ...]) -> Observations:
        made = GRAPH.but(phases=phases, steps=34).run()
        return launched(made, [step.phase == "mixed" for step in made.steps])

    normal, abnormal = run(EVERY_EIGHTH), run(("decode", "mixed"))
    assert abnormal.run.graph_share_pct < normal.run.graph_share_pct - 5
    assert not graphs_lost(found(normal, abnormal)).holds
    assert cause_ids(diagnose_runs(normal, abnormal))[0] == "workload_mix"


def test_a_step_that_does_not_tell_its_batch_is_compared_with_any() -> None:
    def with_requests(first: int | None, second: int | None) -> Observations:
        run = EAGER.run()
        steps = [
            msgspec.structs.replace(s, requests=(first, second)[at % 2])
            for at, s in enumerate(run.steps)
        ]
        return msgspec.structs.replace(run, steps=steps)

    sizes = {
        (None, 32): 18,  # Nothing to match on: the normal run tells nothing.
        (32, 64): 18,
    }
    for requests, size in sizes.items():
        units = match(with_requests(None, None), with_requests(*requests))
        assert [s.abnormal.size for s in units.strata] == [size]
    units = match(with_requests(None, 32), with_requests(64, None))
    assert [(s.normal.size, s.abnormal.size) for s in units.strata] == [(9, 9)]


# --- As recorded on a GPU


@pytest.mark.parametrize(
    ("folder", "name", "verdict", "cause"),
    some_rows(
        [
            ("tune-2", "tune-graph-graphs_off-s1", "regression", "graphs_off"),
            ("tune-2", "tune-graph-graphs_off-s2", "regression", "graphs_off"),
            ("tune-2", "tune-graph-graphs_off-s3", "regression", "graphs_off"),
            ("test-2", "test-graph-workload_mix-s3", "workload_changed", "workload_mix"),
            ("test", "test-eager-workload_mix-s3", "workload_changed", "workload_mix"),
        ],
        2,
    ),
)
def test_recorded_pairs(folder: str, name: str, verdict: str, cause: str) -> None:
    normal = f"{name.rpartition('-')[0]}-normal"
    runs = [load(LAB / folder / "recordings" / f"{run}.json.zst") for run in (normal, name)]
    result = diagnose_runs(runs[0], runs[1])
    assert (result.verdict, cause_ids(result)[0]) == (verdict, cause)
    assert result.delta_ms is not None
    total = sum(component.delta_ms for component in result.components)
    assert total == pytest.approx(result.delta_ms, rel=1e-9)
