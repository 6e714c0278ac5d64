"""The time line, in a browser: drawn, moved, searched, and a range of it chosen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

import solscope
from solscope import attribute
from solscope.pages.profile import profile_page
from solscope.report.html import write_html
from tests.browser.conftest import DEMOS, serving, watched

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


def until(page: Page, condition: str) -> None:
    """Wait for a condition. `wait_for_function` would need what the content policy forbids."""
    for _ in range(200):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never true: {condition}")


def opened(page: Page, where: str) -> None:
    page.goto(where)
    page.wait_for_selector(".timeline .lanes canvas")
    until(page, f"{STATE}.tiles.base !== null")
    page.locator(".timeline").scroll_into_view_if_needed()
    page.wait_for_timeout(100)


def open_first(page: Page, address: str) -> None:
    page.goto(address)
    page.get_by_role("link", name="vllm-b200").click()
    page.wait_for_selector(".timeline .lanes canvas")
    until(page, f"{STATE}.tiles.base !== null")


@pytest.mark.parametrize("width", [1440, 1024, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_it_is_drawn_at_every_width(browser: Browser, report: str, width: int, dark: bool) -> None:
    with watched(browser, width=width, dark=dark) as (page, problems):
        opened(page, report)
        assert page.evaluate(PAINTED) > 20
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert problems == []


def test_wheel_keys_and_drag_move_it(browser: Browser, report: str) -> None:
    with watched(browser) as (page, problems):
        opened(page, report)
        lanes = page.locator(".timeline .lanes canvas")
        whole = page.evaluate(SEEN)
        lanes.hover(position={"x": 700, "y": 60})
        page.mouse.wheel(0, -300)
        page.wait_for_timeout(200)
        assert page.evaluate(SEEN) == whole, "the wheel scrolls the page until one has clicked"
        lanes.click(position={"x": 700, "y": 5})
        lanes.hover(position={"x": 700, "y": 60})
        page.mouse.wheel(0, -600)
        page.wait_for_timeout(100)
        near = page.evaluate(SEEN)
        assert near[1] - near[0] < 0.8 * (whole[1] - whole[0])
        page.keyboard.down("d")
        page.wait_for_timeout(250)
        page.keyboard.up("d")
        moved = page.evaluate(SEEN)
        assert moved[0] > near[0]
        page.keyboard.down("w")
        page.wait_for_timeout(250)
        page.keyboard.up("w")
        closer = page.evaluate(SEEN)
        assert closer[1] - closer[0] < moved[1] - moved[0]
        box = lanes.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 500, box["y"] + 60)
        page.mouse.down()
        page.mouse.move(box["x"] + 700, box["y"] + 60, steps=4)
        page.mouse.up()
        assert page.evaluate(SEEN)[0] < closer[0]
        page.keyboard.press("0")
        page.wait_for_timeout(50)
        assert page.evaluate(SEEN) == whole
        assert problems == []


def choose_range(page: Page) -> None:
    """The middle tenth, along the ruler."""
    box = page.locator(".timeline .head").bounding_box()
    assert box is not None
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
            assert "range=" in page.url
            page.get_by_role("button", name="Clear range").wait_for()
            found.append(page.locator("#kernels tbody").inner_text())
            page.go_back()
            page.wait_for_selector("#kernels h2:text-is('Kernels')")
            assert page.locator("#kernels .about").inner_text() == calls
            assert problems == []
    assert found[0] == found[1], "a report adds up what the server says"


def test_a_link_shows_the_same_range_and_zoom(browser: Browser, report: str) -> None:
    with watched(browser) as (page, problems):
        opened(page, f"{report}?view=40000000-41000000&range=40200000-40400000")
        page.wait_for_selector("#kernels h2:has-text('in range')")
        assert page.evaluate(SEEN) == [40_000_000, 41_000_000]
        assert (
            "200.0 µs" in page.locator(".chosen").inner_text()
            or "200 µs" in page.locator(".chosen").inner_text()
        )
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
            assert page.locator(".timeline .chosen").inner_text().startswith("multimem_all_reduce")
            places.append(seen)
            box.fill("no such kernel")
            page.get_by_text("nothing found").wait_for()
            assert problems == []
    assert places[0] == places[1]


def test_the_dashboard_asks_for_single_events_when_one_looks_closer(
    browser: Browser, address: str
) -> None:
    with watched(browser) as (page, problems):
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        open_first(page, address)
        assert not page.evaluate(f"{STATE}.timeline.complete")
        page.evaluate(f"{STATE}.show(40e6, 41e6)")
        until(page, f"{STATE}.tiles.fine(0, 40e6, 41e6)")
        page.wait_for_timeout(100)
        assert any("/events?" in url and "level=0" in url for url in asked)
        assert page.evaluate(PAINTED) > 20
        assert problems == []


def test_a_report_says_that_it_holds_a_part(browser: Browser, coarse: str) -> None:
    with watched(browser) as (page, problems):
        opened(page, coarse)
        text = page.locator("#timeline .about").first.inner_text()
        assert "This file holds" in text
        assert "23,945 events" in text
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
        page.locator(".timeline p.chosen").wait_for()
        assert name in page.locator(".timeline p.chosen").inner_text()
        assert page.locator(".timeline img").count() == 0
        assert problems == []
