"""What is chosen in one view is followed by the others."""

from __future__ import annotations

import csv
import io
import json
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


def test_a_long_table_grows_and_keeps_its_head(browser: Browser, tmp_path: Path) -> None:
    made = attributed(*(event("kernel", f"kernel_{at}", 10 * at, at % 97 + 1) for at in range(900)))
    target = tmp_path / "report.html"
    write_html([profile_page(made)], "report", target)
    with watched(browser) as (page, problems):
        page.goto(target.as_uri())
        page.get_by_role("button", name="Show all 900 rows").click()
        rows = page.locator("#kernels tbody tr")
        assert rows.count() == 150
        scroll = page.locator("#kernels .tall")
        scroll.evaluate("element => element.scrollTo(0, element.scrollHeight)")
        page.wait_for_timeout(200)
        assert rows.count() == 300
        head = page.locator("#kernels thead th").first.bounding_box()
        place = scroll.bounding_box()
        assert head is not None
        assert place is not None
        assert abs(head["y"] - place["y"]) < 3
        assert problems == []
