from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import solscope
from solscope.cli import app
from solscope.diagnose.observe import observe
from solscope.readers.packed import save

DATA = Path(__file__).parents[2] / "data"
NORMAL = str(DATA / "behavior" / "normal_perf_data.csv")
ABNORMAL = str(DATA / "behavior" / "abnormal_perf_data.csv")


def run(*arguments: str) -> Result:
    done = CliRunner().invoke(app, ["diagnose", *arguments], standalone_mode=False)
    assert done.exception is None, done.output
    return done


def test_classic_prints_the_report_whole() -> None:
    done = run(NORMAL, ABNORMAL, "--classic")
    assert done.stdout.startswith(
        "# Cross Performance Comparison: normal_perf_data vs abnormal_perf_data\n"
    )
    assert "more rows" not in done.stdout
    # It gives figures, not a verdict.
    assert done.return_value == 0


def test_top() -> None:
    assert "7 more rows" in run(NORMAL, ABNORMAL, "--classic", "--top", "2").stdout


def test_json() -> None:
    found = json.loads(run(NORMAL, ABNORMAL, "--classic", "--json").stdout)
    assert len(found["rows"]) == 9
    row = found["rows"][0]
    score = abs(row["delta_beta_pct"]) * (abs(row["z_beta"]) + abs(row["z_log_mu"]))
    assert row["suspicion_score"] == pytest.approx(score)


def test_without_it_the_same_files_are_diagnosed() -> None:
    done = run(NORMAL, ABNORMAL, "--json")
    assert json.loads(done.stdout)["causes"][0]["id"] == "cpu_slow"
    assert done.return_value == 1


def test_saved_observations(tmp_path: Path) -> None:
    trace = solscope.attribute(solscope.open(DATA / "kineto_b200.json.gz"))
    path = save(observe(trace), tmp_path / "run.observations.json")
    done = CliRunner().invoke(app, ["diagnose", str(path), str(path), "--classic"])
    # One step is no whole step: there is nothing to compare, and that is said.
    assert "no complete cycle" in str(done.exception)


def test_names_from_the_file_are_no_markup(tmp_path: Path) -> None:
    evil = tmp_path / "evil_perf_data.csv"
    text = Path(NORMAL).read_text()
    evil.write_text(text.replace(",cpu_frequency,", ",<img src=x>|`\x1b[31m,"))
    report = run(str(evil), ABNORMAL, "--classic").stdout
    (row, *_) = [line for line in report.splitlines() if line.startswith("|") and "img" in line]
    assert "| &lt;img src=x>\\|'" in row
    assert "**`<img src=x>\\|'" in report
    assert "\x1b" not in report
