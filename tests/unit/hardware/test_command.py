"""`solscope hardware` from the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from solscope.cli import run
from solscope.hardware import Figure, names
from solscope.report.results.hardware import readable


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (989.4e12, "FLOP/s", ("989.4", "TFLOP/s")),
        (15e15, "FLOP/s", ("15,000", "TFLOP/s")),
        (0.3e12, "byte/s", ("300", "GB/s")),
        (4.8e12, "byte/s", ("4.8", "TB/s")),
        (80 * 2**30, "byte", ("80", "GiB")),
        (50 * 2**20, "byte", ("50", "MiB")),
        (1.98e9, "Hz", ("1,980", "MHz")),
        (132, "count", ("132", "")),
        (2.83688e-9, "s", ("2.837", "ns")),
        (1.25e-6, "s", ("1.25", "µs")),
        (4.18176e12, "op/s", ("4.182", "Top/s")),
    ],
)
def test_readable_units(value: float, unit: str, shown: tuple[str, str]) -> None:
    assert readable(Figure(value, unit, "a test", "2026-01-01")) == shown


def test_list_names_every_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hardware", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(names())
    assert lines[6].split()[:3] == ["H100", "sm_90", "989.4"]


def test_show_prints_figure_unit_date_and_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hardware", "show", "h100"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "H100: NVIDIA H100 SXM5 80 GB, nvidia sm_90"
    (hbm,) = [line for line in lines if line.startswith("hbm.bandwidth")]
    assert hbm.split(maxsplit=4) == [
        "hbm.bandwidth",
        "3.35",
        "TB/s",
        "2026-11-15",
        "NVIDIA H100 Tensor Core GPU datasheet",
    ]


def test_several_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hardware", "show", "H100", "XPU-A"]) == 0
    out = capsys.readouterr().out
    assert "tensor.bf16             989.4 TFLOP/s  232.7 TFLOP/s" in out
    assert "l2.size                        50 MiB              -" in out
    assert "XPU-A: XPU-A (anonymous gfx942 accelerator)" in out
    assert "alibaba/atrex-bench" in out


def test_json_has_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hardware", "show", "mi300x", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["hardware"]
    assert found["name"] == "MI300X"
    assert found["memory"]["llc.bandwidth"] == {
        "value": 17.2e12,
        "unit": "byte/s",
        "source": "AMD CDNA 3 Architecture white paper",
        "date": "2026-11-15",
        "note": "Infinity Cache, peak",
    }


def test_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hardware", "list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["hardware"]
    assert [gpu["name"] for gpu in found] == list(names())


def test_measured_beside_the_vendor(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hardware", "show", "H200", "--measured"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("H200 (measured): NVIDIA H200 SXM 141 GB")
    assert "launch.floor" in out
    assert "NVIDIA H200 Tensor Core GPU datasheet" in out, "what was not measured"


def test_an_unknown_name_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["hardware", "show", "H101"]) == 2
    assert "did you mean 'H100'" in capsys.readouterr().err


def test_measuring_without_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert run(["hardware", "measure", "--out", str(tmp_path / "a.toml")]) == 2
    assert "pip install torch" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
