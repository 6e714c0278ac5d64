"""Make the pictures in README and docs from real profiles and results: `make screenshots`.

Each picture is a view of a report or of the dashboard, at a fixed size, in light or dark.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

import solscope
from solscope.pages.comparison import comparison_page
from solscope.pages.profile import profile_page
from solscope.pages.ranks import ranks_pages
from solscope.report.html import write_html
from tests.browser.conftest import CHROMIUM, FLAGS, serving

OUT = Path(__file__).parent.parent / "docs" / "images"
RESULTS = "results/bench/h200.jsonl"
DEMOS = ["demo:vllm-b200", "demo:vllm-mi300x-graph"]
RANKS = "demo:ranks"


def main() -> None:
    """Write all pictures."""
    if CHROMIUM is None:
        sys.exit("screenshots need Chromium: scripts/install-chromium")
    OUT.mkdir(parents=True, exist_ok=True)
    profiles = [solscope.attribute(solscope.open(name)) for name in DEMOS]
    ranks = [solscope.attribute(solscope.open(path)) for path in solscope.find_profiles([RANKS])]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        report = Path(folder) / "report.html"
        pages = [
            profile_page(profiles[0], most_events=200_000, whole=True),
            comparison_page(profiles, ["b200", "mi300x"]),
            *ranks_pages(ranks),
        ]
        write_html(pages, "demos", report)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        first = f"file://{report}"
        shoot(browser, first, "report", 1280, 900)
        shoot(browser, first, "report-dark", 1280, 640, dark=True, at="#timeline")
        shoot(browser, first, "report-phone", 390, 800)
        shoot(browser, f"{first}?page=2", "comparison", 1280, 700, at="#layers")
        shoot(browser, f"{first}?page=3", "ranks", 1280, 860)
        with serving([*DEMOS, RESULTS]) as address:
            shoot(browser, f"{address}/suite", "suite", 1440, 720)
            shoot(browser, f"{address}/suite", "suite-roofline", 1280, 700, at="#roofline")
            shoot(browser, f"{address}/bench", "bench", 1280, 880, at="#solutions")
        browser.close()


def shoot(
    browser: Browser,
    url: str,
    name: str,
    width: int,
    height: int,
    *,
    dark: bool = False,
    at: str | None = None,
) -> None:
    """One picture of what fits into the window, scrolled to `at`."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector("main section")
    if at is not None:
        page.locator(at).evaluate("part => part.scrollIntoView()")
    page.wait_for_timeout(1500)
    page.screenshot(path=OUT / f"{name}.png")
    context.close()


if __name__ == "__main__":
    main()
