"""The public suite's three tables in the dashboard, figure by figure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import serving, settle, watched
from tests.printing import as_published

pytestmark = pytest.mark.browser
PRINTED: dict[str, Any] = json.loads(Path("tests/data/suite_page.json").read_text("utf-8"))
"""What the public page prints: `list`, `roofline`, `median` and `s` by operator."""
CELLS = """(body) => [...body.rows].map(
  (row) => [...row.cells].map((cell) => cell.innerText.replace(/^[▸▾]\\s*/, "").trim()))"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving(["tests/data/bench_results.jsonl"]) as address:
        yield address


def table(page: Page, place: str) -> tuple[list[str], list[list[str]]]:
    """Heads of the columns, and the cells of each row."""
    page.wait_for_selector(f"{place} tbody tr")
    settle(page)
    heads = page.locator(f"{place} > .table thead th").all_inner_texts()
    rows = page.locator(f"{place} > .table > .scroll > table > tbody").evaluate(CELLS)
    return [head.replace("\n", " ").rstrip("▾▴").strip() for head in heads], rows


def as_printed(text: str) -> str:
    return text.replace(" %", "%")


def test_the_first_two_tables_have_the_published_figures(browser: Browser, address: str) -> None:
    with watched(browser) as (page, problems):
        page.goto(f"{address}/suite?hardware=H20,XPU-A")
        heads, rows = table(page, "#suite")
        listed, roofline, median = {}, {}, {}
        for row in rows:
            cell = dict(zip(heads, map(as_printed, row), strict=True))
            name, identity = cell["Operator"].split()
            listed[name] = [identity, cell["dtype"], int(cell["Shapes"]), cell["Importance"]]
            roofline[name] = [
                cell["Regime"],
                cell["AI"],
                as_published(cell["T_SOL H20 µs"]),
                as_published(cell["T_SOL XPU-A µs"]),
                as_published(cell["T_Prod XPU-A µs"], 0, 1),
            ]
            median[name] = cell["S XPU-A"]
        assert listed == PRINTED["list"]
        assert list(listed) == list(PRINTED["list"])
        assert roofline == PRINTED["roofline"]
        assert median == PRINTED["median"]
        assert problems == []


def test_the_third_table_has_the_published_s_of_all_440_shapes(
    browser: Browser, address: str
) -> None:
    with watched(browser) as (page, problems):
        found = {}
        for name in PRINTED["s"]:
            page.goto(f"{address}/suite/{name}?hardware=XPU-A")
            heads, rows = table(page, "#shapes")
            at = heads.index("S XPU-A")
            found[name] = {row[0]: as_printed(row[at]) for row in rows}
        assert found == PRINTED["s"]
        assert sum(map(len, found.values())) == 440
        assert problems == []


def test_our_own_results_stand_beside_the_published_ones(browser: Browser, address: str) -> None:
    with watched(browser) as (page, problems):
        page.goto(f"{address}/suite")
        heads, rows = table(page, "#suite")
        assert heads[-2:] == ["Best H200 µs", "S H200"]
        s = {row[0].split()[0]: row[-1] for row in rows}
        assert s["unified_attention"] == "25.9 %"  # Shapes without a result count as 0.
        assert s["layer_norm"] == "–"
        page.goto(f"{address}/suite/rms_norm")
        heads, rows = table(page, "#shapes")
        assert heads[-2:] == ["Best H200 µs", "S H200"]
        measured = [row for row in rows if row[-2] != "–"]
        assert len(measured) == 2
        assert {row[-2].split()[-1] for row in measured} == {"fla"}
        assert problems == []


def test_the_roofline_switches_its_hardware_at_an_address_of_its_own(
    browser: Browser, address: str
) -> None:
    with watched(browser) as (page, problems):
        page.goto(f"{address}/suite")
        chart = page.locator("#roofline .chart")
        expect(chart).to_have_attribute("aria-label", re.compile("H200"))
        expect(chart.locator("circle[stroke='#4778e5']")).to_have_count(26)
        page.locator("#roofline").get_by_role("button", name="XPU-A").click()
        page.wait_for_selector("#roofline .chart[aria-label*='XPU-A']")
        expect(page).to_have_url(re.compile("roof=XPU-A"))
        expect(page.locator("#roofline .about")).to_contain_text("26 of 26")
        page.reload()
        page.wait_for_selector("#roofline .chart[aria-label*='XPU-A']")
        # Ticking another GPU leaves the chart on the one that was measured.
        page.goto(f"{address}/suite?hardware=H20,XPU-A,H200,MI300X")
        page.wait_for_selector("#roofline .chart[aria-label*='H200']")
        page.goto(f"{address}/suite?hardware=MI300X")
        page.wait_for_selector("#roofline .chart[aria-label*='MI300X']")
        expect(page.locator("#roofline .about")).to_contain_text("nothing was measured")
        assert problems == []
