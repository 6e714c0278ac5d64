"""The hardware page has every GPU and figure; `SOLSCOPE_UPDATE_GOLDEN=1` rewrites its tables."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from solscope.hardware import Hardware, find, names
from solscope.hardware.base import CHIP, MEMORY, PIPES
from solscope.report.results.hardware import cell

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "hardware.md"
TABLES = {
    "Tensor cores": ("tensor.fp64", "tensor.tf32", "tensor.bf16", "tensor.fp16", "tensor.int8"),
    "Tensor cores, narrow types": ("tensor.fp8", "tensor.fp6", "tensor.fp4", "tensor.fp32"),
    "Other units": ("vector.fp64", "vector.fp32", "sfu", "sm.count", "clock.boost"),
    "Memory": ("hbm.bandwidth", "hbm.size", "l2.bandwidth", "l2.size", "l1.bandwidth"),
    "More": (
        "llc.bandwidth",
        "llc.size",
        "interconnect.bandwidth",
        "host.bandwidth",
        "serial.step",
        "clock.base",
        "clock.tensor",
    ),
}


def table(figures: tuple[str, ...], known: list[Hardware]) -> str:
    """One row per GPU that has any of the figures."""
    rows = [
        f"| `{gpu.name}` | {' | '.join(cell(gpu, figure) for figure in figures)} |"
        for gpu in known
        if any(figure in gpu.figures for figure in figures)
    ]
    heads = " | ".join(f"`{figure}`" for figure in figures)
    return "\n".join([f"| | {heads} |", f"|---|{'---:|' * len(figures)}", *rows]) + "\n"


def sources(known: list[Hardware]) -> str:
    """Sources of each GPU, with the day they were looked at."""
    lines = []
    for gpu in known:
        cited = dict.fromkeys(f"{f.source} ({f.date})" for f in gpu.figures.values())
        lines.append(f"- `{gpu.name}`, {gpu.title}: {'; '.join(cited)}.")
    return "\n".join(lines) + "\n"


def expected() -> dict[str, str]:
    known = [find(name) for name in names()]
    return {title: table(figures, known) for title, figures in TABLES.items()} | {
        "Sources": sources(known)
    }


@pytest.mark.parametrize("title", [*TABLES, "Sources"])
def test_the_page_is_as_the_files(title: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    pattern = rf"(?<=^## {re.escape(title)}\n\n).*?(?=\n## |\Z)"
    found = re.search(pattern, text, re.DOTALL | re.MULTILINE)
    assert found is not None, title
    if os.environ.get("SOLSCOPE_UPDATE_GOLDEN") == "1":
        text = text[: found.start()] + expected()[title] + text[found.end() :]
        PAGE.write_text(text, encoding="utf-8")
        return
    assert found.group() == expected()[title]


def test_no_figure_is_left_out() -> None:
    shown = {figure for figures in TABLES.values() for figure in figures}
    used = {key for name in names() for key in find(name).figures}
    assert used <= shown


def test_every_name_of_a_figure_is_explained() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert {f"`{name}`" for name in (*PIPES, *MEMORY, *CHIP)} <= set(re.findall(r"`[^`]+`", text))
