"""The rule that no result beats its bound, at its edge and through a whole run."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from solscope.bench.base import FAILURES, Sensors, ShapeResult, Status
from solscope.bench.bounds import MIN_SHARE_OF_BOUND, ShapeBound
from solscope.bench.catalog import find_solution
from solscope.bench.results.files import read_results
from solscope.bench.results.score import best_per_shape
from solscope.bench.run.agenda import Options
from solscope.bench.run.check import Verdict
from solscope.bench.run.evaluate import evaluate
from solscope.bench.run.lines import Lines
from solscope.bench.run.timing import Measured
from solscope.bench.workloads import SMALL

METHOD = "cold-v1"
LINES = Lines("gpu", METHOD, 1.0, None, {})


def timed(median_us: float, bound_us: float | None, verdict: Verdict | None = None) -> ShapeResult:
    line = ShapeResult("rms_norm", "0", "mine", "passed", "gpu", METHOD, bound_us=bound_us)
    measured = Measured(verdict or Verdict())
    measured.add(METHOD, [median_us] * 3, "events")
    return LINES.timed(line, measured, Sensors(), [])


@pytest.mark.parametrize(
    ("median_us", "bound_us", "status"),
    [
        (100.0, 50.0, "passed"),
        (100.0, 100.0, "passed"),
        (98.0, 100.0, "passed"),  # clocks and peaks are not known better than to 2 %
        (97.99, 100.0, "faster_than_bound"),
        (60.0, 100.0, "faster_than_bound"),
        (1.0, None, "passed"),
    ],
)
def test_no_result_beats_its_bound(median_us: float, bound_us: float | None, status: str) -> None:
    assert MIN_SHARE_OF_BOUND == 0.98
    line = timed(median_us, bound_us)
    assert line.status == status
    assert line.s == (None if bound_us is None else bound_us / median_us)
    assert (line.reason is None) == (status == "passed")


@pytest.mark.parametrize("status", ["cheating", "wrong_numbers", "mutated_input"])
def test_what_failed_otherwise_keeps_its_reason(status: Status) -> None:
    line = timed(1.0, 100.0, Verdict(status, "why"))
    assert (line.status, line.reason) == (status, "why")


@pytest.mark.usefixtures("warm_workers")
def test_a_run_never_passes_what_is_faster_than_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two shapes, one with a bound that no machine is slower than."""
    bounds = iter([ShapeBound(1e12, "memory"), ShapeBound(1e-6, "memory")])
    monkeypatch.setattr("solscope.bench.run.lines.shape_bound", lambda *_, **__: next(bounds))
    out = tmp_path / "results.jsonl"
    options = Options(
        operators=["rms_norm"],
        solutions=[find_solution("torch-eager")],
        shapes="top2",
        device="cpu",
        scale=SMALL,
        out=out,
        restarts=1,
        seconds_per_shape=0.01,
        extra=0,
        rounds=1,
    )
    first, second = evaluate(options)
    assert (first.status, second.status) == ("faster_than_bound", "passed")
    assert first.status in FAILURES
    assert first.s is not None
    assert first.s > 1
    written = read_results([out])
    assert [line.status for line in written] == ["faster_than_bound", "passed"]
    assert [line.shape for line in best_per_shape(written, "rms_norm")] == [second.shape]
