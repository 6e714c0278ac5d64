"""Defects that a first look at every page found; what each test sees is named in its docstring."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

import solscope
from solscope import attribute
from solscope.pages.comparison import comparison_page
from solscope.pages.diagnosis import diagnosis_page
from solscope.pages.profile import profile_page
from solscope.readers.packed import save
from solscope.report.html import write_html
from tests.browser.conftest import DEMOS, drawn, eventually, watched
from tests.making import attributed, event
from tests.unit.diagnose.test_single import EIGHTH, RUN
from tests.unit.views.test_hotspots import copies

pytestmark = pytest.mark.browser

PAGES = ["profile", "stray", "copies", "unlike", "diagnosis"]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("defects")
    runs = [
        attribute(solscope.open(str(save(run, folder / f"{name}.observations.json"))))
        for name, run in (("even", RUN), ("uneven", EIGHTH))
    ]
    demos = [attribute(solscope.open(name)) for name in DEMOS]
    busy = [event("kernel", "gemm", 1_000_000_000 + 1_000 * at, 990) for at in range(200)]
    pages = [
        profile_page(demos[0]),
        profile_page(attributed(event("kernel", "gemm", 0, 10), *busy)),
        profile_page(copies()),
        comparison_page(demos, ["b200", "mi300x"]),
        diagnosis_page(runs, ["even", "uneven"]),
    ]
    write_html(pages, "defects", folder / "report.html")
    return folder / "report.html"


def opened(page: Page, name: str, report: Path) -> None:
    page.goto(f"file://{report}?page={PAGES.index(name) + 1}")
    page.wait_for_selector("main section")
    drawn(page)


def test_a_warning_that_changes_the_headline_is_part_of_it(browser: Browser, report: Path) -> None:
    """The GPU is called busy, and the span that says otherwise is not believed."""
    with watched(browser) as (page, _):
        opened(page, "stray", report)
        expect(page.locator("#verdict .warnings [data-code=stray_activity]")).to_be_visible()
        expect(page.locator("#verdict .warnings")).not_to_contain_text("stray_activity")
        expect(page.locator("#summary")).to_contain_text("says little: stray activity")


def test_copies_that_nothing_hides_come_first(browser: Browser, report: Path) -> None:
    with watched(browser) as (page, _):
        opened(page, "copies", report)
        expect(page.locator("#verdict .do li").first).to_contain_text("copies from host to GPU")


def test_rows_can_be_told_apart_and_numbers_read(browser: Browser, report: Path) -> None:
    """Shapes in labels, no bound below a nanosecond, no power of ten, one call in the singular."""
    with watched(browser) as (page, _):
        opened(page, "profile", report)
        rows = page.locator("#hotspots tbody tr td:nth-child(2)").all_inner_texts()
        assert len(rows) > 5
        assert len(set(rows)) == len(rows)
        said = page.locator("main").inner_text()
        assert re.findall(r"\b0\.\d+ ns|\de-\d|\b1 calls\b", said) == []
        for part in ("#summary dt", "#summary th", "#hotspots td", "#kernels td"):
            about = page.locator(f"{part} abbr").first
            expect(about).to_have_attribute("title", re.compile(r"\w+ \w+"))
        bound = page.locator("#operators th button", has_text="Bound").first
        expect(bound).to_have_attribute("title", re.compile("least time"))


def test_unlike_profiles_are_neither_better_nor_worse(browser: Browser, report: Path) -> None:
    with watched(browser) as (page, _):
        opened(page, "unlike", report)
        expect(page.locator("#verdict")).to_contain_text("shares, not speed")
        expect(page.locator(".worse, .better")).to_have_count(0)
        # Nor do their times stand side by side: shares, and differences in points.
        compared = page.locator("#phase-profile, #kernels-profile, #layers")
        assert compared.count() == 3
        said = " ".join(compared.all_inner_texts())
        assert re.findall(r"[\d,.]+ (?:ms|µs)\b|\bms\b|\bµs\b|×", said) == []
        expect(page.locator("#phase-profile tbody td").nth(1)).to_have_text(re.compile("%"))


def test_a_diagnosis_colors_what_is_sure_and_says_its_verdict_once(
    browser: Browser, report: Path
) -> None:
    with watched(browser) as (page, _):
        opened(page, "diagnosis", report)
        title = page.locator("#verdict h2").inner_text()
        expect(page.locator("#verdict .sentence")).not_to_contain_text(f"{title}:")
        noise = page.locator("#verdict abbr", has_text="Noise inside the normal run")
        expect(noise).to_have_attribute("title", re.compile("two halves of the normal run"))
        eventually(page, page.locator(".sensor").count, lambda sensors: sensors > 3)
        # An axis that does not begin at 0 says so, and a sensor that reads 0 has no chart.
        for figure in page.locator(".sensor").all():
            low = figure.locator("svg text[text-anchor=end]").first.text_content()
            expect(figure.locator("figcaption")).to_have_text(
                re.compile(r"^((?!axis from).)*$" if low == "0" else "axis from")
            )


def test_bars_of_a_histogram_stand_on_their_bins(browser: Browser, report: Path) -> None:
    with watched(browser) as (page, _):
        opened(page, "diagnosis", report)
        chart = page.locator("#steps .chart").nth(1)
        bars = chart.locator("[data-tip] rect:not([fill=transparent])").evaluate_all(
            "all => all.map(one => [one.x.baseVal.value, one.width.baseVal.value])"
        )
        assert len(bars) >= 3
        axis = chart.locator("svg").evaluate(
            "svg => [...svg.querySelectorAll('line')].map(l => [l.x1.baseVal.value,"
            " l.x2.baseVal.value]).sort((a, b) => (b[1] - b[0]) - (a[1] - a[0]))[0]"
        )
        assert min(x for x, _ in bars) >= axis[0] - 0.5
        assert max(x + width for x, width in bars) <= axis[1] + 0.5


UNITS = """() => {
  const figure = /^[+−<]?[\\d.,]+\\s?(ns|µs|ms|s|B|kB|MB|GB|TB)$/;
  return [...document.querySelectorAll("main table")].flatMap((table) => {
  const columns = new Map();
  for (const row of table.tBodies[0]?.rows ?? []) {
    [...row.cells].forEach((cell, at) => {
      const unit = cell.innerText.split("\\n")[0].match(figure)?.[1];
      if (unit) columns.set(at, (columns.get(at) ?? new Set()).add(unit));
    });
  }
  return [...columns.values()].filter((units) => units.size > 1).map((units) => [
    table.caption?.textContent ?? "", ...units]);
  });
}"""


@pytest.mark.parametrize("name", PAGES)
def test_a_column_has_one_unit(browser: Browser, report: Path, name: str) -> None:
    with watched(browser) as (page, _):
        opened(page, name, report)
        assert page.locator("main table").count() > 1
        assert page.evaluate(UNITS) == []


def test_sensors_and_parts_of_a_step_are_explained(browser: Browser, report: Path) -> None:
    with watched(browser) as (page, _):
        opened(page, "diagnosis", report)
        for words in (
            "#counters td:first-child",
            "#waterfall td:first-child",
            ".sensor figcaption",
        ):
            named = page.locator(words)
            eventually(page, named.count, lambda count: count > 3)
            explained = named.locator("abbr[title]")
            assert explained.count() == named.count()
            expect(explained.first).to_have_attribute("title", re.compile(r"\w+ \w+"))
