"""The recorder, end to end, on a CPU."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import solscope
from solscope.cli import run as program
from tests.json_output import document

if not sys.platform.startswith("linux"):
    pytest.skip("the lab is for Linux", allow_module_level=True)
pytest.importorskip("torch")

TRY = ["--device", "cpu", "--tiny", "--modes", "eager", "--steps", "3"]


def test_pairs_with_a_known_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = os.sched_getaffinity(0)
    arguments = ["--faults", "slow_sleep,extra_sync", "--strengths", "3", "--json"]
    assert program(["lab", "record", "--out", str(tmp_path), *TRY, *arguments]) == 0
    assert os.sched_getaffinity(0) == before
    summary = document(capsys.readouterr().out)
    assert summary["pairs"] == 1
    assert summary["unavailable"] == {"extra_sync": "needs a GPU"}
    assert summary["failed"] == {}
    [pair] = [json.loads(line) for line in (tmp_path / "pairs.jsonl").read_text().splitlines()]
    assert pair["expected"] == ["slow_section"]
    assert pair["half"] == "tune"
    assert pair["step_ms_abnormal"] > pair["dose"]
    for name in (pair["normal"], pair["abnormal"]):
        profile = solscope.open(tmp_path / f"{name}.trace.json.gz")
        names = list(profile.events["name"])
        assert names.count("engine_step") == 3
        assert profile.metrics is not None
        assert "oncpu_ns" in set(profile.metrics["metric"])
        assert "metrics_outside" not in {warning.code for warning in profile.warnings}
    machine = json.loads((tmp_path / "machine.json").read_text())
    assert {"date", "torch", "kernel", "cpus", "missing_sensors"} <= set(machine)


@pytest.mark.long
def test_no_time_keeps_what_is_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--faults", "none", "--half", "tune", "--archive", "--seconds", "1.5"]
    program(["lab", "record", "--out", str(tmp_path), *TRY, *arguments])
    assert "units are left out" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} <= {
        "machine.json",
        "pairs.jsonl",
        "part-000.tar",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device", "cpu"], "graphs need a GPU"),
        (["--faults", "nonsense"], "no fault 'nonsense'"),
        (["--half", "test", "--faults", "pcie"], "nothing to record"),
        (["--modes", "fast"], "eager, graph"),
        (["--strengths", "4"], "some of 1,2,3"),
        (["--faults", "none"], "torch finds no GPU here"),
    ],
)
def test_bad_usage(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program(["lab", "record", "--out", str(tmp_path / "lab"), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_recordings_are_not_mixed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pairs.jsonl").touch()
    assert program(["lab", "record", "--out", str(tmp_path), *TRY]) == 2
    assert "holds recordings" in capsys.readouterr().err


def test_unpacking_an_empty_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program(["lab", "unpack", str(tmp_path)]) == 2
    assert "no part-*.tar in it" in capsys.readouterr().err
