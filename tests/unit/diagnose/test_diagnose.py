"""`solscope diagnose` on real runs of an H200, and as a user meets it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from solscope.cli import run
from solscope.diagnose.causes import OWN_CAUSES
from solscope.diagnose.changes.trends import trends
from solscope.diagnose.diagnosis import Diagnosis, diagnose_runs
from solscope.diagnose.findings.findings import find
from solscope.diagnose.matching.units import Side, fit_steps, match
from solscope.diagnose.observe import observe
from solscope.diagnose.verdict.ranking import NamedCause, unknown
from solscope.diagnose.verdict.wording import why
from solscope.readers.packed import Observations, save
from tests.recordings import attributed_recording
from tests.sampling import some, some_rows
from tests.unit.diagnose.making import EAGER

DATA = Path(__file__).parents[4] / "shared" / "data"
real = pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data is not here")
VERDICTS = ("regression", "improvement", "no_change", "workload_changed", "cannot_compare")
IDS = ("none", *(cause.id for cause in OWN_CAUSES), "unknown")


@cache
def seen(name: str) -> Observations:
    return observe(attributed_recording(DATA / f"{name}.trace.json.gz"))


@cache
def diagnosed(normal: str, abnormal: str) -> Diagnosis:
    return diagnose_runs(seen(f"h200/{normal}"), seen(f"h200/{abnormal}"))


@real
@pytest.mark.parametrize(
    ("abnormal", "verdict", "cause"),
    [
        ("cpu_contention", "regression", "cpu_contention"),
        ("cpu_throttle", "regression", "cpu_slow"),
        ("gc_pressure", "regression", "gc"),
        ("disk_fsync", "regression", "disk_io"),
        ("normal_again", "no_change", "none"),
        ("longer_context", "workload_changed", "workload_context"),
    ],
)
def test_real_faults_are_named(abnormal: str, verdict: str, cause: str) -> None:
    result = diagnosed("runs/normal", f"runs/{abnormal}")
    assert (result.verdict, result.causes[0].id) == (verdict, cause)


@real
def test_more_synchronization_in_a_faster_run_is_latent() -> None:
    result = diagnosed("runs/normal", "runs/extra_sync")
    assert result.verdict != "regression"
    assert "extra_sync" in [item.id for item in result.latent]
    assert result.ratio is not None
    assert result.ratio < 0.8


@real
def test_graphs_off_and_on() -> None:
    off = diagnosed("graph/normal", "graph/no_cuda_graph")
    assert (off.verdict, off.causes[0].id) == ("regression", "graphs_off")
    on = diagnosed("graph/no_cuda_graph", "graph/normal")
    assert (on.verdict, on.causes[0].id) == ("improvement", "graphs_off")


RUNS = ("normal", "normal_again", "cpu_contention", "cpu_throttle", "gc_pressure", "disk_fsync")


@real
@pytest.mark.parametrize("normal", some(RUNS, 3))
def test_every_pair_adds_up(normal: str) -> None:
    for abnormal in RUNS:
        result = diagnosed(f"runs/{normal}", f"runs/{abnormal}")
        assert result.delta_ms is not None
        total = sum(component.delta_ms for component in result.components)
        assert total == pytest.approx(result.delta_ms, rel=1e-6, abs=1e-9)
        if normal == abnormal:
            assert result.verdict == "no_change"


def part(run: Observations, keep: list[int]) -> Observations:
    """Some steps of a run as a run of their own."""

    def cut(items: list[Any]) -> list[Any]:
        names = ("ns", "calls", "exposed_ns", "own_ns", "op_ns")
        return [
            msgspec.structs.replace(
                item,
                **{n: [getattr(item, n)[i] for i in keep] for n in names if hasattr(item, n)},
            )
            for item in items
        ]

    return msgspec.structs.replace(
        run,
        steps=[run.steps[i] for i in keep],
        tiles=cut(run.tiles),
        kernels=cut(run.kernels),
        host_calls=cut(run.host_calls),
        sections=cut(run.sections),
    )


@real
@pytest.mark.parametrize("name", ["runs/normal", "runs/normal_again", "graph/normal"])
@pytest.mark.parametrize("how", some(["halves", "turns", "blocks"], 3))
def test_a_normal_run_against_itself_raises_no_alarm(name: str, how: str) -> None:
    whole = seen(f"h200/{name}")
    size = len(whole.steps)
    side = {
        "halves": [i < size // 2 for i in range(size)],
        "turns": [i % 2 == 0 for i in range(size)],
        "blocks": [i // 4 % 2 == 0 for i in range(size)],
    }[how]
    first = part(whole, [i for i in range(size) if side[i]])
    second = part(whole, [i for i in range(size) if not side[i]])
    for normal, abnormal in ((first, second), (second, first)):
        result = diagnose_runs(normal, abnormal)
        assert result.verdict == "no_change"
        assert [cause.id for cause in result.causes] == ["none"]


@real
@pytest.mark.parametrize(
    ("normal", "abnormal"),
    some_rows(
        [
            ("traces/h100_qwen1.5-0.5b.json.gz", "traces/mi300_qwen1.5-0.5b.json.gz"),
            ("h200/models/deepseekv3-4l.trace.json.gz", "h200/models/llama8l.trace.json.gz"),
            ("h200/runs/normal.trace.json.gz", "h200/models/qwen3next4l.trace.json.gz"),
            ("traces/b200_eager.json.gz", "traces/b200_eager.json.gz"),
            ("nsys/h100_2gpu_1s.sqlite", "traces/mi300_xdit_sd3.5.json.gz"),
        ],
        3,
    ),
)
def test_unlike_runs_are_refused(normal: str, abnormal: str, capsys: Any) -> None:
    code = run(["diagnose", str(DATA / normal), str(DATA / abnormal)])
    assert code == 0
    assert "cannot be compared" in capsys.readouterr().out.replace("\n", " ")


# --- The command


@pytest.fixture
def saved(tmp_path: Path) -> tuple[str, str]:
    slow = EAGER.but(
        tiles={"idle.host:decode": 30.0}, counters={"oncpu_ns": 0.5e9, "runq_ns": 0.48e9}
    )
    paths = (tmp_path / "a.observations.json", tmp_path / "b.observations.json.zst")
    save(EAGER.run(), paths[0])
    save(slow.run(), paths[1])
    return str(paths[0]), str(paths[1])


def test_json_keeps_the_contract(saved: tuple[str, str], capsys: Any) -> None:
    assert run(["diagnose", *saved, "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert result["verdict"] in VERDICTS
    assert {"sentence", "unit", "ratio", "latent", "warnings"} <= set(result)
    for side in ("normal", "abnormal"):
        assert {"steps", "p50_ms", "p99_ms"} <= set(result[side])
    low, high = result["ratio_ci95"]
    assert low <= result["ratio"] <= high
    assert {
        "component", "phase", "normal_ms", "abnormal_ms", "delta_ms", "count_effect_ms",
        "duration_effect_ms", "share_of_delta_pct", "q",
    } <= set(result["components"][0])  # fmt: skip
    assert sum(c["share_of_delta_pct"] for c in result["components"]) == pytest.approx(100)
    for cause in result["causes"]:
        assert {"id", "family", "title", "confidence", "evidence", "against"} <= set(cause)
        assert cause["id"] in IDS


@pytest.mark.parametrize("columns", ["60", "80", "140"])
def test_the_verdict_comes_first_at_any_width(
    saved: tuple[str, str], columns: str, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert run(["diagnose", *saved]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("Regression: other tasks compete for the CPU (")
    assert max(map(len, lines)) <= int(columns)
    assert [line for line in lines if line.endswith("abnormal")]


def test_steps_are_matched_once_also_where_they_are_drawn(
    saved: tuple[str, str], capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = []

    def counted(observed: Observations, *others: Any) -> Side:
        sides.append(observed.run.name)
        return fit_steps(observed, *others)

    monkeypatch.setattr("solscope.diagnose.matching.units.fit_steps", counted)
    monkeypatch.setattr("solscope.cli.output.can_draw", lambda: True)

    assert run(["diagnose", *saved]) == 1

    assert "▁" in capsys.readouterr().out
    assert len(sides) == 2


def test_markdown(saved: tuple[str, str], capsys: Any) -> None:
    assert run(["diagnose", *saved, "--markdown", "--top", "3"]) == 1
    text = capsys.readouterr().out
    assert text.startswith("# made against made\n\n**Regression: ")
    assert "| +19.0" in text
    assert "- 9" in text


def test_swapped_it_is_an_improvement_and_exits_with_0(saved: tuple[str, str], capsys: Any) -> None:
    assert run(["diagnose", *reversed(saved), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "improvement"


def test_bad_input_is_one_line(tmp_path: Path, capsys: Any) -> None:
    broken = tmp_path / "x.observations.json"
    broken.write_text("{}")
    assert run(["diagnose", str(broken), str(broken)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "unknown profile format" in error


def test_trends_are_what_the_diagnosis_sums_up() -> None:
    slow = EAGER.but(
        tiles={"idle.host:decode": 30.0}, counters={"oncpu_ns": 0.5e9, "runq_ns": 0.48e9}
    )
    normal, abnormal = EAGER.run(), slow.run()
    found = diagnose_runs(normal, abnormal)

    drawn = trends(match(normal, abnormal))

    for times, side in zip(drawn.steps_ms, (found.normal, found.abnormal), strict=True):
        assert len(times) == side.steps
        assert sum(times) / len(times) == pytest.approx(side.mean_ms)
    counters = {(c.name, c.device): c for c in found.counters}
    assert set(drawn.counters) == set(counters)
    waiting = drawn.counters["runq_ns", None][1]
    assert sum(waiting) / len(waiting) == pytest.approx(counters["runq_ns", None].abnormal)


def test_a_sensor_of_one_run_has_no_trend_in_the_other() -> None:
    counters = {"host_procs_running": 3.0}
    drawn = trends(match(EAGER.run(), EAGER.but(counters=counters).run()))
    assert drawn.counters["host_procs_running", None][0] == []
    assert set(drawn.counters["host_procs_running", None][1]) == {3.0}


PART = "; it can account for 55 % of the difference"


def of_difference(name: str, share_pct: float, confidence: float) -> NamedCause:
    return NamedCause(name, "host", name, confidence, [], [], share_pct, "look")


@pytest.mark.parametrize(
    ("causes", "said"),
    [
        ([(55.0, 0.6), (40.0, 0.3)], "c0 (60 % confident)" + PART),
        ([(55.0, 0.88), (40.0, 0.02)], "c0 (88 % confident)" + PART),
        ([(55.0, 0.5), (40.0, 0.3)], "probably c0 (50 % confident)" + PART),
        ([(55.0, 0.4), (40.0, 0.35)], "c0, or c1; to decide: look"),
        ([(55.0, 0.6)], "c0 (60 % confident)" + PART + ", the rest is unexplained"),
        ([(90.0, 0.6), (10.0, 0.3)], "c0 (60 % confident)"),
        ([(100.0, 0.6), (100.0, 0.3)], "c0 (60 % confident)"),
    ],
    ids=["another is listed", "unlikely", "probable", "as likely", "alone", "enough", "all"],
)  # fmt: skip
def test_a_cause_of_a_part_of_the_difference(causes: list[tuple[float, float]], said: str) -> None:
    """How sure it is stays in the sentence, and a rest that another cause may be is not unknown."""
    found = find(match(EAGER.run(), EAGER.run(3)))
    assert found is not None
    named = [of_difference(f"c{n}", share, sure) for n, (share, sure) in enumerate(causes)]
    left = 1 - sum(cause.confidence for cause in named)
    assert why(found, [*named, unknown(left)]) == (said, ", or " not in said)
