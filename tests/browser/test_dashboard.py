"""The dashboard, in a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.conftest import serving, watched

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    sources = ["demo:vllm-b200", "demo:vllm-mi300x-graph", "tests/data/bench_results.jsonl"]
    with serving(sources) as address:
        yield address


def test_from_the_list_to_a_profile_and_back(browser: Browser, address: str) -> None:
    with watched(browser) as (page, problems):
        page.goto(address)
        page.get_by_role("link", name="vllm-b200").click()
        page.wait_for_selector("#kernels")
        assert "/profile/" in page.url
        page.get_by_label("Bounds of").select_option("H200")
        page.wait_for_selector("text=NVIDIA H200")
        page.go_back()
        page.go_back()
        page.wait_for_selector("#profiles")
        assert problems == []


def test_two_profiles_are_compared_at_an_address_of_their_own(
    browser: Browser, address: str
) -> None:
    with watched(browser) as (page, problems):
        page.goto(f"{address}/compare")
        page.get_by_label("From").select_option(index=1)
        page.get_by_label("To").select_option(index=2)
        page.wait_for_selector("#sides")
        deep = page.url
        assert problems == []
    with watched(browser) as (page, problems):
        page.goto(deep)
        page.wait_for_selector("#sides")
        assert page.locator("#sides tbody tr").count() == 2
        assert problems == []


def test_the_suite_opens_its_shapes(browser: Browser, address: str) -> None:
    with watched(browser) as (page, problems):
        page.goto(f"{address}/suite")
        rows = page.locator("#suite > .table > .scroll > table > tbody > tr")
        page.wait_for_selector("#suite tbody tr")
        assert rows.count() == 30
        assert "unified_attention" in rows.first.inner_text()
        rows.first.get_by_role("button", name="Open").click()
        page.wait_for_selector("tr.detail tbody tr")
        assert page.locator("tr.detail tbody tr").count() == 25
        assert "7.3 %" in page.locator("tr.detail tbody tr").first.inner_text()
        page.get_by_label("B200", exact=True).check()
        page.wait_for_selector("th:has-text('T_SOL B200')")
        assert problems == []


def test_the_benchmark_ranks_solutions_and_sets_two_against_each_other(
    browser: Browser, address: str
) -> None:
    with watched(browser) as (page, problems):
        page.goto(f"{address}/bench")
        page.wait_for_selector("#leaderboard tbody tr")
        assert page.locator("#leaderboard tbody tr").count() == 3
        page.locator("#operators").get_by_role("button", name="Open").first.click()
        page.wait_for_selector("tr.detail tbody tr")
        page.locator("tr.detail").get_by_role("button", name="Open").first.click()
        page.wait_for_selector("tr.detail .chart svg")
        page.locator("#diff select").nth(0).select_option("torch-eager")
        page.locator("#diff select").nth(1).select_option("torch-compile")
        page.wait_for_selector("#diff table")
        assert "torch-compile is" in page.locator("#diff").inner_text()
        assert problems == []
