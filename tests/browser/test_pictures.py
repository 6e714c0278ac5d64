"""Every page looks as it did: at three widths, light and dark, within what fonts change.

`SOLSCOPE_RENEW_PICTURES=1 pytest -m browser tests/browser/test_pictures.py` keeps the pages as they
are now; look at tests/data/pictures before they are committed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

import solscope
from solscope import attribute
from solscope.corpus.ingest.extract import extract
from solscope.corpus.store import create_corpus
from solscope.pages.comparison import comparison_page
from solscope.pages.diagnosis import diagnosis_page
from solscope.pages.ranks import ranks_pages
from solscope.readers.packed import save
from solscope.report.html import write_html
from solscope.web.library import profile_id
from tests.browser import pictures
from tests.browser.conftest import DEMOS, RESULTS, demo_pages, drawn, serving, watched
from tests.unit.diagnose.test_single import EIGHTH, RUN
from tests.unit.pages.test_headline import run_of

pytestmark = pytest.mark.browser

WIDTHS = (1440, 1024, 390)
WITH_CHARTS = ("1440 light", "390 light", "1440 dark")
"""All charts; otherwise the first screen alone."""
WITHOUT_MARKS = "without marks"
HIDE_MARKS = (
    "for (const mark of document.querySelectorAll('.chart :is(rect, path, circle), .lanes canvas'))"
    " mark.style.visibility = 'hidden'"
)
"""Marks go; axes and words stay."""
RENEW = bool(os.environ.get("SOLSCOPE_RENEW_PICTURES"))
REPORT = ["profile", "comparison", "benchmark", "ranks", "diagnosis"]
"""Pages of a report, in order."""
SERVED = {
    "home": ("/", "#profiles tbody td"),
    "suite": ("/suite", "#roofline svg"),
    "store": ("/corpus", "#trend svg >> nth=1"),
    "single": ("/diagnose?a={uneven}", "#steps svg"),
}
"""Pages of the dashboard, and what shows that their answers are there."""


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Of every view."""
    folder = tmp_path_factory.mktemp("pictures")
    store, report = folder / "store", folder / "report.html"
    create_corpus(store).append([extract(name) for name in DEMOS])
    uneven, even = (
        save(run, folder / f"{name}.observations.json")
        for name, run in (("uneven", EIGHTH), ("even", RUN))
    )
    ranks = [attribute(solscope.open(path)) for path in solscope.find_profiles(["demo:ranks"])]
    runs = [attribute(solscope.open(str(path))) for path in (even, uneven)]
    pages = [
        *demo_pages(),
        *ranks_pages(ranks),
        diagnosis_page(runs, ["even", "uneven"]),
    ]
    # Runs of the same work, whose difference has parts.
    pages[1] = comparison_page([run_of(1_000, 50), run_of(1_400, 450)], ["normal", "slow"])
    write_html(pages, "pictures", report)
    with serving([*DEMOS, RESULTS, str(store), str(uneven)]) as host:
        found = {name: f"file://{report}?page={n}" for n, name in enumerate(REPORT, start=1)}
        for name, (path, _) in SERVED.items():
            found[name] = host + path.format(uneven=profile_id(str(uneven)))
        yield found


@pytest.fixture(scope="module")
def reducer(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    yield page
    page.close()


def opened(page: Page, view: str, addresses: dict[str, str]) -> None:
    page.goto(addresses[view])
    page.wait_for_selector(SERVED[view][1] if view in SERVED else "main section")
    if view == "profile":
        page.wait_for_selector(".timeline .lanes canvas")
    drawn(page)


Look = Callable[[str], dict[str, list[pictures.Tile]]]


@pytest.fixture(scope="module")
def look(browser: Browser, reducer: Page, addresses: dict[str, str]) -> Look:
    """Pictures of a view by width and theme, and `without marks`, taken once."""

    @cache
    def taken(view: str) -> dict[str, list[pictures.Tile]]:
        found = {}
        for dark in (False, True):
            with watched(browser, dark=dark) as (page, _):
                for width in WIDTHS:
                    page.set_viewport_size({"width": width, "height": 900})
                    opened(page, view, addresses)
                    name = f"{width} {'dark' if dark else 'light'}"
                    found[name] = pictures.take(page, reducer, whole=name in WITH_CHARTS)
                    if name == "1440 light":
                        page.evaluate(HIDE_MARKS)
                        found[WITHOUT_MARKS] = pictures.take(page, reducer)
        return found

    return taken


@pytest.mark.parametrize("view", [*REPORT, *SERVED])
def test_every_page_looks_as_it_did(look: Look, view: str) -> None:
    found = {name: tiles for name, tiles in look(view).items() if name != WITHOUT_MARKS}
    if RENEW:
        pictures.write(view, found)
    kept = pictures.read(view)
    assert found.keys() == kept.keys()
    apart = {name: pictures.differences(tiles, kept[name]) for name, tiles in found.items()}
    assert {name: texts for name, texts in apart.items() if texts} == {}


@pytest.mark.parametrize("view", [*REPORT, *(view for view in SERVED if view != "home")])
def test_charts_without_marks_are_seen(look: Look, view: str) -> None:
    kept = pictures.read(view)["1440 light"]
    said = pictures.differences(look(view)[WITHOUT_MARKS], kept)
    charts = [tile.name for tile in kept[1:]]
    assert charts
    assert [text.split(":")[0] for text in said if "colored" in text] == charts


def test_pictures_that_are_kept_are_small() -> None:
    files = list(Path(pictures.KEPT).iterdir())
    assert {path.stem for path in files} == {*REPORT, *SERVED}
    assert sum(path.stat().st_size for path in files) < 300_000
