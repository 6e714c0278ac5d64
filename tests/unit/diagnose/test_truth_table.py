"""A part of `benchmarks/diagnose_truth.py`: edits of real recordings, and what is said of them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import pytest

from solscope.lab.edits import drawn
from solscope.readers.packed import load
from tests.sampling import some_rows

truth: Any = import_module("benchmarks.diagnose_truth")
CASE = {case.name: case for case in truth.CASES}
GRAPH = "tune-graph-none-2-normal"
EAGER = "tune-eager-none-2-normal"


@cache
def base(name: str) -> Any:
    run = load(truth.ROOT / f"results/lab/tune/recordings/{name}.json.zst")
    return truth.Base(name, drawn(run, truth.STEPS, 1), drawn(run, truth.STEPS, 2))


@pytest.mark.parametrize(
    ("case", "of"),
    some_rows(
        [
            ("nothing", EAGER),
            ("section +50 %, no sensors", EAGER),
            ("waits for a core x2.5, no sensors", EAGER),
            ("attention alone, same shapes", EAGER),
            ("all kernels +20 %, alone on the GPU", GRAPH),
            ("other process on the GPU, 2 samples", GRAPH),
            ("f32 to bf16, slow section", GRAPH),
            ("work x1.66", GRAPH),
            ("every 5th step +100 %, section", EAGER),
            ("every 8th step, syncs", GRAPH),
            ("one step of 60", GRAPH),
        ],
        2,
    ),
)
def test_what_is_said_is_what_was_done(case: str, of: str) -> None:
    assert CASE[case].fits(base(of))
    row = truth.judged(CASE[case], base(of))
    assert (row.verdict_right, row.scope_right, row.cause_right) == (True, True, True), row.said


def test_names_of_cases_are_distinct() -> None:
    assert len(CASE) == len(truth.CASES)


def test_the_table_counts_every_row() -> None:
    rows = [
        truth.Row("a", "x", True, True, True, False, "regression mean unknown 1.00"),
        truth.Row("a", "y", True, False, True, False, "regression mean gc 0.90"),
        truth.Row("b", "x", False, True, False, True, "regression mean pcie 0.90"),
    ]
    assert list(truth.table(rows))[2:] == [
        "| a | 2 | 2 | 1 | 2 | 1 | 0 |",
        "| b | 1 | 0 | 1 | 0 | 0 | 1 |",
        "| **all** | 3 | 2 | 2 | 2 | 1 | 1 |",
    ]
