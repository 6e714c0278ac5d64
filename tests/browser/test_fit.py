"""Tables and labels in the room that they have, and pages on paper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from solscope.pages.profile import profile_page
from solscope.report.html import write_html
from tests.browser.conftest import (
    DEMOS,
    RESULTS,
    demo_pages,
    drawn,
    eventually,
    serving,
    treemap,
    watched,
)
from tests.making import attributed, event

pytestmark = pytest.mark.browser
SIDEWAYS = """[...document.querySelectorAll(".table > .scroll")]
  .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.ariaLabel)"""
"""Tables that can be read only by scrolling sideways."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving([*DEMOS, RESULTS]) as address:
        yield address


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("report") / "report.html"
    write_html(demo_pages(), "demos", target)
    return target


@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_no_table_scrolls_sideways(
    browser: Browser, report: Path, address: str, width: int
) -> None:
    places = [f"file://{report}?page={page}" for page in (1, 2, 3)]
    places += [f"{address}{path}" for path in ("/", "/suite", "/suite/rms_norm", "/bench")]
    with watched(browser, width=width) as (page, problems):
        for place in places:
            page.goto(place)
            page.wait_for_selector("main tbody td")
            drawn(page)
            none_sideways(page)
        assert problems == []


def none_sideways(page: Page) -> None:
    """Columns leave once the width of the table is known: not all at once."""
    eventually(page, lambda: page.evaluate(SIDEWAYS), lambda found: found == [])


def show_heads(page: Page, expected: list[str]) -> None:
    eventually(page, lambda: heads(page), lambda found: found == expected)


def heads(page: Page) -> list[str]:
    found = page.locator("#suite > .table > .scroll > table > thead th").all_inner_texts()
    return [head.replace("\n", " ").rstrip("▾▴").strip() for head in found]


def test_columns_without_room_come_back_with_a_button_and_with_width(
    browser: Browser, address: str
) -> None:
    with watched(browser) as (page, problems):
        page.goto(f"{address}/suite")
        every = eventually(page, lambda: heads(page), lambda found: found[-1:] == ["S H200"])
        button = page.locator("#suite .fit").first
        expect(button).to_have_count(0)
        page.set_viewport_size({"width": 390, "height": 900})
        show_heads(page, ["Operator", "Importance", "S XPU-A", "S H200"])
        expect(button).to_have_text(f"All {len(every)} columns")
        # The column that rows are in order of stays, whichever it is.
        button.click()
        show_heads(page, every)
        page.locator("#suite").get_by_role("button", name="dtype").click()
        expect(page.locator("#suite th[aria-sort=ascending]")).to_contain_text("dtype")
        button.click()
        expect(button).to_have_text(f"All {len(every)} columns")
        eventually(page, lambda: heads(page), lambda found: "dtype" in found and found != every)
        page.set_viewport_size({"width": 1440, "height": 900})
        expect(button).to_have_count(0)
        show_heads(page, every)
        assert problems == []


def test_what_a_row_opens_does_not_widen_its_table(browser: Browser, address: str) -> None:
    with watched(browser, width=1024) as (page, problems):
        page.goto(f"{address}/suite")
        page.locator("#suite").get_by_role("button", name="Open rms_norm").click()
        page.wait_for_selector("tr.detail tbody tr")
        none_sideways(page)
        page.goto(f"{address}/bench")
        page.locator("#operators").get_by_role("button", name="Open").first.click()
        page.locator("tr.detail").get_by_role("button", name="Open").first.click()
        page.wait_for_selector("tr.detail .chart svg")
        none_sideways(page)
        assert problems == []


def test_names_break_where_their_words_end(browser: Browser, address: str) -> None:
    with watched(browser, width=390) as (page, _):
        page.goto(f"{address}/suite")
        page.wait_for_selector("#suite tbody tr")
        name = page.locator("#suite tbody .opener > span").filter(has_text="gated_delta_rule")
        broken = """(cell) => {
              const lines = new Map();
              for (const node of cell.childNodes) {
                if (node.nodeType !== Node.TEXT_NODE || !node.textContent.trim()) continue;
                const range = document.createRange();
                range.selectNode(node);
                if (range.getClientRects().length > 1) return null;  // Broken inside a word.
                const top = Math.round(range.getBoundingClientRect().top);
                lines.set(top, (lines.get(top) ?? "") + node.textContent);
              }
              return [...lines.values()];
            }"""
        lines = eventually(
            page, lambda: name.first.evaluate(broken), lambda lines: lines and len(lines) > 1
        )
        assert "".join(lines).strip() == "gated_delta_rule_update"


LABELS = (
    """[...document.querySelectorAll("#tree .areas text")].map((one) => one.textContent.trim())"""
)


@pytest.mark.parametrize("width", [1440, 800])
def test_areas_too_small_for_a_name_have_none(browser: Browser, tmp_path: Path, width: int) -> None:
    # Each kernel half as long as the one before: from large areas to slivers.
    names = [f"vectorized_elementwise_kernel_number_{at}" for at in range(9)]
    sizes = [2 ** (20 - at) for at in range(9)]
    starts = [sum(sizes[:at]) for at in range(9)]
    events = [
        event("kernel", name, start, size)
        for name, start, size in zip(names, starts, sizes, strict=True)
    ]
    write_html([profile_page(attributed(*events))], "tree", tmp_path / "tree.html")
    with watched(browser, width=width) as (page, problems):
        page.goto(f"file://{tmp_path}/tree.html")
        drawn(page)
        treemap(page)
        found = eventually(page, lambda: page.evaluate(LABELS), any)
        labels = [one for one in found if one]
        cut = [one for one in labels if "…" in one]
        assert all(len(one.split("…")[0].removeprefix("▶ ")) >= 7 for one in cut)
        leaves = [one for one in labels if "vector" in one]
        assert 0 < len(leaves) < len(names)
        assert problems == []


INKS = """() => {
  const charts = [...document.querySelectorAll(".chart svg")];
  const texts = [...document.querySelectorAll(".chart svg text")];
  const own = texts.filter((one) => getComputedStyle(one).stroke === "none" && !one.dataset.on);
  return {
    inks: [...new Set(own.map((one) => one.getAttribute("fill")))].sort(),
    widths: [...new Set(charts.map((one) => one.clientWidth))],
  };
}"""


def test_charts_of_a_dark_page_print_dark_on_white_and_as_wide_as_paper(
    browser: Browser, report: Path
) -> None:
    with watched(browser, dark=True) as (page, problems):
        page.goto(f"file://{report}")
        drawn(page)
        before = page.evaluate(INKS)
        assert before["inks"]
        assert set(before["inks"]) <= {"#e6e9ee", "#a3abb8"}  # The inks of a dark page.
        page.evaluate(f"addEventListener('beforeprint', () => {{ window.seen = ({INKS})(); }})")
        assert len(page.pdf()) > 10_000
        seen = page.evaluate("window.seen")
        assert set(seen["inks"]) <= {"#1d2129", "#5b6370"}
        assert seen["widths"] == [680]
        eventually(
            page,
            lambda: page.evaluate(INKS),
            lambda now: now["inks"] == before["inks"] and 680 not in now["widths"],
        )
        assert problems == []
