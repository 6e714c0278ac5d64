from __future__ import annotations

import json

import msgspec
import pytest

from solscope import cli
from solscope.report.forms import Screen
from solscope.report.results.show.lines import execution_lines
from solscope.report.results.show.slowest import slowest_parts
from solscope.views.device_time import device_times
from solscope.views.execution import Share, execution
from solscope.views.step_rows import StepTable
from tests.making import attributed, event


def test_dtypes_say_what_they_are_shares_of() -> None:
    made = attributed(event("kernel", "k", 0, 10))
    known = msgspec.structs.replace(
        execution(made, device_times(made)), dtypes=[Share("bf16", 71.3), Share("unknown", 28.7)]
    )
    (line,) = execution_lines(known)
    text = " ".join(line.lines(200, False))
    assert "products and attention: bf16 71.3 %, unknown 28.7 %" in text


@pytest.mark.parametrize(
    ("slow", "sentence"),
    [
        (0, "none of 40 steps is slow"),
        (1, "1 of 40 steps is slow; it loses 2.0 % of the time of all steps"),
        (2, "2 of 40 steps are slow; they lose 2.0 % of the time of all steps"),
    ],
)
def test_the_number_of_slow_steps_is_a_sentence(slow: int, sentence: str) -> None:
    steps = StepTable("t.json", "annotation", 40, slow, 2.0, [])
    (head, *_) = slowest_parts(steps, Screen(120), top=3)
    assert head.lines(160, False) == [f"t.json: {sentence}; a step lasts to the start of the next"]


def test_json_has_all_steps(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["show", "--slowest", "--top", "1", "--json", "demo:h200-slow"]) == 0
    (steps,) = json.loads(capsys.readouterr().out)["profiles"]
    assert len(steps["steps"]) == steps["count"] == 12


def test_a_run_is_titled_by_its_folder_with_one_line_of_coverage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.run(["show", "demo:ranks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "demo:ranks: 4 ranks of 4"
    assert sum(line.startswith("coverage of GPU time") for line in lines) == 1
