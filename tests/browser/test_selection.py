"""What is chosen in one view is followed by the others."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

import solscope
from solscope import attribute
from solscope.pages.profile import profile_page
from solscope.report.html import write_html
from tests.browser.conftest import DEMOS, watched
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


def test_a_kernel_of_the_table_is_followed_and_the_back_button_leaves_it(
    browser: Browser, report: str
) -> None:
    with watched(browser) as (page, problems):
        opened(page, report)
        page.locator("#kernels tbody tr").nth(1).locator("td").nth(2).click()
        page.wait_for_selector("#kernels tr.follow.on")
        assert "kernel=multimem_all_reduce_kernel" in page.url
        wanted = "document.querySelector('.timeline').timeline.narrowed.labels"
        assert page.evaluate(f"{wanted}.reduce((sum, one) => sum + one, 0)") >= 1
        page.go_back()
        page.wait_for_selector("#kernels tr.follow.on", state="detached")
        page.wait_for_timeout(100)
        assert page.evaluate(f"{wanted}") is None
        assert problems == []


def test_layers_in_a_strip_and_time_from_phase_to_kernel(browser: Browser, report: str) -> None:
    with watched(browser) as (page, problems):
        opened(page, report)
        cells = page.locator(".heat .cell")
        assert cells.count() % 36 == 0
        cells.nth(7).click()
        assert "layer=7" in page.url
        assert page.locator(".heat rect[stroke-width='2']:not([stroke=none])").count() == 1
        page.get_by_role("button", name="Hide idle").click()
        page.locator(".icicle button[aria-label^='layer 3:']").click()
        crumbs = page.get_by_label("Shown part of the time")
        assert "layer 3" in crumbs.inner_text()
        assert page.locator(".icicle button[aria-label^='up_gate:']").count() == 1
        assert problems == []


def test_a_point_of_the_roofline_is_followed(browser: Browser, report: str) -> None:
    with watched(browser) as (page, problems):
        opened(page, report)
        chart = page.locator("#operators .chart")
        chart.locator("circle[data-tip^='aten::mm']").click()
        page.wait_for_selector("#operators tr.follow.on")
        assert "operator=aten%3A%3Amm" in page.url
        assert "aten::mm" in page.locator("#operators tr.follow.on").inner_text()
        wanted = "document.querySelector('.timeline').timeline.narrowed.labels"
        assert page.evaluate(f"{wanted}.reduce((sum, one) => sum + one, 0)") >= 1
        page.locator("#operators tr.follow.on td").last.click()
        page.wait_for_selector("#operators tr.follow.on", state="detached")
        assert "operator=" not in page.url
        assert problems == []


def test_charts_explain_themselves_to_the_arrow_keys(browser: Browser, report: str) -> None:
    with watched(browser) as (page, problems):
        opened(page, report)
        page.locator("#operators .chart").focus()
        page.keyboard.press("ArrowRight")
        told = page.get_by_role("status").filter(has_text="TFLOP/s").inner_text()
        page.keyboard.press("ArrowRight")
        assert page.get_by_role("status").filter(has_text="TFLOP/s").inner_text() != told
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
        kernels.get_by_role("searchbox").fill("kernel")
        page.get_by_role("button", name="Hide idle").click()
        page.locator(".icicle button[aria-label^='layer 3:']").click()
        where = page.url
        rows = kernels.locator("tbody tr").all_inner_texts()
        page.go_back()
        page.wait_for_selector(".crumbs >> text=layer 3", state="detached")
    with watched(browser) as (page, problems):
        opened(page, where)
        assert page.locator("#kernels tbody tr").all_inner_texts() == rows
        assert page.locator("#kernels th[aria-sort=descending]").inner_text().startswith("Calls")
        assert "layer 3" in page.get_by_label("Shown part of the time").inner_text()
        page.locator("#kernels").get_by_role("button", name="Total").click()
        page.locator("#kernels").get_by_role("searchbox").fill("")
        assert "sort." not in page.url
        assert "find." not in page.url
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
        page.locator("#kernels").scroll_into_view_if_needed()
        page.locator("#kernels-title").click()
        page.keyboard.press("?")
        page.get_by_role("dialog").wait_for()
        page.keyboard.press("Escape")
        page.keyboard.press("j")
        first = page.evaluate("document.activeElement.textContent")
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.textContent") != first
        page.keyboard.press("k")
        assert page.evaluate("document.activeElement.textContent") == first
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.type") == "search"
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
        assert 20 < rows.count() < 100
        assert page.locator("#kernels table").get_attribute("aria-rowcount") == str(many + 1)
        height = scroll.evaluate("element => element.scrollHeight")
        widths = heads_of(page)
        scroll.evaluate("element => element.scrollTo(0, element.scrollHeight)")
        page.wait_for_selector(f"#kernels tr[data-row='{many - 1}']")
        assert rows.count() < 100
        assert heads_of(page) == widths
        assert abs(scroll.evaluate("element => element.scrollHeight") - height) < 0.05 * height
        head = page.locator("#kernels thead th").first.bounding_box()
        place = scroll.bounding_box()
        assert head is not None
        assert place is not None
        assert abs(head["y"] - place["y"]) < 3
        # Another order begins at the top, and the address has it.
        page.locator("#kernels").get_by_role("button", name="Kernel", exact=True).click()
        page.wait_for_selector("#kernels tr[data-row='0']")
        assert page.locator("#kernels tr[data-row='0']").inner_text().startswith("kernel_0")
        assert page.locator("#kernels tr[data-row='11']").inner_text().startswith("kernel_11")
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
        page.locator("#kernels tr[data-row='0']").focus()
        for at in range(120):
            # Rows are drawn as one scrolls: on a busy machine later than keys can be pressed.
            page.wait_for_selector(f"#kernels tr[data-row='{at + 1}']", state="attached")
            page.keyboard.press("j")
        assert page.evaluate("document.activeElement.dataset.row") == "120"
        assert page.locator("#kernels tbody tr:not(.room)").count() < 100
        page.keyboard.press("Enter")
        assert "kernel=kernel_" in page.url
        assert problems == []


def test_the_head_of_a_short_table_stays_below_that_of_the_page(
    browser: Browser, report: str
) -> None:
    with watched(browser, height=500) as (page, problems):
        opened(page, report)
        row = page.locator("#kernels tbody tr").nth(20)
        row.evaluate("row => row.scrollIntoView({ behavior: 'instant' })")
        head = page.locator("#kernels thead th").first.bounding_box()
        bar = page.locator("body header").bounding_box()
        assert head is not None
        assert bar is not None
        assert abs(head["y"] - (bar["y"] + bar["height"])) < 4
        assert problems == []


def test_columns_are_chosen_and_stay_chosen(browser: Browser, report: str) -> None:
    with watched(browser) as (page, problems):
        opened(page, report)
        heads = page.locator("#kernels thead th")
        assert "Median" in " ".join(heads.all_inner_texts())
        page.locator("#kernels .columns-of summary").click()
        page.locator("#kernels .columns-of").get_by_label("Median").uncheck()
        page.locator("#kernels .columns-of").get_by_label("Category").uncheck()
        assert "columns.kernels=name%2Ccalls%2Ctotal" in page.url
        page.reload()
        page.wait_for_selector("#kernels tbody tr")
        found = " ".join(heads.all_inner_texts())
        assert "Median" not in found
        assert "Category" not in found
        assert "Mean" in found
        page.locator("#kernels .columns-of summary").click()
        page.get_by_role("button", name="As many as fit").click()
        assert "Median" in " ".join(heads.all_inner_texts())
        page.go_back()
        assert "Median" not in " ".join(heads.all_inner_texts())
        assert problems == []


def test_the_back_button_works_after_a_reload(browser: Browser, report: str) -> None:
    with watched(browser) as (page, problems):
        opened(page, report)
        row = page.locator("#kernels tbody tr")
        for at in (0, 1):
            row.nth(at).locator("td").nth(2).click()
        page.reload()
        page.wait_for_selector("#kernels tbody tr.on")
        assert "on" in (row.nth(1).get_attribute("class") or "").split()
        page.go_back()
        page.wait_for_selector("#kernels tbody tr:first-child.on")
        page.go_back()
        page.wait_for_selector("#kernels tbody tr.on", state="detached")
        assert "kernel=" not in page.url
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
