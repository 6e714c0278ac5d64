"""The time line, in a browser: drawn, moved, searched, and a range of it chosen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

import solscope
from solscope import attribute
from solscope.pages.profile import profile_page
from solscope.report.html import write_html
from tests.browser.conftest import (
    DEMOS,
    drawn,
    eventually,
    listening,
    serving,
    settle,
    standing,
    until,
    watched,
)

pytestmark = pytest.mark.browser

STATE = "document.querySelector('.timeline').timeline"
SEEN = f"[{STATE}.from, {STATE}.to]"
PAINTED = """
() => {
  const canvas = document.querySelector(".timeline .lanes canvas");
  const image = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(image.data.buffer)).size;
}
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    target = tmp_path_factory.mktemp("report") / "report.html"
    attributed = attribute(solscope.open(DEMOS[0]))
    write_html([profile_page(attributed, most_events=200_000)], "report", target)
    return target.as_uri()


@pytest.fixture(scope="module")
def coarse(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A report with room for few events."""
    target = tmp_path_factory.mktemp("coarse") / "report.html"
    attributed = attribute(solscope.open(DEMOS[0]))
    write_html([profile_page(attributed, most_events=6_000)], "report", target)
    return target.as_uri()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A dashboard that begins with few events, and has to ask for the others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("solscope.web.handlers.timelines.IN_ANSWER", 2_000)
        with serving(DEMOS) as address:
            yield address


def opened(page: Page, where: str) -> None:
    page.goto(where)
    page.wait_for_selector(".timeline .lanes canvas")
    until(page, f"{STATE}?.tiles.base != null")
    drawn(page)
    page.locator(".timeline").scroll_into_view_if_needed()
    standing(page, page.locator(".timeline"))


def is_painted(page: Page) -> None:
    eventually(page, lambda: page.evaluate(PAINTED), lambda colors: colors > 20)


def open_first(page: Page, address: str) -> None:
    page.goto(address)
    page.get_by_role("link", name="vllm-b200").click()
    page.wait_for_selector(".timeline .lanes canvas")
    until(page, f"{STATE}?.tiles.base != null")
    drawn(page)


@pytest.mark.parametrize("width", [1440, 1024, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_it_is_drawn_at_every_width(browser: Browser, report: str, width: int, dark: bool) -> None:
    with watched(browser, width=width, dark=dark) as (page, problems):
        opened(page, report)
        is_painted(page)
        until(page, f"document.documentElement.scrollWidth <= {width}")
        assert problems == []


def seen_when(page: Page, holds: Callable[[list[float]], bool]) -> list[float]:
    """The part in sight, as soon as that holds."""
    return eventually(page, lambda: page.evaluate(SEEN), holds)


def at_rest(page: Page) -> list[float]:
    """The part in sight, once it moves no more."""
    before: list[float] = []
    while (now := page.evaluate(SEEN)) != before:
        before = now
        settle(page)
    return before


def width_of(seen: list[float]) -> float:
    return seen[1] - seen[0]


def test_wheel_keys_and_drag_move_it(browser: Browser, report: str) -> None:
    with watched(browser) as (page, problems):
        opened(page, report)
        lanes = page.locator(".timeline .lanes canvas")
        whole = page.evaluate(SEEN)
        page.evaluate("scrollTo(0, 400)")
        lanes.hover(position={"x": 700, "y": 60})
        below = page.evaluate("scrollY")
        page.mouse.wheel(0, -300)
        until(page, f"scrollY < {below}")
        assert page.evaluate(SEEN) == whole, "the wheel scrolls the page until one has clicked"
        lanes.click(position={"x": 700, "y": 5})
        lanes.hover(position={"x": 700, "y": 60})
        page.mouse.wheel(0, -600)
        near = seen_when(page, lambda now: width_of(now) < 0.8 * width_of(whole))
        page.keyboard.down("d")
        seen_when(page, lambda now: now[0] > near[0])
        page.keyboard.up("d")
        moved = at_rest(page)
        page.keyboard.down("w")
        seen_when(page, lambda now: width_of(now) < width_of(moved))
        page.keyboard.up("w")
        closer = at_rest(page)
        box = standing(page, lanes)
        page.mouse.move(box["x"] + 500, box["y"] + 60)
        page.mouse.down()
        page.mouse.move(box["x"] + 700, box["y"] + 60, steps=4)
        page.mouse.up()
        seen_when(page, lambda now: now[0] < closer[0])
        page.keyboard.press("0")
        seen_when(page, lambda now: now == whole)
        assert problems == []


def choose_range(page: Page) -> None:
    """The middle tenth, along the ruler."""
    box = standing(page, page.locator(".timeline .head"))
    y = box["y"] + box["height"] - 6
    left = box["x"] + 150 + (box["width"] - 150) * 0.5
    page.mouse.move(left, y)
    page.mouse.down()
    page.mouse.move(left + (box["width"] - 150) * 0.1, y, steps=5)
    page.mouse.up()


def test_a_range_filters_the_tables_and_the_back_button_undoes_it(
    browser: Browser, report: str, address: str
) -> None:
    found = []
    for where in (report, address):
        with watched(browser) as (page, problems):
            if where == report:
                opened(page, report)
            else:
                open_first(page, address)
                page.locator(".timeline").scroll_into_view_if_needed()
            calls = page.locator("#kernels .about").inner_text()
            choose_range(page)
            page.wait_for_selector("#kernels h2:has-text('in range')")
            expect(page).to_have_url(re.compile("range="))
            page.get_by_role("button", name="Clear range").wait_for()
            found.append(page.locator("#kernels tbody").inner_text())
            page.go_back()
            page.wait_for_selector("#kernels h2:text-is('Kernels')")
            expect(page.locator("#kernels .about")).to_have_text(calls)
            assert problems == []
    assert found[0] == found[1], "a report adds up what the server says"


def test_a_link_shows_the_same_range_and_zoom(browser: Browser, report: str) -> None:
    with watched(browser) as (page, problems):
        opened(page, f"{report}?view=40000000-41000000&range=40200000-40400000")
        page.wait_for_selector("#kernels h2:has-text('in range')")
        seen_when(page, lambda now: now == [40_000_000, 41_000_000])
        expect(page.locator(".chosen")).to_have_text(re.compile(r"200(\.0)? µs"))
        assert problems == []


def test_a_search_goes_from_event_to_event(browser: Browser, report: str, address: str) -> None:
    places = []
    for where in (report, address):
        with watched(browser) as (page, problems):
            opened(page, report) if where == report else open_first(page, address)
            box = page.get_by_label("Search the time line")
            box.fill("multimem_all_reduce_kernel")
            page.get_by_text("1 name", exact=True).wait_for()
            seen: list[float] = []
            for _ in range(3):
                box.press("Enter")
                until(page, f"{STATE}.chosen?.start > {seen[-1] if seen else -1}")
                seen.append(page.evaluate(f"{STATE}.chosen.start"))
            box.press("Shift+Enter")
            until(page, f"{STATE}.chosen?.start === {seen[1]}")
            expect(page.locator(".timeline .chosen")).to_have_text(
                re.compile("^multimem_all_reduce")
            )
            places.append(seen)
            box.fill("no such kernel")
            page.get_by_text("nothing found").wait_for()
            assert problems == []
    assert places[0] == places[1]


def test_the_dashboard_asks_for_single_events_when_one_looks_closer(
    browser: Browser, address: str
) -> None:
    asked: list[str] = []
    with (
        watched(browser) as (page, problems),
        listening(page, request=lambda request: asked.append(request.url)),
    ):
        open_first(page, address)
        assert not page.evaluate(f"{STATE}.timeline.complete")
        page.evaluate(f"{STATE}.show(40e6, 41e6)")
        until(page, f"{STATE}.tiles.fine(0, 40e6, 41e6)")
        assert any("/events?" in url and "level=0" in url for url in asked)
        is_painted(page)
        assert problems == []


def test_a_report_says_that_it_holds_a_part(browser: Browser, coarse: str) -> None:
    with watched(browser) as (page, problems):
        opened(page, coarse)
        about = page.locator("#timeline .about").first
        expect(about).to_contain_text("This file holds")
        expect(about).to_contain_text("23,945 events")
        assert problems == []


def test_names_are_text_and_never_markup(browser: Browser, tmp_path: Path) -> None:
    from tests.making import attributed, event

    name = "<img src=x onerror=alert(1)>"
    made = attributed(*(event("kernel", name, 100 * at, 90) for at in range(20)))
    target = tmp_path / "report.html"
    write_html([profile_page(made, most_events=1_000)], "report", target)
    with watched(browser) as (page, problems):
        opened(page, target.as_uri())
        lanes = page.locator(".timeline .lanes canvas")
        row = page.evaluate(f"{STATE}.rows.find((row) => row.title.includes('stream')).y")
        lanes.click(position={"x": 700, "y": row + 5})
        expect(page.locator(".timeline p.chosen")).to_contain_text(name)
        expect(page.locator(".timeline img")).to_have_count(0)
        assert problems == []
