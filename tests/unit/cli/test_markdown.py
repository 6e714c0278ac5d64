"""Commands about suites and results as Markdown: whole tables, with a row for all that JSON has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from solscope.cli import run

PARSER = MarkdownIt("commonmark").enable("table")
RESULTS = str(Path(__file__).parents[2] / "data" / "bench_results.jsonl")
CASES = {
    "score": (f"bench score {RESULTS}", "operators"),
    "compare": (f"bench compare {RESULTS} {RESULTS}", "shapes"),
    "leaderboard": (f"bench leaderboard {RESULTS}", "entries"),
    "list": ("suite list", "operators"),
    "show": ("suite show layer_norm", "inputs"),
    "roofline": ("suite roofline --hardware H20,H100,H200,B200,MI300X", "operators"),
    "shapes": ("suite shapes rms_norm", "shapes"),
    "listed": ("suite shapes dense_gemm --suite decode", "shapes"),
}


def tables(text: str) -> list[list[int]]:
    """Of each table, how many cells every row of its body has."""
    found: list[list[int]] = []
    for token in PARSER.parse(text):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append(0)
        elif token.type == "td_open":
            found[-1][-1] += 1
    return [rows[1:] for rows in found]


@pytest.mark.parametrize("name", CASES)
def test_a_table_has_every_row_and_column(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    words, field = CASES[name]
    assert run([*words.split(), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)[field]
    assert run([*words.split(), "--markdown"]) == 0
    text = capsys.readouterr().out
    first = tables(text)[0]
    assert len(first) == len(rows)
    assert len(set(first)) == 1
    assert "columns left out at" not in text
    assert "…" not in text


def test_a_column_for_each_gpu_whatever_the_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert run(CASES["roofline"][0].split()) == 0
    assert "columns left out at" in capsys.readouterr().out
    assert run([*CASES["roofline"][0].split(), "--markdown"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert re.findall(r"SOL (\S+)", first) == ["H20", "H100", "H200", "B200", "MI300X"]


def test_the_math_of_an_operator_stays_laid_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["suite", "show", "rms_norm", "--markdown"]) == 0
    (block,) = [t for t in PARSER.parse(capsys.readouterr().out) if t.type == "fence"]
    assert "\n    vector   T (3 H + 1)" in block.content
