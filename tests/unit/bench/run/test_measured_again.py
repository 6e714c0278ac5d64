"""What of a results file is measured again: `--resume`, `--renew` and `--near`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("torch")

from solscope.bench.base import EVALUATOR, ShapeResult, Timing
from solscope.bench.catalog import find_solution
from solscope.bench.results.digest import with_digests
from solscope.bench.results.files import append_result
from solscope.bench.run.agenda import Agenda, Options
from solscope.bench.run.failures import OWN_FAILURE
from solscope.errors import UsageError

EAGER, COMPILE = find_solution("torch-eager"), find_solution("torch-compile")
H200 = "NVIDIA H200"


def line(shape: str, median_us: float | None, *, processes: int = 1, **more: Any) -> ShapeResult:
    """A line of torch-eager for rms_norm, timed by both methods that are asked for."""
    solution = more.setdefault("solution", "torch-eager")
    timing = Timing(median_us=median_us, samples_per_restart=[30] * processes)
    facts: dict[str, Any] = {
        "operator": "rms_norm",
        "suite": "atrex",
        "status": "passed",
        "device": H200,
        "method": "cold-v1",
        "methods": {"cold-v1": timing, "graph-v2": timing},
        "evaluator": EVALUATOR,
        "solution_hash": find_solution(solution).hash("rms_norm"),
        **timing.as_main(),
    }
    return with_digests(ShapeResult(shape=shape, **facts | more), "")


def by_compile(shape: str, median_us: float, **more: Any) -> ShapeResult:
    return line(shape, median_us, solution="torch-compile", **more)


def agenda(folder: Path, *lines: ShapeResult, **more: Any) -> Agenda:
    """That of both solutions on two shapes of rms_norm, with these lines in the file."""
    out = folder / "r.jsonl"
    for one in lines:
        append_result(out, one)
    facts: dict[str, Any] = {
        "operators": ["rms_norm"],
        "solutions": [EAGER, COMPILE],
        "shapes": "0,1",
        "methods": ("cold-v1", "graph-v2"),
        "out": out,
        "resume": True,
    }
    return Agenda(Options(**facts | more), H200, 1 << 40, lambda _: None)


def due(plan: Agenda, folder: Path) -> list[tuple[str, str]]:
    """Solution and shape of what is to be measured, in order."""
    return sorted(
        (candidate.name, shape.shape)
        for run in plan.runs(folder / "copies")
        for candidate in run.candidates
        for shape in run.shapes
        if plan.due(candidate, shape)
    )


def again(folder: Path, first: ShapeResult, **more: Any) -> bool:
    """Whether a line of torch-eager for shape 0 is measured again."""
    plan = agenda(folder, first, shapes="0", solutions=[EAGER], **more)
    found = due(plan, folder)
    assert plan.earlier == ([] if found else [first])
    return bool(found)


OLDER: dict[str, Any] = {"evaluator": EVALUATOR - 1}
OLD_GRAPH: dict[str, Any] = {
    "methods": {"cold-v1": Timing(median_us=9.0), "graph-v1": Timing(median_us=9.0)}
}
NO_GRAPH: dict[str, Any] = {
    "methods": {"cold-v1": Timing(median_us=9.0), "graph-v2": Timing(reason="cannot be captured")}
}
FAILED: dict[str, Any] = {"status": "crashed", "reason": "it raised", "methods": {}}


@pytest.mark.parametrize(
    ("renew", "facts", "expected"),
    [
        (None, OLDER, False),
        (None, OLD_GRAPH, False),
        (EVALUATOR, {}, False),
        (EVALUATOR, OLDER, True),
        (EVALUATOR - 1, OLDER, False),
        (EVALUATOR, OLD_GRAPH, True),
        (EVALUATOR, NO_GRAPH, False),
        (EVALUATOR, FAILED, False),
        (EVALUATOR, FAILED | OLDER, True),
        (EVALUATOR, {"processes": 1}, False),
    ],
)
def test_renewed_is_what_an_older_evaluator_checked_or_what_lacks_a_method(
    tmp_path: Path, renew: int | None, facts: dict[str, Any], expected: bool
) -> None:
    assert again(tmp_path, line("0", 9.0, **facts), renew=renew) is expected


def test_a_line_that_names_no_evaluator_is_older_than_any(tmp_path: Path) -> None:
    raw = msgspec.json.decode(msgspec.json.encode(line("0", 9.0)))
    del raw["evaluator"]
    raw |= {"digest": "", "run_digest": ""}  # as no line of the first one had any
    assert again(tmp_path, msgspec.convert(raw, ShapeResult), renew=2)


def test_what_was_renewed_is_not_renewed_again(tmp_path: Path) -> None:
    """In the same run, and by the next one: the last line of a shape counts."""
    old, new = line("0", 9.0, **OLDER), line("0", 12.0)
    plan = agenda(tmp_path, old, shapes="0", solutions=[EAGER], renew=EVALUATOR)
    (run,) = plan.runs(tmp_path / "copies")
    plan.mark_done(line("0", 12.0, **OLD_GRAPH))
    assert plan.still_due([run]) == []
    append_result(tmp_path / "r.jsonl", new)
    plan = agenda(tmp_path, shapes="0", solutions=[EAGER], renew=EVALUATOR)
    assert due(plan, tmp_path) == []
    assert plan.earlier == [new]


LOST: dict[str, Any] = {"status": "unsupported", "reason": f"{OWN_FAILURE}: no memory"}


@pytest.mark.parametrize("near_pct", [None, 5.0])
def test_a_shape_that_the_evaluator_failed_on_last_has_another_try(
    tmp_path: Path, near_pct: float | None
) -> None:
    lines = line("0", 9.0, processes=3), line("0", None, **LOST)
    plan = agenda(tmp_path, *lines, shapes="0", solutions=[EAGER], near_pct=near_pct)
    assert due(plan, tmp_path) == [("torch-eager", "0")]


@pytest.mark.parametrize("near_pct", [None, 5.0])
def test_a_shape_whose_last_line_was_edited_has_another_try(
    tmp_path: Path, near_pct: float | None
) -> None:
    first = line("0", 9.0, processes=3)
    edited = msgspec.structs.replace(with_digests(first, ""), median_us=1.0)
    only: dict[str, Any] = {"shapes": "0", "solutions": [EAGER], "near_pct": near_pct}
    assert due(agenda(tmp_path, first, edited, **only), tmp_path) == [("torch-eager", "0")]
    plan = agenda(tmp_path, first, **only)  # as measured again
    assert due(plan, tmp_path) == []
    assert plan.earlier == [first]


FOUR = (line("0", 10.0), by_compile("0", 10.5), line("1", 20.0), by_compile("1", 21.1))


@pytest.mark.parametrize(
    ("near_pct", "expected"),
    [
        (0.0, [("torch-eager", "0"), ("torch-eager", "1")]),
        (5.0, [("torch-compile", "0"), ("torch-eager", "0"), ("torch-eager", "1")]),
    ],
)
@pytest.mark.parametrize("resume", [True, False])
def test_near_the_fastest_of_each_shape(
    tmp_path: Path, near_pct: float, expected: list[tuple[str, str]], resume: bool
) -> None:
    plan = agenda(tmp_path, *FOUR, near_pct=near_pct, resume=resume)
    assert due(plan, tmp_path) == expected
    assert len(plan.earlier) == (4 - len(expected) if resume else 0)


@pytest.mark.parametrize(
    ("fastest", "counts"),
    [
        (by_compile("0", 5.0, solution_hash="files of another"), True),
        (line("0", 5.0, solution="torch-eager", solution_hash="an earlier version"), False),
        (by_compile("0", 5.0, device="NVIDIA H100"), False),
        (by_compile("0", 5.0, suite="mine"), False),
        (by_compile("0", 5.0, scale=0.5), False),
        (by_compile("0", 5.0, status="faster_than_bound", reason="too fast"), False),
        (by_compile("1", 5.0), False),
    ],
)
def test_the_fastest_may_be_of_any_solution_on_the_same_device_and_shape(
    tmp_path: Path, fastest: ShapeResult, counts: bool
) -> None:
    plan = agenda(tmp_path, fastest, line("0", 10.0), solutions=[EAGER], near_pct=5.0)
    assert due(plan, tmp_path) == ([] if counts else [("torch-eager", "0")])


def test_a_time_that_was_replaced_is_not_the_fastest(tmp_path: Path) -> None:
    plan = agenda(tmp_path, by_compile("0", 5.0), *FOUR, near_pct=0.0)
    assert due(plan, tmp_path) == [("torch-eager", "0"), ("torch-eager", "1")]


def test_a_time_counts_although_the_evaluator_failed_after_it(tmp_path: Path) -> None:
    lines = line("0", 5.0), line("0", None, **LOST), by_compile("0", 10.0)
    plan = agenda(tmp_path, *lines, shapes="0", near_pct=5.0)
    assert due(plan, tmp_path) == [("torch-eager", "0")]


@pytest.mark.parametrize(
    ("edited_us", "expected"), [(10.5, True), (5.0, False), (None, True)], ids=str
)
def test_a_solution_whose_edit_was_undone_has_its_times_again(
    tmp_path: Path, edited_us: float | None, expected: bool
) -> None:
    """The fastest of the file is still that of the lines that count."""
    edited = line("0", edited_us, solution_hash="edited")
    plan = agenda(tmp_path, line("0", 10.0), edited, near_pct=5.0, solutions=[EAGER])
    assert due(plan, tmp_path) == ([("torch-eager", "0")] if expected else [])


def test_near_goes_by_the_first_method(tmp_path: Path) -> None:
    warm = {
        f"{us}": {"cold-v1": Timing(median_us=9.0), "warm-v1": Timing(median_us=us)}
        for us in (4.0, 5.0)
    }
    lines = [line("0", 9.0, methods=warm["5.0"]), by_compile("0", 10.0, methods=warm["4.0"])]
    lines.append(line("1", 9.0))  # no time by this method
    plan = agenda(tmp_path, *lines, methods=("warm-v1", "cold-v1"), near_pct=5.0)
    assert due(plan, tmp_path) == [("torch-compile", "0")]


@pytest.mark.parametrize(
    ("processes", "resume", "expected"),
    [(1, True, True), (2, True, True), (3, True, False), (4, True, False), (3, False, True)],
)
def test_near_and_resumed_is_what_was_timed_in_too_few_processes(
    tmp_path: Path, processes: int, resume: bool, expected: bool
) -> None:
    timed = line("0", 9.0, processes=processes)
    assert again(tmp_path, timed, near_pct=5.0, restarts=3, resume=resume) is expected


@pytest.mark.parametrize(("processes", "expected"), [(2, True), (3, False)])
def test_the_time_of_its_own_method_may_stand_in_the_line_alone(
    tmp_path: Path, processes: int, expected: bool
) -> None:
    timed = line("0", 9.0, processes=processes, methods={})
    assert again(tmp_path, timed, near_pct=5.0, restarts=3) is expected


@pytest.mark.parametrize(("cold", "warm", "expected"), [(3, 1, True), (1, 3, False)])
def test_processes_of_the_first_method_count(
    tmp_path: Path, cold: int, warm: int, expected: bool
) -> None:
    by_warm = Timing(median_us=9.0, samples_per_restart=[30] * warm)
    timed = line("0", 9.0, processes=cold, methods={"cold-v1": Timing(), "warm-v1": by_warm})
    more: dict[str, Any] = {"methods": ("warm-v1", "cold-v1"), "restarts": 3}
    assert again(tmp_path, timed, near_pct=5.0, **more) is expected


@pytest.mark.parametrize("resume", [True, False])
def test_what_has_no_time_is_left_out_and_counted(tmp_path: Path, resume: bool) -> None:
    """A failure is final for `--resume`, which counts it among what it skips."""
    lines = line("0", 9.0), line("1", None), line("2", None, **LOST), line("3", 9.0, **FAILED)
    plan = agenda(tmp_path, *lines, shapes="0,1,2,3", near_pct=5.0, resume=resume)
    assert due(plan, tmp_path) == [("torch-eager", "0")]
    assert plan.untimed == {"torch-eager": 2 if resume else 3, "torch-compile": 4}


def test_times_of_one_operator_will_do(tmp_path: Path) -> None:
    operators = ["rms_norm", "l2_norm"]
    plan = agenda(tmp_path, line("0", 9.0), operators=operators, shapes="0", near_pct=5.0)
    assert due(plan, tmp_path) == [("torch-eager", "0")]
    assert plan.untimed == {"torch-eager": 1, "torch-compile": 2}


def test_nothing_is_left_out_without_near(tmp_path: Path) -> None:
    plan = agenda(tmp_path, line("0", 9.0))
    assert len(due(plan, tmp_path)) == 3
    assert not plan.untimed


@pytest.mark.parametrize(("resume", "status"), [(True, ["crashed"]), (False, [])])
def test_an_old_failure_that_is_not_near_counts_for_a_resumed_run_alone(
    tmp_path: Path, resume: bool, status: list[str]
) -> None:
    lines = line("0", 9.0), line("1", 9.0, **FAILED)
    plan = agenda(tmp_path, *lines, solutions=[EAGER], near_pct=5.0, resume=resume)
    assert due(plan, tmp_path) == [("torch-eager", "0")]
    assert [one.status for one in plan.earlier] == status


def test_near_and_renewed_is_what_is_old_among_the_near(tmp_path: Path) -> None:
    lines = [line("0", 9.0, processes=3, **OLDER), by_compile("0", 20.0, processes=3, **OLDER)]
    lines.append(line("1", 9.0, processes=3))
    plan = agenda(tmp_path, *lines, near_pct=5.0, renew=EVALUATOR)
    assert due(plan, tmp_path) == [("torch-eager", "0")]


@pytest.mark.parametrize(
    "lines",
    [
        (),
        (line("5", 9.0),),
        (line("0", 9.0, solution_hash="an earlier version"),),
        (line("0", None),),
        (line("0", 9.0, **FAILED),),
    ],
)
def test_near_needs_times_of_what_is_asked_for(
    tmp_path: Path, lines: tuple[ShapeResult, ...]
) -> None:
    plan = agenda(tmp_path, *lines, near_pct=5.0)
    said = r"--near: .*r\.jsonl has no times of these solutions by cold-v1 on NVIDIA H200: run"
    with pytest.raises(UsageError, match=said):
        due(plan, tmp_path)


def test_a_time_is_not_replaced_because_its_shape_is_too_large_now(tmp_path: Path) -> None:
    old = line("0", 9.0, **OLDER)
    plan = agenda(tmp_path, old, shapes="0", renew=EVALUATOR, max_bytes=1.0)
    assert due(plan, tmp_path) == []
    assert plan.earlier == [old]
    assert [candidate.name for _, candidate, _, _ in plan.too_large] == ["torch-compile"]


def test_a_check_without_a_time_is_replaced_where_its_shape_is_too_large(tmp_path: Path) -> None:
    checked = line("0", None)
    plan = agenda(tmp_path, checked, shapes="0", solutions=[EAGER], max_bytes=1.0)
    assert due(plan, tmp_path) == []
    assert plan.earlier == []
    assert [candidate.name for _, candidate, _, _ in plan.too_large] == ["torch-eager"]
