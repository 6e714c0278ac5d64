"""Two causes at once: both are named where each holds a part of the difference, and only there."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from solscope.diagnose.diagnosis import diagnose_runs
from solscope.diagnose.evidence import work
from solscope.diagnose.findings.findings import Findings, find
from solscope.diagnose.matching.units import match
from solscope.diagnose.verdict.ranking import NamedCause, unknown
from solscope.diagnose.verdict.wording import why
from solscope.lab import edits
from solscope.readers.packed import Observations
from tests.unit.diagnose.making import EAGER, GRAPH

MS = 1_000_000
NORMAL, RUN = (GRAPH.but(steps=24).run(shift) for shift in (0, 3))


def every(ms: float) -> np.ndarray:
    return np.full(len(RUN.steps), round(ms * MS), dtype=np.int64)


def section(run: Observations, ms: float) -> Observations:
    return edits.slower_section(run, "schedule", every(ms))


def collections(run: Observations, ms: float) -> Observations:
    return edits.slower_section(run, "gc", every(ms), "running")


def syncs(run: Observations, ms: float) -> Observations:
    return edits.more_calls(run, "sync", np.full(len(run.steps), 12), round(ms * MS / 12))


def allocations(run: Observations, ms: float) -> Observations:
    return edits.more_calls(run, "alloc", np.full(len(run.steps), 6), round(ms * MS / 6))


FAULTS = {
    "slow_section": section,
    "gc": collections,
    "extra_sync": syncs,
    "allocator": allocations,
}
PAIRS = [(a, b) for a in FAULTS for b in FAULTS if a < b]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_both_are_named_with_their_parts(first: str, second: str) -> None:
    run = FAULTS[second](FAULTS[first](RUN, 2.0), 3.0)
    result = diagnose_runs(NORMAL, run)
    parts = {cause.id: cause.part_pct for cause in result.causes if cause.id != "unknown"}
    assert parts == {first: pytest.approx(40, abs=3), second: pytest.approx(60, abs=3)}
    assert "several causes: " in result.sentence
    assert all(cause.title in result.sentence for cause in result.causes if cause.id in parts)


@pytest.mark.parametrize("name", FAULTS)
def test_one_is_named_alone(name: str) -> None:
    result = diagnose_runs(NORMAL, FAULTS[name](RUN, 3.0))
    assert result.causes[0].id == name
    assert "several causes" not in result.sentence


@pytest.mark.parametrize("name", FAULTS)
def test_a_small_second_one_is_not_in_the_sentence(name: str) -> None:
    """Below a quarter of the difference it may be noise."""
    others = [other for other in FAULTS if other != name]
    run = FAULTS[others[0]](FAULTS[name](RUN, 5.0), 0.5)
    assert "several causes" not in diagnose_runs(NORMAL, run).sentence


def test_syncs_that_come_with_allocations_are_no_cause() -> None:
    """A cache that is emptied synchronizes once per freed block."""
    run = allocations(edits.more_calls(RUN, "sync", np.full(24, 5), 100_000), 3.0)
    result = diagnose_runs(NORMAL, run)
    assert [cause.id for cause in result.causes] == ["allocator", "unknown"]


def test_collections_that_are_only_counted_lie_in_sections() -> None:
    """Marked ones have a state of their own; of counted ones the section has the time."""
    slow = EAGER.but(
        tiles={"idle.host:schedule": 8.3}, sections={"schedule": (8.5, 0.01)},
        counters={"gc_ns": 0.3e9},
    )  # fmt: skip
    result = diagnose_runs(EAGER.but(counters={"gc_ns": 0.0}).run(), slow.run(3))
    assert [cause.id for cause in result.causes] == ["gc", "unknown"]


def named(name: str, confidence: float, part: float | None) -> NamedCause:
    cause = NamedCause(name, "host", name, confidence, [], [], 100.0, "look")
    return msgspec.structs.replace(cause, part_pct=part)


BOTH = "several causes: b (55 % of the difference) and a (40 % of the difference)"


@pytest.mark.parametrize(
    ("causes", "said"),
    [
        ([("a", 0.7, 40.0), ("b", 0.28, 55.0)], BOTH),
        ([("a", 0.95, 40.0), ("b", 0.04, 55.0)], BOTH),
        ([("a", 0.7, 40.0), ("b", 0.2, 55.0)], BOTH),
        ([("a", 0.7, 40.0), ("b", 0.1, 55.0)], "a (70 % confident)"),
        ([("a", 0.7, 60.0), ("b", 0.28, 24.0)], "a (70 % confident)"),
        ([("a", 0.7, None), ("b", 0.28, None)], "a (70 % confident)"),
        ([("a", 0.7, 30.0), ("b", 0.28, 35.0)],
         "several causes: b (35 % of the difference) and a (30 % of the difference); "
         "the rest is unexplained"),
        ([("a", 0.7, 80.0), ("b", 0.28, 60.0)],
         "several causes: a (80 % of the difference) and b (60 % of the difference), "
         "while other parts got shorter"),
    ],
    ids=["sure", "little left", "surer than unknown", "unsure", "small", "not apart", "rest",
         "more"],
)  # fmt: skip
def test_each_must_be_sure_and_hold_its_own_part(
    causes: list[tuple[str, float, float | None]], said: str
) -> None:
    found = find(match(EAGER.run(), EAGER.run(3)))
    assert found is not None
    listed = [named(*cause) for cause in causes]
    left = 1 - sum(cause.confidence for cause in listed)
    assert why(found, [*listed, unknown(left)]).text == said


@pytest.mark.parametrize(("kind", "cause"), [("alloc", "allocator"), ("sync", "extra_sync")])
def test_a_few_long_calls_count_by_the_time_that_the_gpu_waits_in_them(
    kind: str, cause: str
) -> None:
    """Less than one call per step, but each takes longer than a step."""
    base = GRAPH.but(steps=42, calls={"sync": 0})
    every_second = np.arange(42) % 2
    before = base.run()
    named = {}
    for ms in (0.05, 4.0):
        run = edits.more_calls(base.run(3), kind, every_second, round(ms * MS))
        result = diagnose_runs(before, run)
        named[ms] = [c.id for c in result.causes]
        found = find(match(before, run))
        assert found is not None
        assert not found.host.more_calls(kind)
    assert named[4.0][0] == cause
    assert cause not in named[0.05]


def found_in(run: Observations) -> Findings:
    found = find(match(NORMAL, run))
    assert found is not None
    return found


@pytest.mark.parametrize("kind", ["alloc", "sync"])
def test_one_long_call_is_an_accident(kind: str) -> None:
    """It holds all of the difference, and says nothing about the other steps."""
    once = (np.arange(len(RUN.steps)) == 7).astype(np.int64)
    found = found_in(edits.more_calls(RUN, kind, once, 40 * MS))
    assert found.share(kind) > 0.9
    assert not work.waits_in(found, kind, kind)
    often = np.arange(len(RUN.steps)) % 2
    assert work.waits_in(found_in(edits.more_calls(RUN, kind, often, 4 * MS)), kind, kind)


@pytest.mark.parametrize(("more", "theirs"), [(3, True), (6, True), (12, False)])
def test_no_more_syncs_than_allocations_are_those_of_the_allocations(
    more: int, theirs: bool
) -> None:
    run = edits.more_calls(allocations(RUN, 2.0), "sync", np.full(24, more), 3 * MS // more)
    found = found_in(run)
    assert found.share("sync") >= found.limits.part
    assert work.syncs_of_allocations(found).holds is theirs
