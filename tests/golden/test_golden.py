"""Printed output, compared with files; `SOLSCOPE_UPDATE_GOLDEN=1` rewrites the files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from solscope.cli import run

HERE = Path(__file__).parent
CASES = {
    "show-vllm-b200": ["show", "demo:vllm-b200"],
    "show-two-profiles": ["show", "demo:vllm-b200", "demo:vllm-mi300x-graph"],
    "compare-two-profiles": ["compare", "--top", "5", "demo:vllm-b200", "demo:vllm-mi300x-graph"],
    "kernels-by-category": ["kernels", "--by", "category", "demo:vllm-b200"],
    "kernels-top-short": ["kernels", "--top", "5", "--by", "short", "demo:vllm-b200"],
    "operators-shapes": ["operators", "--top", "8", "demo:vllm-b200"],
    "operators-two-profiles": [
        *("operators", "--by", "operator", "--top", "4"),
        *("demo:vllm-b200", "demo:vllm-mi300x-graph"),
    ],
    "hotspots-top": ["hotspots", "--top", "6", "demo:vllm-b200"],
    "hotspots-markdown": ["hotspots", "--top", "3", "--markdown", "demo:vllm-b200"],
    "show-markdown": ["show", "--top", "3", "--markdown", "demo:vllm-b200"],
    "layers-kernels": ["layers", "--kernels", "demo:vllm-b200"],
    "layers-two-profiles": ["layers", "demo:vllm-b200", "demo:vllm-mi300x-graph"],
}


DATA = HERE.parent / "data"
DIAGNOSE = [
    "diagnose",
    *(str(DATA / f"cpu_quota-{n}.observations.json.zst") for n in ("normal", "slow")),
]
DRAWN = {
    "drawn-show": ["show", "--top", "3", "demo:vllm-b200"],
    "drawn-layers": ["layers", "demo:vllm-b200"],
    "drawn-hotspots": ["hotspots", "--top", "6", "demo:vllm-b200"],
    "drawn-diagnose": DIAGNOSE,
}
"""As on a terminal that draws, without colors."""
WIDTHS = (80, 140)


@pytest.mark.parametrize("name", CASES)
def test_output_is_as_recorded(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")

    code = run(CASES[name])

    printed = capsys.readouterr()
    assert (code, printed.err) == (0, "")
    compare(name, printed.out)


@pytest.mark.parametrize("arguments", [[], ["--markdown"]], ids=["piped", "markdown"])
def test_a_diagnosis_is_as_recorded(
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert run([*DIAGNOSE, *arguments]) == 1
    compare("diagnose-markdown" if arguments else "diagnose", capsys.readouterr().out)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", DRAWN)
def test_what_is_drawn_is_as_recorded(
    name: str,
    width: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("solscope.cli.screen._on_screen", lambda: True)

    code = run(DRAWN[name])

    printed = capsys.readouterr().out
    assert code == (name == "drawn-diagnose")
    assert max(map(len, printed.splitlines())) <= width
    compare(f"{name}-{width}", printed)


def compare(name: str, printed: str) -> None:
    """What was printed, with what was recorded."""
    golden = HERE / f"{name}.txt"
    if os.environ.get("SOLSCOPE_UPDATE_GOLDEN") == "1":
        golden.write_text(printed, encoding="utf-8")
    assert printed == golden.read_text(encoding="utf-8")
