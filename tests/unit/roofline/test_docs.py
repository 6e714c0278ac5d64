"""Bounds by vendor and measured figures, side by side; `SOLSCOPE_UPDATE_GOLDEN=1` writes them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from solscope.hardware import Hardware, find
from solscope.roofline import operator_bound
from solscope.views.operators import named_hardware

PAGE = Path(__file__).parents[3] / "docs" / "explain" / "bounds.md"
MARK = "<!-- The table is written by tests/unit/roofline/test_docs.py -->\n\n"
CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("dense_gemm", {"m": 8192, "n": 8192, "k": 8192}),
    ("rms_norm", {"tokens": 16384, "hidden": 5120}),
    ("silu_and_mul", {"tokens": 256, "intermediate": 14336}),
)
CARDS = {
    "vendor alone": find("H200"),
    "vendor, gaps measured": named_hardware("H200"),
    "measured": find("H200", measured=True),
}


def cell(name: str, axes: dict[str, Any], card: Hardware) -> str:
    found = operator_bound(name, axes, card)
    return f"{found.time_us:.2f} µs by `{found.limiter}`"


def table() -> str:
    heads = "".join(f" {head} |" for head in CARDS)
    lines = [f"| on an H200 |{heads}", f"|---|{'---|' * len(CARDS)}"]
    for name, axes in CASES:
        sizes = ", ".join(f"{axis} {size}" for axis, size in axes.items())
        cells = " | ".join(cell(name, axes, card) for card in CARDS.values())
        lines.append(f"| `{name}`, {sizes} | {cells} |")
    return "\n".join(lines) + "\n"


def test_the_page_has_both_bounds() -> None:
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"(?<={re.escape(MARK)})(?:\|.*\n)*", text)
    assert found is not None
    if os.environ.get("SOLSCOPE_UPDATE_GOLDEN") == "1":
        PAGE.write_text(text[: found.start()] + table() + text[found.end() :], encoding="utf-8")
        return
    assert found.group() == table()


def test_measured_figures_never_give_a_shorter_time() -> None:
    for name, axes in CASES:
        vendor, measured = (
            operator_bound(name, axes, CARDS[c]) for c in ("vendor alone", "measured")
        )
        assert (measured.time_us or 0) >= (vendor.time_us or 0)
