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


@pytest.mark.parametrize("name", CASES)
def test_output_is_as_recorded(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")

    code = run(CASES[name])

    printed = capsys.readouterr()
    assert (code, printed.err) == (0, "")
    golden = HERE / f"{name}.txt"
    if os.environ.get("SOLSCOPE_UPDATE_GOLDEN") == "1":
        golden.write_text(printed.out, encoding="utf-8")
    assert printed.out == golden.read_text(encoding="utf-8")
