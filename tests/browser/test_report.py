"""Reports from disk, in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

import solscope
from solscope import attribute
from solscope.attribution import Attributed
from solscope.pages.comparison import comparison_page
from solscope.pages.diagnosis import diagnosis_page
from solscope.pages.profile import profile_page
from solscope.pages.ranks import ranks_pages
from solscope.report.html import write_html
from tests.browser.conftest import (
    DEMOS,
    Problems,
    drawn,
    eventually,
    standing,
    treemap,
    until,
    watched,
)
from tests.making import attributed, event, profile

pytestmark = pytest.mark.browser
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    profiles = [attribute(solscope.open(name)) for name in DEMOS]
    target = tmp_path_factory.mktemp("report") / "report.html"
    pages = [comparison_page(profiles, ["b200", "mi300x"]), *map(profile_page, profiles)]
    write_html(pages, "demos", target)
    return target


@pytest.fixture(params=[(1440, False), (1024, True), (390, False)], ids=["wide", "dark", "phone"])
def opened(
    request: pytest.FixtureRequest, browser: Browser, report: Path
) -> Iterator[tuple[Page, Problems]]:
    width, dark = request.param
    with watched(browser, width=width, dark=dark) as (page, problems):
        page.goto(f"file://{report}?page=2")
        drawn(page)
        treemap(page)
        yield page, problems


def test_the_page_draws_itself_without_errors(opened: tuple[Page, Problems]) -> None:
    page, problems = opened
    titles = page.locator("main h2").all_inner_texts()
    assert titles[:3] == ["Verdict", "The whole recording", "How much of the hardware is used"]
    assert titles[3:5] == ["Steps", "Where the time goes"]
    eventually(page, page.locator(".chart svg [data-tip]").count, lambda marks: marks > 50)
    until(page, "document.documentElement.scrollWidth === document.documentElement.clientWidth")
    assert problems == []


def test_kernels_sort_and_filter(browser: Browser, report: Path) -> None:
    with watched(browser) as (page, problems):
        page.goto(f"file://{report}?page=2")
        kernels = page.locator("#kernels")
        first = kernels.locator("tbody tr").first
        expect(first).to_contain_text("bmm_MxE4m3")
        kernels.get_by_role("button", name="Calls").click()
        expect(kernels.locator("th[aria-sort=descending]")).to_contain_text("Calls")
        expect(first).to_contain_text("146")
        kernels.get_by_role("searchbox").fill("all_reduce")
        expect(kernels.locator("tbody tr")).to_have_count(1)
        expect(kernels).to_contain_text("1 of")
        kernels.locator("details summary").first.click()
        expect(kernels.locator("code").first).to_be_visible()
        expect(kernels.locator("code").first).to_contain_text("c10::BFloat16")
        assert problems == []


def test_numbers_say_which_steps_they_are_about(browser: Browser, tmp_path: Path) -> None:
    runs = [attribute(solscope.open(name)) for name in ("demo:h200-normal", "demo:h200-slow")]
    pages = [profile_page(runs[0]), comparison_page(runs, ["normal", "slow"])]
    write_html(pages, "steps", tmp_path / "steps.html")
    left_out = "(left out: the last, which no step follows)"
    with watched(browser) as (page, problems):
        page.goto(f"file://{tmp_path}/steps.html")
        for part in ("#steps", "#hotspots", "#efficiency"):
            expect(page.locator(f"{part} .about").first).to_contain_text(left_out)
        page.locator("nav.pages button").nth(1).click()
        expect(page.locator("section[id^=phase-] .about").first).to_contain_text(left_out)
        assert problems == []


def test_pages_of_a_report_switch(browser: Browser, report: Path) -> None:
    with watched(browser) as (page, problems):
        page.goto(f"file://{report}")
        page.wait_for_selector("table.layers")
        expect(page.locator("nav.pages button")).to_have_count(3)
        page.locator("nav.pages button").nth(2).click()
        expect(page.locator("h1")).to_have_text("demo:vllm-mi300x-graph")
        page.get_by_role("button", name="Treemap").click()
        page.get_by_label("Colors").select_option("dark")
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        assert problems == []


def test_pages_switch_in_a_frame_without_history(browser: Browser, report: Path) -> None:
    with watched(browser) as (page, problems):
        page.goto("about:blank")
        page.evaluate(
            "text => { const frame = document.createElement('iframe');"
            "frame.sandbox = 'allow-scripts'; frame.width = 1200; frame.height = 800;"
            "frame.srcdoc = text; document.body.append(frame); }",
            report.read_text(encoding="utf-8"),
        )
        frame = page.frame_locator("iframe")
        frame.locator("nav.pages button").nth(2).click()
        expect(frame.locator("h1")).to_have_text("demo:vllm-mi300x-graph")
        assert problems == []


def test_hostile_names_do_not_run(browser: Browser, tmp_path: Path) -> None:
    made = attributed(event("kernel", HOSTILE, 0, 10), event("kernel", "b", 20, 10))
    write_html([profile_page(made)], HOSTILE, tmp_path / "hostile.html")
    with watched(browser) as (page, problems):
        page.goto(f"file://{tmp_path}/hostile.html")
        page.wait_for_selector("#kernels")
        drawn(page)
        page.hover("#tree .icicle")
        treemap(page)
        page.hover("#tree .areas .chart")
        expect(page.locator(".tip.over")).to_be_visible()
        expect(page.locator("#kernels").get_by_text("alert(1)").first).to_be_attached()
        expect(page.locator("img")).to_have_count(0)
        assert problems == []


def test_everything_can_be_reached_by_keyboard(browser: Browser, report: Path) -> None:
    with watched(browser) as (page, _):
        page.goto(f"file://{report}?page=2")
        page.wait_for_selector("#kernels")
        drawn(page)
        page.keyboard.press("Tab")
        expect(page.locator("a.skip")).to_be_focused()
        unnamed = page.evaluate(
            "[...document.querySelectorAll('button,input,select,a')]"
            ".filter(e => !(e.textContent || e.ariaLabel || e.labels?.length)).length"
        )
        assert unnamed == 0


def test_a_diagnosis_shows_its_verdict_and_adds_up(browser: Browser, tmp_path: Path) -> None:
    folder = Path(__file__).parents[3] / "shared" / "data" / "h200" / "runs"
    if not folder.is_dir():
        pytest.skip("../shared/data is not here")
    names = ["normal", "cpu_contention"]
    runs = [attribute(solscope.open(folder / f"{name}.trace.json.gz")) for name in names]
    write_html([diagnosis_page(runs, names)], "why", tmp_path / "why.html")
    with watched(browser) as (page, problems):
        page.goto(f"file://{tmp_path}/why.html")
        page.wait_for_selector("#causes article")
        drawn(page)
        expect(page.locator("#verdict h2")).to_contain_text("regression", ignore_case=True)
        expect(page.locator("#causes article").first).to_contain_text("cpu_contention")
        # The figures are those of the sentence.
        said = page.locator("#verdict .sentence").inner_text()
        for figure in page.locator("#verdict .figures dd:not(.scope)").all_inner_texts()[:2]:
            assert figure.removesuffix(" ms") in said
        expect(page.locator("#waterfall .chart svg")).to_have_count(1)
        eventually(page, page.locator(".sensor").count, lambda sensors: sensors > 3)
        expect(page.locator("#causes code", has_text="pidstat -u 1")).to_have_count(1)
        expect(page.locator("main")).not_to_contain_text("-0.0 %")
        assert problems == []


ARROWS = (
    "[...document.querySelectorAll('#tree .areas text')]"
    ".filter(e => /▶/.test(e.textContent)).length"
)
"""Areas of the tree that have more below them."""


def test_a_tree_drawn_for_another_width_leaves_nothing_behind(
    browser: Browser, report: Path
) -> None:
    with watched(browser) as (page, problems):
        page.goto(f"file://{report}?page=2")
        treemap(page)
        for width, folded in ((1440, False), (390, True), (900, False)):
            page.set_viewport_size({"width": width, "height": 900})
            until(page, f"{ARROWS} {'> 0' if folded else '=== 0'}")
        assert problems == []


def test_several_devices_are_listed(browser: Browser, tmp_path: Path) -> None:
    kernels = [event("kernel", "k", 10 * at, 5, device=at % 2) for at in range(8)]
    write_html([profile_page(attributed(*kernels))], "two", tmp_path / "two.html")
    with watched(browser) as (page, problems):
        page.goto(f"file://{tmp_path}/two.html")
        summary = page.locator("#summary")
        expect(summary).to_contain_text("summed over 2 GPUs")
        devices = summary.get_by_role("region", name="Devices")
        expect(devices.locator("tbody tr")).to_have_count(2)
        assert problems == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_paper_is_white(browser: Browser, report: Path, dark: bool) -> None:
    with watched(browser, dark=dark) as (page, problems):
        page.goto(f"file://{report}?page=2")
        page.wait_for_selector("#tree .chart svg")
        page.emulate_media(media="print", color_scheme="dark" if dark else "light")
        expect(page.locator("h1")).to_have_css("color", "rgb(29, 33, 41)")
        expect(page.locator("header")).to_be_hidden()
        assert problems == []


def test_pages_of_a_report_are_in_the_address_and_in_the_history(
    browser: Browser, report: Path
) -> None:
    with watched(browser) as (page, problems):
        page.goto(f"file://{report}")
        page.wait_for_selector("#sides")
        expect(page.locator("nav.pages button").first).to_have_text("Comparison")
        page.locator("nav.pages button").nth(2).click()
        page.wait_for_selector("#kernels")
        expect(page).to_have_url(re.compile(r"\?page=3$"))
        page.go_back()
        page.wait_for_selector("#sides")
        page.goto(f"file://{report}?page=3#kernels")
        until(page, "document.querySelector('#kernels')?.getBoundingClientRect().top < 200")
        assert problems == []


def test_ranks_of_one_run_have_a_page(browser: Browser, tmp_path: Path) -> None:
    ranks = [ranked(tmp_path, rank, wait) for rank, wait in ((0, 30), (1, 10), (3, 25))]
    pages = ranks_pages([*ranks, attributed(event("kernel", "gemm", 0, 10))])
    assert len(pages) == 1
    write_html(pages, "ranks", tmp_path / "ranks.html")
    with watched(browser) as (page, problems):
        page.goto(f"file://{tmp_path}/ranks.html")
        part = page.locator("#ranks")
        expect(page.locator("body")).to_contain_text("Cannot tell who waits for whom")
        expect(part).to_contain_text("No file for rank 2")
        listed = part.get_by_role("region", name="Ranks", exact=True)
        expect(listed.locator("tbody tr")).to_have_count(3)
        expect(part.locator("thead th").last).to_have_text(re.compile(r"^Waiting\s+µs$"))
        first = part.locator("tbody").last.locator("tr").first
        expect(first.locator("td").last).to_have_text("20.00")
        until(page, "document.querySelector('#time .stack')?.style.width === '100%'")
        assert problems == []


def test_ranks_stand_on_one_time_line(browser: Browser, tmp_path: Path) -> None:
    demo = [attribute(solscope.open(path)) for path in solscope.find_profiles(["demo:ranks"])]
    write_html(ranks_pages(demo), "ranks", tmp_path / "ranks.html")
    with watched(browser) as (page, problems):
        page.goto(f"file://{tmp_path}/ranks.html")
        drawn(page)
        chart = page.locator("#timeline .chart")
        expect(page.locator("#verdict")).to_contain_text("wait for rank 2")
        expect(chart.get_by_text("rank 2")).to_have_count(1)
        waiting = chart.locator("[data-tip*='for the last rank']")
        before = eventually(page, waiting.count, lambda marks: marks > 50)
        box = standing(page, chart)
        page.mouse.move(box["x"] + 300, box["y"] + 60)
        page.mouse.down()
        page.mouse.move(box["x"] + 400, box["y"] + 60, steps=3)
        page.mouse.up()
        page.get_by_role("button", name="Show all").wait_for()
        eventually(page, waiting.count, lambda marks: 0 < marks < before)
        expect(page).to_have_url(re.compile("ranks="))
        assert problems == []


def ranked(folder: Path, rank: int, wait_us: int) -> Attributed:
    """A rank that computes for 100 µs and then is in a collective for `wait_us`."""
    made = profile(
        event("kernel", "gemm", 0, 100_000),
        event("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 100_000, 1000 * wait_us),
        rank=rank,
        world_size=4,
    )
    return attribute(replace(made, path=str(folder / f"rank{rank}.json")))


def test_areas_are_entered_and_left_again(browser: Browser, report: Path) -> None:
    with watched(browser) as (page, problems):
        page.goto(f"file://{report}?page=2")
        treemap(page)
        labels = "[...document.querySelectorAll('#tree .areas text')].map(e => e.textContent)"
        before = eventually(
            page, lambda: page.evaluate(labels), lambda found: "all_reduce  22.8 %" in found
        )
        page.locator("#tree .areas .chart").click(
            position={"x": 60, "y": 200}
        )  # A kernel of up_gate.
        crumbs = page.locator("#tree .crumbs button")
        page.wait_for_selector("#tree .crumbs >> text=up_gate")
        expect(crumbs).to_have_text(
            [re.compile("^GPU"), re.compile("^prefill"), re.compile("^up_gate")]
        )
        eventually(
            page,
            lambda: page.evaluate(labels),
            lambda inside: (
                0 < len(inside) < len(before) and not any("all_reduce" in one for one in inside)
            ),
        )
        crumbs.first.focus()
        page.keyboard.press("Enter")
        eventually(page, lambda: page.evaluate(labels), lambda found: found == before)
        assert problems == []
