"""Commands on damaged files: a few cases of `make fuzz`, and the rules by which it judges."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from solscope.readers.kineto_core import native_scanner
from tests.fuzz.commands import SUBJECTS, _problem, judge, run_case
from tests.fuzz.mutating import mutate_csv, mutate_json

QUICK = ("rules", "hardware", "config", "results", "nsys_csv", "behavior")


def cases(first: int, count: int, folder: Path, subjects: tuple[str, ...]) -> None:
    for seed in range(first, first + count):
        place = folder / str(seed)
        place.mkdir()
        case = run_case(seed, place, subjects)
        assert case.problem is None, (seed, case)


def test_commands_survive_damaged_files(tmp_path: Path) -> None:
    cases(0, 12, tmp_path, QUICK)


@pytest.mark.long
@pytest.mark.parametrize("subject", [name for name in SUBJECTS if name != "kineto_cores"])
def test_commands_survive_damaged_files_at_length(subject: str, tmp_path: Path) -> None:
    cases(100, 25, tmp_path, (subject,))


@pytest.mark.skipif(native_scanner() is None, reason="the native scanner is not built")
def test_both_scanners_read_the_same_of_a_damaged_trace(tmp_path: Path) -> None:
    cases(0, 10, tmp_path, ("kineto_cores",))


@pytest.mark.long
@pytest.mark.skipif(native_scanner() is None, reason="the native scanner is not built")
def test_both_scanners_read_the_same_of_a_damaged_trace_at_length(tmp_path: Path) -> None:
    cases(1000, 1000, tmp_path, ("kineto_cores",))


def test_what_fails_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr("solscope.bench.results.digest.read_intact", broken)
    case = judge("results", ("bench", "score", str(SUBJECTS["results"].path)))
    assert case.code == 70
    assert case.problem is not None
    assert case.problem.startswith("KeyError: ")
    assert "Traceback" in case.details


@pytest.mark.parametrize(
    ("code", "out", "err", "problem"),
    [
        (0, "{}", "", None),
        (0, '{"a": NaN}', "", "not JSON"),
        (0, "\x1b[31m", "", "control characters"),
        (2, "", "solscope: a\n", None),
        (2, "", "solscope: skipped b: c\nsolscope: a\n", None),
        (2, "", "solscope: a\nsolscope: b\n", "2 lines of error"),
        (2, "", "solscope: not enough memory for this profile\n", "memory"),
        (3, "", "", "exit 3"),
    ],
)
def test_outcomes_are_judged(code: int, out: str, err: str, problem: str | None) -> None:
    found, _ = _problem(("show", "--json"), code, out, err)
    assert (found and found.partition(":")[0]) == problem


def test_a_mutation_is_fixed_by_its_seed() -> None:
    data = b'{"traceEvents": [{"ph": "X", "args": {"device": 0}}, {"ph": "M"}]}'
    made = [mutate_json(data, random.Random(seed)) for seed in range(40)]
    assert made == [mutate_json(data, random.Random(seed)) for seed in range(40)]
    assert len(set(made)) > 10
    table = b"a,b\n1,2\n3,4\n"
    assert len({mutate_csv(table, random.Random(seed)) for seed in range(40)}) > 10
