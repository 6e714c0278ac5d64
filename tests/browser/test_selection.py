"""What is chosen in one view is followed by the others."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

import solscope
from solscope import attribute
from solscope.pages.profile import profile_page
from solscope.report.html import write_html
from tests.browser.conftest import DEMOS, drawn, eventually, settle, standing, until, watched
from tests.making import attributed, event

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    target = tmp_path_factory.mktemp("report") / "report.html"
    page = profile_page(attribute(solscope.open(DEMOS[0])), most_events=200_000)
    write_html([page], "report", target)
    return target.as_uri()


def opened(page: Page, where: str) -> None:
    page.goto(where)
    page.wait_for_selector(".timeline .lanes canvas")
    until(page, "document.querySelector('.timeline').timeline !== undefined")
    drawn(page)


CHOSEN = "document.querySelector('.timeline').timeline.narrowed.labels"
"""Which labels the time line follows; null for all."""


def test_a_kernel_of_the_table_is_followed_and_the_back_button_leaves_it(
    browser: Browser, report: str
) -> None:
    with watched(browser) as (page, problems):
        opened(page, report)
        page.locator("#kernels tbody tr").nth(1).locator("td").nth(2).click()
        page.wait_for_selector("#kernels tr.follow.on")
        expect(page).to_have_url(re.compile("kernel=multimem_all_reduce_kernel"))
        until(page, f"{CHOSEN}?.some((one) => one)")
        page.go_back()
        expect(page.locator("#kernels tr.follow.on")).to_have_count(0)
        until(page, f"{CHOSEN} === null")
        assert problems == []


def test_layers_in_a_strip_and_time_from_phase_to_kernel(browser: Browser, report: str) -> None:
    with watched(browser) as (page, problems):
        opened(page, report)
        cells = page.locator(".heat .cell")
        eventually(page, cells.count, lambda found: found > 0 and found % 36 == 0)
        cells.nth(7).click()
        expect(page).to_have_url(re.compile("layer=7"))
        chosen = page.locator(".heat rect[stroke-width='2']:not([stroke=none])")
        expect(chosen).to_have_count(1)
        page.get_by_role("button", name="Hide idle").click()
        page.locator(".icicle button[aria-label^='layer 3:']").click()
        crumbs = page.get_by_label("Shown part of the time")
        expect(crumbs).to_contain_text("layer 3")
        expect(page.locator(".icicle button[aria-label^='up_gate:']")).to_have_count(1)
        assert problems == []


def test_a_point_of_the_roofline_is_followed(browser: Browser, report: str) -> None:
    with watched(browser) as (page, problems):
        opened(page, report)
        chart = page.locator("#operators .chart")
        chart.locator("circle[data-tip^='aten::mm']").click()
        page.wait_for_selector("#operators tr.follow.on")
        expect(page).to_have_url(re.compile("operator=aten%3A%3Amm"))
        expect(page.locator("#operators tr.follow.on")).to_contain_text("aten::mm")
        until(page, f"{CHOSEN}?.some((one) => one)")
        page.locator("#operators tr.follow.on td").last.click()
        expect(page.locator("#operators tr.follow.on")).to_have_count(0)
        expect(page).not_to_have_url(re.compile("operator="))
        assert problems == []


def test_charts_explain_themselves_to_the_arrow_keys(browser: Browser, report: str) -> None:
    with watched(browser) as (page, problems):
        opened(page, report)
        page.locator("#operators .chart").focus()
        page.keyboard.press("ArrowRight")
        tip = page.get_by_role("status").filter(has_text="TFLOP/s")
        first = tip.inner_text()
        page.keyboard.press("ArrowRight")
        eventually(page, tip.inner_text, lambda text: text != first)
        page.keyboard.press("Enter")
        page.wait_for_selector("#operators tr.follow.on")
        assert problems == []


@pytest.mark.parametrize("place", ["#operators", "#timeline"])
def test_charts_can_be_taken_along(browser: Browser, report: str, place: str) -> None:
    with watched(browser) as (page, problems):
        opened(page, report)
        with page.expect_download() as download:
            page.locator(place).get_by_role("button", name="PNG").first.click(force=True)
        assert download.value.suggested_filename.endswith(".png")
        data = Path(download.value.path()).read_bytes()
        assert data.startswith(b"\x89PNG")
        assert len(data) > 5_000
        assert problems == []


def test_order_filter_and_place_are_in_the_address(browser: Browser, report: str) -> None:
    with watched(browser) as (page, problems):
        opened(page, report)
        kernels = page.locator("#kernels")
        kernels.get_by_role("button", name="Calls").click()
        expect(kernels.locator("th[aria-sort=descending]")).to_contain_text("Calls")
        kernels.get_by_role("searchbox").fill("kernel")
        expect(kernels.locator(".search")).to_contain_text(" of 32 rows")
        page.get_by_role("button", name="Hide idle").click()
        page.locator(".icicle button[aria-label^='layer 3:']").click()
        expect(page.get_by_label("Shown part of the time")).to_contain_text("layer 3")
        where = page.url
        rows = kernels.locator("tbody tr").all_inner_texts()
        page.go_back()
        expect(page.get_by_label("Shown part of the time")).not_to_contain_text("layer 3")
    with watched(browser) as (page, problems):
        opened(page, where)
        kernels = page.locator("#kernels")
        shown = kernels.locator("tbody tr")
        eventually(page, shown.all_inner_texts, lambda found: found == rows)
        expect(kernels.locator("th[aria-sort=descending]")).to_contain_text("Calls")
        expect(page.get_by_label("Shown part of the time")).to_contain_text("layer 3")
        kernels.get_by_role("button", name="Total").click()
        expect(page).not_to_have_url(re.compile(r"sort\."))
        kernels.get_by_role("searchbox").fill("")
        expect(page).not_to_have_url(re.compile(r"find\."))
        assert problems == []


def test_tables_can_be_taken_along(browser: Browser, report: str) -> None:
    with watched(browser) as (page, problems):
        opened(page, report)
        with page.expect_download() as download:
            page.get_by_role("button", name="Kernels as CSV").click()
        text = Path(download.value.path()).read_text(encoding="utf-8")
        rows = list(csv.reader(io.StringIO(text)))
        assert rows[0][:4] == ["Kernel", "Category", "Calls", "Total"]
        assert len(rows) == 33
        with page.expect_download() as download:
            page.get_by_role("button", name="Kernels as JSON").click()
        assert len(json.loads(Path(download.value.path()).read_text(encoding="utf-8"))) == 32
        assert problems == []


def test_keys_filter_and_go_from_row_to_row(browser: Browser, report: str) -> None:
    with watched(browser) as (page, problems):
        opened(page, report)
        # To the top, where no row of the table above is in sight: its last one has no next.
        page.locator("#kernels").evaluate("section => section.scrollIntoView()")
        page.locator("#kernels-title").click()
        page.keyboard.press("?")
        page.get_by_role("dialog").wait_for()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        page.keyboard.press("j")
        row = page.locator("main tbody tr:focus")
        first = row.inner_text()
        page.keyboard.press("j")
        eventually(page, row.inner_text, lambda text: text != first)
        page.keyboard.press("k")
        eventually(page, row.inner_text, lambda text: text == first)
        page.keyboard.press("/")
        expect(page.locator("input[type=search]:focus")).to_have_count(1)
        assert problems == []


def test_a_long_table_draws_what_is_in_sight_and_keeps_its_head(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = 20_000
    monkeypatch.setattr("solscope.pages.profile.MOST_KERNELS", many)
    made = attributed(
        *(event("kernel", f"kernel_{at}", 10 * at, at % 9973 + 1) for at in range(many))
    )
    target = tmp_path / "report.html"
    write_html([profile_page(made)], "report", target)
    with watched(browser) as (page, problems):
        page.goto(target.as_uri())
        page.get_by_role("button", name="Show all 20,000 rows").click()
        rows = page.locator("#kernels tbody tr:not(.room)")
        scroll = page.locator("#kernels .tall")
        eventually(page, rows.count, lambda found: 20 < found < 100)
        expect(page.locator("#kernels table")).to_have_attribute("aria-rowcount", str(many + 1))
        settle(page)  # Heights of rows are known after they were drawn.
        height = scroll.evaluate("element => element.scrollHeight")
        widths = heads_of(page)
        scroll.evaluate("element => element.scrollTo(0, element.scrollHeight)")
        page.wait_for_selector(f"#kernels tr[data-row='{many - 1}']")
        eventually(page, rows.count, lambda found: found < 100)
        assert heads_of(page) == widths
        assert abs(scroll.evaluate("element => element.scrollHeight") - height) < 0.05 * height
        head = standing(page, page.locator("#kernels thead th").first)
        assert abs(head["y"] - standing(page, scroll)["y"]) < 3
        # Another order begins at the top, and the address has it.
        page.locator("#kernels").get_by_role("button", name="Kernel", exact=True).click()
        for at in (0, 11):
            row = page.locator(f"#kernels tr[data-row='{at}'] td").first
            expect(row).to_have_text(f"kernel_{at}")
        assert problems == []


def heads_of(page: Page) -> list[int]:
    """Widths of the columns of the kernels."""
    found: list[int] = page.locator("#kernels thead th").evaluate_all(
        "heads => heads.map((one) => one.offsetWidth)"
    )
    return found


def test_keys_go_through_a_long_table_from_end_to_end(browser: Browser, tmp_path: Path) -> None:
    made = attributed(*(event("kernel", f"kernel_{at}", 10 * at, 9) for at in range(400)))
    target = tmp_path / "report.html"
    write_html([profile_page(made)], "report", target)
    with watched(browser) as (page, problems):
        page.goto(target.as_uri())
        page.get_by_role("button", name="Show all 400 rows").click()
        settle(page)
        page.locator("#kernels tr[data-row='0']").focus()
        for at in range(120):
            # Rows are drawn as one scrolls: on a busy machine later than keys can be pressed.
            page.wait_for_selector(f"#kernels tr[data-row='{at + 1}']", state="attached")
            page.keyboard.press("j")
        expect(page.locator("#kernels tr[data-row='120']")).to_be_focused()
        rows = page.locator("#kernels tbody tr:not(.room)")
        eventually(page, rows.count, lambda found: found < 100)
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile("kernel=kernel_"))
        assert problems == []


def test_the_head_of_a_short_table_stays_below_that_of_the_page(
    browser: Browser, report: str
) -> None:
    with watched(browser, height=500) as (page, problems):
        opened(page, report)
        row = page.locator("#kernels tbody tr").nth(20)
        row.evaluate("row => row.scrollIntoView({ behavior: 'instant' })")
        head = standing(page, page.locator("#kernels thead th").first)
        bar = standing(page, page.locator("body header"))
        assert abs(head["y"] - (bar["y"] + bar["height"])) < 4
        assert problems == []


def test_columns_are_chosen_and_stay_chosen(browser: Browser, report: str) -> None:
    with watched(browser) as (page, problems):
        opened(page, report)
        heads = page.locator("#kernels thead")
        expect(heads).to_contain_text("Median")
        page.locator("#kernels .columns-of summary").click()
        page.locator("#kernels .columns-of").get_by_label("Median").uncheck()
        expect(heads).not_to_contain_text("Median")
        page.locator("#kernels .columns-of").get_by_label("Category").uncheck()
        expect(page).to_have_url(re.compile("columns.kernels=name%2Ccalls%2Ctotal"))
        page.reload()
        expect(heads).to_contain_text("Mean")
        expect(heads).not_to_contain_text("Median")
        expect(heads).not_to_contain_text("Category")
        page.locator("#kernels .columns-of summary").click()
        page.get_by_role("button", name="As many as fit").click()
        expect(heads).to_contain_text("Median")
        page.go_back()
        expect(heads).not_to_contain_text("Median")
        assert problems == []


def test_the_back_button_works_after_a_reload(browser: Browser, report: str) -> None:
    with watched(browser) as (page, problems):
        opened(page, report)
        row = page.locator("#kernels tbody tr")
        for at in (0, 1):
            row.nth(at).locator("td").nth(2).click()
            page.wait_for_selector(f"#kernels tbody tr:nth-child({at + 1}).on")
        page.reload()
        page.wait_for_selector("#kernels tbody tr:nth-child(2).on")
        page.go_back()
        page.wait_for_selector("#kernels tbody tr:first-child.on")
        page.go_back()
        expect(page.locator("#kernels tbody tr.on")).to_have_count(0)
        expect(page).not_to_have_url(re.compile("kernel="))
        assert problems == []


def test_a_column_of_times_has_one_unit(browser: Browser, report: str) -> None:
    with watched(browser) as (page, problems):
        opened(page, report)
        found = page.evaluate(
            """[...document.querySelectorAll("main .table thead th:has(.unit)")].flatMap((head) => {
              const rows = head.closest("table").tBodies[0].querySelectorAll("tr[data-row]");
              return [...rows].map((row) => row.cells[head.cellIndex].textContent);
            })"""
        )
        assert len(found) > 100
        assert [text for text in found if re.search(r"[a-zµ]", text)] == []
        assert problems == []
