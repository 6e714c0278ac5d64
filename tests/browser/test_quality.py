"""Can everyone read and use the pages: contrast, labels, keyboard, width, weight.

What Lighthouse looks at, computed from the page itself, in light and dark, at three widths.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, Page, Response, expect

from solscope import attribute
from solscope.cli import run
from solscope.corpus.ingest.extract import extract
from solscope.corpus.store import create_corpus
from solscope.pages.ranks import ranks_pages
from solscope.report.html import write_html
from solscope.web.library import profile_id
from tests.browser.conftest import (
    DEMOS,
    RESULTS,
    demo_pages,
    drawn,
    eventually,
    listening,
    serving,
    watched,
)
from tests.making import event, profile

pytestmark = pytest.mark.browser
SHARED = Path(__file__).parents[3] / "shared" / "data"
MOST_BYTES = 1_500_000
"""Of a page with all that it loads, uncompressed."""
LEAST_CONTRAST = 4.5
"""WCAG 2.2 AA for text of normal size; large text may have 3."""

CONTRAST = """() => {
  const parse = (text) => {
    const found = text.match(/[\\d.]+/g).map(Number);
    return { rgb: found.slice(0, 3), alpha: found.length > 3 ? found[3] : 1 };
  };
  const over = (top, base) => top.rgb.map((v, i) => v * top.alpha + base[i] * (1 - top.alpha));
  const ground = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement)
      layers.push(parse(getComputedStyle(one).backgroundColor));
    return layers.reverse().reduce((base, layer) => over(layer, base), [255, 255, 255]);
  };
  const light = (rgb) => {
    const [r, g, b] = rgb.map((v) => v / 255).map(
      (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const poor = [];
  let looked = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || element.closest("svg, script, style, noscript, .hidden"))
      continue;
    if (!element.checkVisibility() || element.closest(":disabled")) continue;
    const style = getComputedStyle(element);
    const base = ground(element);
    const [a, b] = [light(over(parse(style.color), base)), light(base)];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    looked += 1;
    if (contrast < (large ? 3 : LEAST))
      poor.push(`${node.textContent.trim().slice(0, 40)}: ${contrast.toFixed(2)}`);
  }
  return { looked, poor: [...new Set(poor)] };
}""".replace("LEAST", str(LEAST_CONTRAST))

CHART_CONTRAST = """() => {
  const light = (rgb) => {
    const [r, g, b] = rgb.map((v) => v / 255).map(
      (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const numbers = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const under = document.querySelector("section") ?? document.body;
  const surface = light(numbers(getComputedStyle(under).backgroundColor));
  const poor = [];
  for (const text of document.querySelectorAll(".chart svg text")) {
    const style = getComputedStyle(text);
    if (style.stroke !== "none" || !text.textContent.trim()) continue;  // Outlined: legible on any.
    const own = light(numbers(style.fill));
    // Text on a colored area says which color that is.
    const on = text.dataset.on;
    const area = on && [1, 3, 5].map((at) => parseInt(on.slice(at, at + 2), 16));
    const base = area ? light(area) : surface;
    const contrast = (Math.max(own, base) + 0.05) / (Math.min(own, base) + 0.05);
    if (contrast < LEAST) poor.push(`${text.textContent}: ${contrast.toFixed(2)}`);
  }
  return [...new Set(poor)];
}""".replace("LEAST", str(LEAST_CONTRAST))

ON_MARKS = """() => {
  const light = (rgb) => {
    const [r, g, b] = rgb.map((v) => v / 255).map(
      (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const parse = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const poor = [];
  let looked = 0;
  for (const svg of document.querySelectorAll(".chart svg")) {
    svg.scrollIntoView({ block: "center", behavior: "instant" });
    const place = svg.closest("section") ?? document.body;
    const surface = parse(getComputedStyle(place).backgroundColor);
    for (const text of svg.querySelectorAll("text")) {
      const style = getComputedStyle(text);
      const box = text.getBoundingClientRect();
      if (style.stroke !== "none" || !text.textContent.trim()) continue;
      for (const part of [0.1, 0.5, 0.9]) {
        const tall = box.height > box.width;
        const [x, y] = [box.left + (tall ? 0.5 : part) * box.width,
          box.top + (tall ? part : 0.5) * box.height];
        // What was drawn before the text lies under it.
        const marks = document.elementsFromPoint(x, y).filter((one) =>
          one.matches("rect, path, circle") && svg.contains(one)
          && one.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING).reverse();
        let [base, on] = [surface.slice(0, 3), false];
        for (const mark of marks) {
          const look = getComputedStyle(mark);
          const [r, g, b, a = 1] = parse(look.fill);
          const share = (r === undefined ? 0 : a) * look.fillOpacity * look.opacity;
          if (share > 0) [base, on] = [base.map((v, i) => share * [r, g, b][i] + (1 - share) * v),
            true];
        }
        if (!on) continue;
        looked += 1;
        const [own, under] = [light(parse(style.fill).slice(0, 3)), light(base)];
        const contrast = (Math.max(own, under) + 0.05) / (Math.min(own, under) + 0.05);
        if (contrast < LEAST) poor.push(`${text.textContent}: ${contrast.toFixed(2)}`);
      }
    }
  }
  return { looked, poor: [...new Set(poor)] };
}""".replace("LEAST", str(LEAST_CONTRAST))
"""Labels of charts on what was drawn before them, whatever color they say that is."""

UNNAMED = """() => [...document.querySelectorAll("button, input, select, textarea, a, summary")]
  .filter((one) => !(one.textContent.trim() && one.tagName !== "SELECT") && !one.ariaLabel
    && ![...(one.labels ?? [])].some((label) => label.textContent.trim()))
  .map((one) => one.outerHTML.slice(0, 80))"""

WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"

LAYOUT = """() => {
  const problems = [];
  const shown = (one) => one.checkVisibility() && !one.closest(".hidden, .skip");
  const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 3
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
  const name = (one) => (one.textContent.trim() || one.ariaLabel || one.tagName).slice(0, 30);
  // Text that is cut without dots at its end.
  for (const one of document.querySelectorAll("main *")) {
    if (!shown(one) || one.closest("svg, .chart, .timeline, .icicle, .tall") || !one.clientWidth)
      continue;
    const style = getComputedStyle(one);
    const cut = style.overflowX === "hidden" && style.textOverflow !== "ellipsis";
    if (cut && one.scrollWidth > one.clientWidth + 1) problems.push(`${name(one)} is cut`);
  }
  // What a section holds stays inside of it, and sections do not cover one another.
  const sections = [...document.querySelectorAll("main section")].filter(shown);
  sections.forEach((section, at) => {
    const place = section.getBoundingClientRect();
    for (const one of section.querySelectorAll("p, li, table, dl, .chart, figure")) {
      const { right, bottom } = one.getBoundingClientRect();
      const inside = one.closest(".scroll, .tall, .detail, dialog, fieldset");
      if (shown(one) && !inside && (right > place.right + 2 || bottom > place.bottom + 2))
        problems.push(`${name(one)} is out of its section`);
    }
    const next = sections[at + 1];
    if (next && !section.contains(next) && meet(place, next.getBoundingClientRect()))
      problems.push(`${section.id} covers ${next.id}`);
  });
  // Controls do not cover one another.
  const controls = [...document.querySelectorAll("header a, header button, header select, "
    + "main button, main select, main input, main summary")].filter((one) => shown(one)
    && !one.closest(".icicle, .timeline, thead, .png, fieldset") && !one.matches(".png"));
  controls.forEach((one, at) => {
    for (const other of controls.slice(at + 1, at + 12)) {
      if (one.parentElement !== other.parentElement) continue;
      if (meet(one.getBoundingClientRect(), other.getBoundingClientRect()))
        problems.push(`${name(one)} over ${name(other)}`);
    }
  });
  // Labels of a chart are inside of it and do not cover one another.
  for (const svg of document.querySelectorAll(".chart svg")) {
    const place = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].filter((one) => one.textContent.trim());
    texts.forEach((one, at) => {
      const box = one.getBoundingClientRect();
      if (!one.closest("[clip-path]") && (box.left < place.left - 2 || box.right > place.right + 2
        || box.top < place.top - 3 || box.bottom > place.bottom + 3))
        problems.push(`${name(one)} is outside of ${svg.parentElement.ariaLabel}`);
      for (const other of texts.slice(at + 1))
        if (meet(box, other.getBoundingClientRect()))
          problems.push(`${name(one)} over ${name(other)} in ${svg.parentElement.ariaLabel}`);
    });
  }
  return [...new Set(problems)];
}"""
"""Whatever the fonts of a machine are: nothing is cut, covered, or outside of its place. Pictures
of pages would differ between machines by their fonts and lines by more than such faults do."""

STRUCTURE = """() => {
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  const levels = [...document.querySelectorAll("h1, h2, h3, h4")].map((one) => +one.tagName[1]);
  return {
    lang: document.documentElement.lang, title: document.title,
    mains: document.querySelectorAll("main").length,
    heads: levels.filter((level) => level === 1).length,
    skips: levels.filter((level, at) => at > 0 && level > levels[at - 1] + 1).length,
    twice: ids.filter((id, at) => ids.indexOf(id) !== at),
    charts: [...document.querySelectorAll(".chart")].filter((one) => !one.ariaLabel).length,
    tables: [...document.querySelectorAll("table")].filter((one) => !one.caption).length,
  };
}"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("report") / "report.html"
    ranks = [
        attribute(replace(profile(event("kernel", "gemm", 0, 10), rank=rank), path=f"{rank}.json"))
        for rank in (0, 1)
    ]
    write_html([*demo_pages(), *ranks_pages(ranks)], "demos", target)
    return target


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    store = tmp_path_factory.mktemp("store") / "store"
    create_corpus(store).append([extract(name) for name in DEMOS])
    with serving([*DEMOS, RESULTS, str(store)]) as address:
        yield address


A, B = map(profile_id, DEMOS)
KINDS = ["profile", "comparison", "bench", "ranks"]
"""Pages of the report, in order."""
SERVED = {
    "/": ["#profiles tbody td"],
    "/suite": ["#suite tbody td", "#roofline svg"],
    "/corpus": ["#importance tbody td", "#trend svg >> nth=1", "#profiles tbody td"],
    f"/profile/{A}": ["#kernels tbody td", ".timeline .lanes canvas"],
    f"/diagnose?a={A}&b={B}": ["#verdict"],
    f"/diagnose?a={A}": ["#steps svg"],
    "/compare": ["main select option >> nth=1"],
}
"""Pages of the dashboard, and what shows that all of their answers are there."""
VIEWS = [*KINDS, *SERVED, "/nothing"]


def opened(page: Page, view: str, report: Path, address: str) -> None:
    page.goto(
        f"file://{report}?page={KINDS.index(view) + 1}" if view in KINDS else f"{address}{view}"
    )
    page.wait_for_selector("main h1", state="attached")
    for part in SERVED.get(view, []):
        page.wait_for_selector(part, state="attached")
    drawn(page)


class Look(NamedTuple):
    """What the checks say of a page that was just opened."""

    contrast: dict[str, Any]
    chart_contrast: list[str]
    unnamed: list[str]
    structure: dict[str, Any]
    on_marks: dict[str, Any]
    """The last one: it moves the page."""
    weight: int
    """Bytes of all answers, uncompressed."""


LookAt = Callable[[str, bool], Look]


@pytest.fixture(scope="module")
def look(browser: Browser, report: Path, address: str) -> LookAt:
    """Open a view in a window of its own, light or dark; each is looked at once."""

    @cache
    def looked(view: str, dark: bool) -> Look:
        answers: list[Response] = []
        with (
            watched(browser, dark=dark) as (page, _),
            listening(page, response=lambda one: answers.append(one)),
        ):
            opened(page, view, report, address)
            weight = sum(len(one.body()) for one in answers) if view in SERVED and not dark else 0
            return Look(
                weight=weight,
                contrast=page.evaluate(CONTRAST),
                chart_contrast=page.evaluate(CHART_CONTRAST),
                unnamed=page.evaluate(UNNAMED),
                structure=page.evaluate(STRUCTURE),
                on_marks=page.evaluate(ON_MARKS),
            )

    return looked


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("view", VIEWS)
def test_all_text_can_be_read(look: LookAt, view: str, dark: bool) -> None:
    found = look(view, dark)
    assert found.contrast["looked"] > 5
    assert found.contrast["poor"] == []
    assert found.chart_contrast == []
    assert found.on_marks["poor"] == []
    assert found.on_marks["looked"] > 20 or view != "bench"


def test_the_checks_find_what_is_wrong(browser: Browser) -> None:
    with watched(browser) as (page, _):
        page.set_content(
            "<section style='background:#fff'><p style='color:#999'>faint</p><p>plain</p>"
            "<button></button><input><div class='chart'><svg><text fill='#ddd'>axis</text></svg>"
        )
        assert page.evaluate(CONTRAST) == {"looked": 2, "poor": ["faint: 2.85"]}
        assert len(page.evaluate(CHART_CONTRAST)) == 1
        assert len(page.evaluate(UNNAMED)) == 2
        page.set_content(
            "<section style='background:#fff'><div class='chart'><svg>"
            "<rect width='90' height='40' fill='#4778e5' fill-opacity='0.9'/>"
            "<text x='9' y='20' fill='#445' data-on='#ffffff'>bar</text></svg>"
        )
        assert page.evaluate(CHART_CONTRAST) == []
        assert [text.split(":")[0] for text in page.evaluate(ON_MARKS)["poor"]] == ["bar"]


@pytest.mark.parametrize("view", VIEWS)
def test_every_control_has_a_name_and_every_page_an_outline(look: LookAt, view: str) -> None:
    page = look(view, False)
    assert page.unnamed == []
    found = dict(page.structure)
    assert found.pop("title").endswith("solscope")
    assert found == {
        "lang": "en",
        "mains": 1,
        "heads": 1,
        "skips": 0,
        "twice": [],
        "charts": 0,
        "tables": 0,
    }


@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_every_page_fits_its_window(
    browser: Browser, report: Path, address: str, width: int
) -> None:
    with watched(browser, width=width) as (page, _):
        for view in VIEWS:
            opened(page, view, report, address)
            # Charts and tables take the width of their place once they know it.
            eventually(page, lambda: page.evaluate(LAYOUT), lambda found: found == [])
            eventually(page, lambda: page.evaluate(WIDER), lambda wider: wider == 0)


def test_the_layout_check_finds_what_is_wrong(browser: Browser) -> None:
    with watched(browser, width=800) as (page, _):
        page.set_content(
            "<main><section style='height:20px'><p style='margin:0'>one<br>two<br>three</p>"
            "</section><section><div style='width:40px;overflow:hidden;white-space:nowrap'>"
            "much too long a text</div><button>a</button><button style='margin-left:-12px'>b"
            "</button></section><section><div class='chart' aria-label='c'><svg width='100' "
            "height='40'><text x='5' y='20'>first label</text><text x='20' y='22'>second</text>"
            "<text x='90' y='38'>outside</text></svg></div></section></main>"
        )
        found = page.evaluate(LAYOUT)
        for part in ("out of its section", "cut", "a over b", "first label over second", "outside"):
            assert any(part in problem for problem in found), (part, found)


def test_the_keyboard_goes_in_reading_order_and_is_seen(browser: Browser, report: Path) -> None:
    with watched(browser) as (page, _):
        page.goto(f"file://{report}")
        page.wait_for_selector("#kernels")
        page.wait_for_selector(".timeline .lanes canvas")
        drawn(page)
        places: list[float] = []
        for _ in range(60):
            page.keyboard.press("Tab")
            place = page.evaluate(
                "() => { const e = document.activeElement, r = e.getBoundingClientRect();"
                " return e === document.body || !e.closest('main') ? null"
                " : [r.top + scrollY, r.left, getComputedStyle(e).outlineStyle]; }"
            )
            if place is not None:
                places.append(place[0])
                assert place[2] != "none"
        assert len(places) > 30
        # Down the page; within a row the heads of columns may differ by a line.
        assert all(after > before - 40 for before, after in itertools.pairwise(places))


def test_a_report_sorts_by_keyboard(browser: Browser, report: Path) -> None:
    with watched(browser) as (page, _):
        page.goto(f"file://{report}")
        drawn(page)
        page.locator("#kernels").get_by_role("button", name="Calls").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#kernels th[aria-sort=descending]")).to_contain_text("Calls")


def test_a_page_prints_without_its_controls(browser: Browser, report: Path) -> None:
    with watched(browser, dark=True) as (page, _):
        page.goto(f"file://{report}")
        page.wait_for_selector("#kernels")
        page.emulate_media(media="print")
        expect(page.locator("header")).to_be_hidden()
        expect(page.locator("#kernels table")).to_be_visible()


def test_pages_of_the_dashboard_are_light(look: LookAt) -> None:
    weights = {view: look(view, False).weight for view in SERVED}
    assert min(weights.values()) > 50_000  # Script and style are in every page.
    assert {view: found for view, found in weights.items() if found > MOST_BYTES} == {}


@pytest.mark.parametrize("name", ["h200/graph/normal", "h200/models/qwen3next4l"])
def test_the_report_of_a_normal_trace_is_small(tmp_path: Path, name: str) -> None:
    trace = SHARED / f"{name}.trace.json.gz"
    if not trace.is_file():
        pytest.skip("../shared/data is not here")
    assert run(["report", str(trace), "-o", str(tmp_path / "r.html")]) == 0
    assert (tmp_path / "r.html").stat().st_size < 3_000_000
