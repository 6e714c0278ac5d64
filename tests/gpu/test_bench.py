"""The evaluator on a GPU; `python benchmarks/guards.py` does the first part without pytest."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from solscope.bench.catalog import find_solution  # noqa: E402
from solscope.bench.results.contrast import contrast  # noqa: E402
from solscope.bench.run.agenda import Options  # noqa: E402
from solscope.bench.run.evaluate import evaluate  # noqa: E402
from tests.evil import chosen, expected, run_samples  # noqa: E402

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]


@pytest.mark.parametrize("stage", ["check", "time"])
def test_every_evil_sample_is_caught(stage: str) -> None:
    wanted = {name: set(expected()[name]["status"]) for name in chosen(stage, "cuda")}
    found = run_samples(list(wanted), "cuda", check_only=stage == "check", scale=1.0)
    missed = {
        name: seen for name, seen in found.items() if not seen or not set(seen) <= wanted[name]
    }
    assert not missed


def test_two_runs_of_one_solution_agree() -> None:
    options = Options(
        operators=["rms_norm"], solutions=[find_solution("torch-eager")], shapes="top3"
    )
    first, second = evaluate(options), evaluate(options)
    assert {result.status for result in [*first, *second]} == {"passed"}
    assert all(result.s is not None and 0 < result.s <= 1.02 for result in first)
    assert contrast(first, second).verdict == "cannot tell"
