"""The committed results of the benchmark, and what the docs say of them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from solscope.bench.results import read_results
from solscope.bench.score import Score, score
from solscope.report.pages import production_s

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results" / "bench" / "h200.jsonl"
PAGE = ROOT / "docs" / "reference" / "results.md"
BLOCK = re.compile(r"(<!-- results -->\n)(.*?)(<!-- end of results -->)", re.DOTALL)


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def pct(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def table(found: Score) -> str:
    deployed = production_s()
    lines = [
        "| operator | importance | bound µs | best µs | who (shapes) | S | shapes | S of XPU-A |",
        "|---|--:|--:|--:|---|--:|--:|--:|",
    ]
    for one in sorted(found.operators, key=lambda one: -one.importance):
        who = ", ".join(f"{n} {c}" for n, c in sorted(one.best.items(), key=lambda kv: -kv[1]))
        lines.append(
            f"| `{one.operator}` | {pct(one.importance)} | {number(one.bound_us)} | "
            f"{number(one.median_us)} | {who or '–'} | {pct(one.s)} | "
            f"{one.shapes_passed} of {one.shapes} | {pct(deployed[one.operator])} |"
        )
    lines.append(
        f"| all of these | {pct(found.covered)} | | | | {pct(found.weighted_s)} | | |",
    )
    return "\n".join(lines) + "\n"


def test_the_page_shows_the_committed_results() -> None:
    wanted = table(score(read_results([RESULTS])))
    text = PAGE.read_text(encoding="utf-8")
    if os.environ.get("SOLSCOPE_UPDATE_GOLDEN"):
        PAGE.write_text(BLOCK.sub(lambda m: m[1] + wanted + m[3], text), encoding="utf-8")
        return
    found = BLOCK.search(text)
    assert found
    assert found[2] == wanted


def test_no_passed_result_beats_its_bound() -> None:
    for line in read_results([RESULTS]):
        if line.status == "passed" and line.s is not None:
            assert line.s <= 1, (line.operator, line.shape, line.solution)


def test_results_name_the_machine_and_the_command() -> None:
    for line in read_results([RESULTS]):
        assert line.device == "NVIDIA H200"
        assert line.run["command"].startswith("solscope bench run")
        assert {"torch", "triton", "python"} <= set(line.run["versions"])
        assert line.run["driver"]
        assert line.sensors is not None or line.status != "passed"
