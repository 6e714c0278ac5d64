"""The dashboard, in a browser."""

from __future__ import annotations

import json
import re
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from solscope.bench.results.contrast import contrast
from solscope.bench.results.files import read_results
from solscope.corpus.ingest.extract import extract
from solscope.corpus.store import create_corpus
from solscope.profile import Profile
from solscope.readers import find_profiles
from solscope.readers.opening import Opening
from solscope.readers.packed import save
from solscope.web.app import Uploads
from solscope.web.library import profile_id
from tests.browser.conftest import (
    DEMOS,
    RESULTS,
    drawn,
    eventually,
    listening,
    serving,
    settle,
    until,
    watched,
)
from tests.model_config import CONFIG
from tests.recordings import recording
from tests.unit.diagnose.test_single import EIGHTH

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving([*DEMOS, RESULTS]) as address:
        yield address


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """With a store as well."""
    folder = tmp_path_factory.mktemp("store")
    create_corpus(folder).append([extract("tests/data/kineto_b200.json.gz")])
    with serving([*DEMOS, str(folder), RESULTS]) as address:
        yield address


def test_from_the_list_to_a_profile_and_back(browser: Browser, address: str) -> None:
    with watched(browser) as (page, problems):
        page.goto(address)
        page.get_by_role("link", name="vllm-b200").click()
        page.wait_for_selector("#kernels")
        expect(page).to_have_url(re.compile("/profile/"))
        page.get_by_label("Bounds of").select_option("H200")
        page.wait_for_selector("text=NVIDIA H200")
        page.go_back()
        expect(page.get_by_label("Bounds of")).to_have_value("")
        page.go_back()
        page.wait_for_selector("#profiles")
        assert problems == []


def test_two_ticked_profiles_are_compared(browser: Browser, address: str) -> None:
    with watched(browser) as (page, problems):
        page.goto(address)
        boxes = page.locator("#profiles tbody input[type=checkbox]")
        boxes.first.wait_for()
        expect(boxes).to_have_count(2)
        boxes.nth(0).check()
        boxes.nth(1).check()
        page.get_by_role("button", name="Compare", exact=True).click()
        page.wait_for_selector("#sides tbody tr")
        expect(page).to_have_url(re.compile(r"/compare\?a="))
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
        expect(page.locator("#sides tbody tr")).to_have_count(2)
        assert problems == []


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/profile/{a}", "/profile/{a}?hardware=H200", "/compare?a={a}&b={b}", "/suite"),
        *("/suite/rms_norm", "/suite?hardware=H200", "/bench", "/bench?a=fla&b=torch-eager"),
        *("/corpus", "/corpus?by=shape&find=attention", "/corpus?gpu=B200&what=gemm"),
    ],
)
def test_a_view_that_was_seen_before_asks_for_nothing(
    browser: Browser, everything: str, path: str
) -> None:
    overview = json.load(urllib.request.urlopen(f"{everything}/api/overview"))
    a, b = (one["id"] for one in overview["profiles"])
    for visit in ("first", "second"):
        with watched(browser) as (page, problems), questions_of(page) as (asked, waiting):
            page.goto(everything + path.format(a=a, b=b))
            page.wait_for_selector("main tbody td")
            drawn(page)
            page.wait_for_load_state("networkidle")
            # An answer may lead to the next question, once it is drawn.
            answered = -1
            while answered != len(asked):
                answered = len(asked)
                eventually(page, waiting.copy, lambda left: not left)
                settle(page)
            questions = [one.url for one in asked]
            assert questions == [] or visit == "first"
            assert len(questions) == len(set(questions))
            assert problems == []


RECORD_FETCHES = """
window.fetched = [];
const original = window.fetch;
window.fetch = (address, ...rest) => {
  window.fetched.push(String(address));
  return original(address, ...rest);
};
"""
HREFS = "links => links.map(link => link.getAttribute('href'))"


def preloaded(page: Page) -> set[str]:
    return set(page.locator("link[rel=preload]").evaluate_all(HREFS))


def unused(page: Page) -> set[str]:
    """What the browser loads ahead and the page has not asked for."""
    return preloaded(page) - set(page.evaluate("fetched"))


def test_a_page_asks_for_all_that_is_loaded_ahead(browser: Browser, tmp_path: Path) -> None:
    create_corpus(tmp_path).append([extract("tests/data/kineto_b200.json.gz")])
    a, b = map(profile_id, DEMOS)
    paths = ["/", f"/profile/{a}?hardware=H200", f"/compare?a={a}&b={b}", f"/diagnose?a={a}&b={b}"]
    paths += [
        f"/diagnose?a={b}",
        "/bench?a=fla&b=torch-eager",
        "/suite",
        "/suite/rms_norm",
        "/corpus?gpu=B200",
    ]
    # A server of its own: what it has answered before is in the page, and not loaded ahead.
    with serving([*DEMOS, str(tmp_path), RESULTS]) as address:
        for path in paths:
            with watched(browser) as (page, problems), page.add_init_script(RECORD_FETCHES):
                page.goto(address + path)
                assert path == "/" or preloaded(page)
                eventually(page, partial(unused, page), lambda left: not left)
                assert problems == []


@contextmanager
def questions_of(page: Page) -> Iterator[tuple[list[Request], set[Request]]]:
    """What the page asks the server, and what of it has no answer yet; both grow as it asks."""
    asked: list[Request] = []
    waiting: set[Request] = set()

    def on_request(request: Request) -> None:
        # Those two are asked again and again, to see what changes.
        again = ("/api/overview", "/api/working")
        if "/api/" in request.url and not request.url.endswith(again):
            asked.append(request)
            waiting.add(request)

    def on_answer(request: Request) -> None:
        waiting.discard(request)

    with listening(page, request=on_request, requestfinished=on_answer, requestfailed=on_answer):
        yield asked, waiting


@pytest.mark.reads_anew
def test_a_profile_that_must_be_read_is_named_at_once(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    real = Opening.profile

    def slowly(opening: Opening) -> Profile:
        go_on.wait(timeout=60)
        return real(opening)

    monkeypatch.setattr(Opening, "profile", slowly)
    # Slower than the page asks what is being done: every answer has to arrive even so.
    with serving(DEMOS[:1], slow_ms=1000) as address, watched(browser) as (page, problems):
        page.goto(address)
        page.get_by_role("link", name="vllm-b200").click()
        waiting = page.locator(".working")
        waiting.get_by_text("reading the file").wait_for()
        expect(waiting).to_contain_text("vllm-b200")
        go_on.set()
        page.wait_for_selector("#kernels tbody td")
        expect(waiting).to_have_count(0)
        assert problems == []


def test_the_suite_opens_its_shapes(browser: Browser, address: str) -> None:
    with watched(browser) as (page, problems):
        page.goto(f"{address}/suite")
        rows = page.locator("#suite > .table > .scroll > table > tbody > tr")
        expect(rows).to_have_count(30)
        expect(rows.first).to_contain_text("unified_attention")
        rows.first.get_by_role("button", name="Open").click()
        expect(page.locator("tr.detail tbody tr")).to_have_count(25)
        expect(page.locator("tr.detail tbody tr").first).to_contain_text("7.3 %")
        page.get_by_label("B200", exact=True).check()
        page.wait_for_selector("th:has-text('T_SOL B200')")
        assert problems == []


def test_the_benchmark_ranks_solutions_and_sets_two_against_each_other(
    browser: Browser, address: str
) -> None:
    with watched(browser) as (page, problems):
        page.goto(f"{address}/bench")
        expect(page.locator("#leaderboard tbody tr")).to_have_count(3)
        eventually(
            page, page.locator("#reached [data-tip*='above the bound']").count, lambda n: n > 1
        )
        eventually(
            page, page.locator("#solutions [data-tip*='best of all']").count, lambda n: n > 3
        )
        page.locator("#operators").get_by_role("button", name="Open").first.click()
        page.wait_for_selector("tr.detail tbody tr")
        page.locator("tr.detail").get_by_role("button", name="Open").first.click()
        page.wait_for_selector("tr.detail .chart svg")
        page.locator("#diff select").nth(0).select_option("torch-eager")
        expect(page).to_have_url(re.compile("a=torch-eager"))
        page.locator("#diff select").nth(1).select_option("torch-compile")
        page.wait_for_selector("#diff table")
        # The sentence is the library's: weighted verdict, counts of shapes, who passed alone.
        results = read_results([RESULTS])
        said = contrast(results, results, "torch-eager", "torch-compile").sentence
        expect(page.locator("#diff .sentence")).to_have_text(said)
        page.wait_for_selector("#diff .chart [data-tip]")
        # Both sides stay on a phone.
        page.set_viewport_size({"width": 390, "height": 800})
        heads = page.locator("#diff th")
        eventually(page, heads.all_inner_texts, lambda texts: {"A µs", "B µs"} <= {*texts})
        assert problems == []


def test_results_of_two_suites_are_shown_one_at_a_time(browser: Browser) -> None:
    with serving(["results/bench"]) as address, watched(browser) as (page, problems):
        page.goto(f"{address}/bench?a=torch-eager&b=solscope-triton")
        page.wait_for_selector("#operators tbody td")
        expect(page.get_by_role("combobox", name="Suite")).to_have_value("atrex")
        page.get_by_role("combobox", name="Suite").select_option("decode")
        page.wait_for_selector("#operators >> text=dense_gemm")
        expect(page).to_have_url(re.compile("suite=decode"))
        page.wait_for_selector("#diff table")
        expect(page.locator("#diff"), "our Triton has none").not_to_contain_text("dense_gemm")
        assert problems == []


def test_a_growing_store_is_seen_to_grow(browser: Browser, tmp_path: Path) -> None:
    store = create_corpus(tmp_path / "store")
    store.append([extract("tests/data/kineto_b200.json.gz")])
    with serving([str(tmp_path / "store")]) as address, watched(browser) as (page, problems):
        page.goto(f"{address}/corpus?by=category")
        page.wait_for_selector("#importance tbody td")
        expect(page.locator("#profiles tbody tr")).to_have_count(1)
        store.append([extract("tests/data/rocprofv3.json.gz")])
        expect(page.locator("#profiles tbody tr")).to_have_count(2)
        expect(page.get_by_role("status")).to_contain_text("1 profile added")
        assert problems == []


def test_long_tables_of_a_store_are_searched_by_the_server(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("solscope.web.handlers.corpus.MAX_ROWS", 5)
    create_corpus(tmp_path / "store").append([extract("tests/data/kineto_b200.json.gz")])
    with serving([str(tmp_path / "store")]) as address, watched(browser) as (page, problems):
        page.goto(f"{address}/corpus?by=kernel")
        expect(page.locator("#importance tbody tr")).to_have_count(5)
        page.get_by_label("Find in all rows").fill("all_reduce")
        page.keyboard.press("Enter")
        page.wait_for_selector("#importance >> text=that fit")
        expect(page).to_have_url(re.compile("find=all_reduce"))
        expect(page.locator("#importance tbody tr").first).to_contain_text("all_reduce")
        assert problems == []


def test_all_profiles_of_a_large_store_can_be_reached(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages, search and order are the server's: they are of all profiles, not of those shown."""
    monkeypatch.setattr("solscope.web.handlers.corpus.MAX_PROFILES", 4)
    one = extract("tests/data/kineto_b200.json.gz")
    many = [
        replace(one, profile={**one.profile, "id": f"{n:064x}", "file": f"runs/trace-{n:02}.json"})
        for n in range(11)
    ]
    create_corpus(tmp_path / "store").append(many)
    with serving([str(tmp_path / "store")]) as address, watched(browser) as (page, problems):
        page.goto(f"{address}/corpus")
        rows = page.locator("#profiles tbody tr")
        pages = page.get_by_role("navigation", name="Pages of Profiles of the store")
        expect(page.locator("dt:has-text('Chosen') + dd")).to_have_text("11")
        expect(pages).to_contain_text("1 to 4 of 11")
        expect(pages.get_by_role("button", name="Previous")).to_be_disabled()
        taken = "This page of Profiles of the store as CSV"
        expect(page.get_by_role("button", name=taken)).to_be_visible()
        pages.get_by_role("button", name="Next").click()
        expect(rows.first).to_contain_text("trace-04")
        pages.get_by_role("button", name="Next").click()
        expect(pages).to_contain_text("9 to 11 of 11")
        expect(pages.get_by_role("button", name="Next")).to_be_disabled()
        file = page.locator("#profiles th").first
        file.locator("button").click()
        expect(file).to_have_attribute("aria-sort", "ascending")
        expect(rows.first).to_contain_text("trace-00")
        file.locator("button").click()
        expect(rows.first).to_contain_text("trace-10")
        expect(pages).to_contain_text("1 to 4 of 11")
        page.get_by_label("Find in Profiles of the store").fill("TRACE-09 vllm")
        page.keyboard.press("Enter")
        expect(rows).to_have_count(1)
        expect(page.locator("#profiles")).to_contain_text("1 of 11 rows")
        page.reload()
        expect(rows.first).to_contain_text("trace-09")
        page.go_back()
        expect(rows.first).to_contain_text("trace-10")
        assert problems == []


def test_a_dropped_file_is_added_and_a_bad_one_is_named(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "good.json").write_text('{"traceEvents": []}')
    (tmp_path / "<b>bad.json").write_text("no trace")
    uploads = Uploads(tmp_path / "in", 1000)
    with serving(["demo:vllm-b200"], uploads) as address, watched(browser) as (page, problems):
        page.goto(address)
        files = [tmp_path / "good.json", tmp_path / "<b>bad.json"]
        page.locator("input[type=file]").set_input_files(files)
        page.wait_for_selector("text=good.json: added")
        page.wait_for_selector("text=<b>bad.json: ")
        page.wait_for_selector("#profiles a:has-text('good')")
        expect(page.locator(".drop b")).to_have_count(0)
        assert [path.name for path in (tmp_path / "in").iterdir()] == ["good.json"]
        assert [one for one in problems if "422" not in one] == []


def test_an_address_without_a_page_says_so(browser: Browser, address: str) -> None:
    with watched(browser) as (page, problems):
        page.goto(f"{address}/<img src=x onerror=alert(1)>")
        page.wait_for_selector("h1:has-text('Page not found')")
        expect(page.locator("img")).to_have_count(0)
        page.goto(f"{address}/profile/nothing")
        page.wait_for_selector("[role=alert]")
        assert [one for one in problems if "404" not in one] == []


def test_a_choice_within_a_view_leaves_it_where_it_is(browser: Browser, address: str) -> None:
    with watched(browser) as (page, problems):
        page.goto(f"{address}/suite")
        page.wait_for_selector("#roofline .chart svg")
        switch = page.locator("#roofline").get_by_role("button", name="XPU-A")
        switch.scroll_into_view_if_needed()
        before = eventually(page, lambda: page.evaluate("scrollY"), lambda y: y > 0)
        switch.click()
        page.wait_for_selector("#roofline .chart[aria-label*='XPU-A']")
        until(page, f"scrollY === {before}")
        page.get_by_role("link", name="Compare").click()
        page.wait_for_selector("h1:has-text('Compare')")
        until(page, "scrollY === 0 && document.activeElement.id === 'main'")
        assert problems == []


def test_a_tab_is_named_after_what_it_shows(browser: Browser, address: str) -> None:
    overview = json.load(urllib.request.urlopen(f"{address}/api/overview"))
    a, b = (one["id"] for one in overview["profiles"])
    expected = {
        "/": "Profiles · solscope",
        f"/profile/{a}": "demo:vllm-b200 · solscope",
        f"/compare?a={a}&b={b}": "demo:vllm-b200 · demo:vllm-mi300x-graph · Compare · solscope",
        "/suite/rms_norm": "rms_norm · Operator suite · solscope",
        "/nothing": "No page · solscope",
    }
    with watched(browser) as (page, _):
        for path, title in expected.items():
            page.goto(address + path)
            expect(page).to_have_title(title)


def test_from_a_profile_to_a_comparison_to_a_diagnosis_and_swapped(
    browser: Browser, address: str
) -> None:
    with watched(browser) as (page, problems):
        page.goto(address)
        page.get_by_role("link", name="vllm-b200").click()
        page.get_by_role("link", name="Compare with another").click()
        page.get_by_label("To").select_option(label="demo:vllm-mi300x-graph")
        page.wait_for_selector("#sides tbody tr")
        page.get_by_role("button", name="Swap").click()
        page.wait_for_selector("#sides tbody tr:first-child:has-text('mi300x')")
        page.get_by_role("link", name="Diagnose these two").click()
        page.wait_for_selector("#verdict")
        expect(page).to_have_url(re.compile(r"/diagnose\?a="))
        assert problems == []


def test_a_comparison_leads_to_its_diagnosis_whichever_is_the_slower_one(browser: Browser) -> None:
    runs = [
        str(recording(f"h200/graph/{name}.trace.json.gz")) for name in ("normal", "no_cuda_graph")
    ]
    normal, slow = map(profile_id, runs)
    with serving(runs) as address, watched(browser) as (page, problems):
        for a, b in ((normal, slow), (slow, normal)):
            page.goto(f"{address}/compare?a={a}&b={b}")
            why = page.get_by_role("link", name="The whole diagnosis")
            expect(why).to_have_attribute("href", f"/diagnose?a={normal}&b={slow}")
            said = page.locator("#verdict .sentence")
            expect(said).to_contain_text("slower: CUDA graphs are no longer used (97 % confident)")
            expect(page.locator("#verdict .do")).to_contain_text("Look for enforce_eager")
        expect(page.locator("#verdict .scope")).to_have_text(
            ["mean of 16 of 17 decode steps", "mean of 34 of 35 decode steps", "of the decode step"]
        )
        # One way of saying a change, and no two parts of the page of one name.
        expect(said).not_to_contain_text(re.compile(r"% (?!confident)"))
        parts = page.locator("nav.parts a").all_inner_texts()
        assert len(set(parts)) == len(parts) > 5
        why.click()
        expect(page.locator("#verdict .sentence")).to_contain_text("CUDA graphs are no longer used")
        assert problems == []


def test_one_recording_is_diagnosed_on_its_own(browser: Browser, tmp_path: Path) -> None:
    uneven = save(EIGHTH, tmp_path / "uneven.observations.json")
    with serving([str(uneven), DEMOS[0]]) as address, watched(browser) as (page, problems):
        page.goto(f"{address}/profile/{profile_id(str(uneven))}")
        page.get_by_role("link", name="Diagnose: its slow steps").click()
        expect(page.locator("#verdict h2")).to_have_text("Periodic")
        expect(page.locator("#verdict .sentence")).to_contain_text("A slow step every 8 steps")
        drawn(page)
        chart = page.locator("#steps .chart").first
        expect(chart.locator("path[data-tip*=slow]")).to_have_count(8)
        expect(chart.locator("circle[data-tip*='left out']")).to_have_count(2)
        expect(page.locator("#slow tbody tr")).to_have_count(8)
        expect(page.locator("#causes article").first).to_contain_text("schedule")
        expect(page.locator("#waterfall tbody tr").first).to_contain_text("idle.host:schedule")
        # A step leads to the profile, with the step chosen.
        page.locator("#slow tbody a").first.click()
        expect(page).to_have_url(re.compile(r"/profile/[^?]+\?step=4#timeline"))
        page.goto(f"{address}/diagnose?a={profile_id(DEMOS[0])}")
        expect(page.locator("#verdict.attention")).to_contain_text("at least 12 are needed")
        # One recording is neither the normal nor the abnormal one, until there is another.
        expect(page.locator("main h1")).to_have_text(f"Diagnose {DEMOS[0]}")
        page.get_by_label("Compare with the normal run").select_option(index=1)
        expect(page.get_by_label("Abnormal")).to_have_value(profile_id(DEMOS[0]))
        assert problems == []


def test_every_page_marks_how_bad_its_verdict_is_and_says_once_what_to_do(
    browser: Browser,
) -> None:
    b200, mi300 = (profile_id(name) for name in DEMOS)
    ranks = find_profiles(["demo:ranks"])
    marks = {
        f"/profile/{b200}": "bad",
        f"/profile/{mi300}": "neutral",
        f"/compare?a={b200}&b={mi300}": "attention",
        f"/diagnose?a={b200}&b={mi300}": "attention",
        f"/ranks?of={','.join(map(profile_id, ranks))}": "bad",
        "/bench": "neutral",
    }
    with serving([*DEMOS, *ranks, RESULTS]) as address, watched(browser) as (page, problems):
        for path, mark in marks.items():
            page.goto(f"{address}{path}")
            expect(page.locator("#verdict")).to_have_class(f"verdict {mark}")
            # Nothing follows from profiles that have no step in common.
            expect(page.locator("#verdict .do")).to_have_count(0 if "/compare" in path else 1)
            expect(page.locator("#verdict")).not_to_contain_text("Next:")
        page.goto(f"{address}/bench")
        expect(page.locator("#verdict dt").first).to_have_text("of the possible speed (S)")
        expect(page.locator("#verdict .scope").first).to_have_text("of the suite")
        assert problems == []


def test_when_the_server_is_gone_the_page_stays_and_says_so(browser: Browser) -> None:
    with watched(browser) as (page, _):
        with serving(DEMOS[:1]) as address:
            page.goto(address)
            page.wait_for_selector("#profiles tbody a")
        gone = "is solscope serve still running?"
        expect(page.locator("[role=alert]")).to_contain_text(gone)
        expect(page.locator("#profiles tbody a")).to_have_count(1)


def test_bounds_of_another_gpu_are_called_a_what_if(browser: Browser, address: str) -> None:
    with watched(browser) as (page, problems):
        page.goto(f"{address}/profile/{profile_id(DEMOS[0])}?hardware=H20")
        note = page.get_by_role("note")
        expect(note).to_contain_text("What if it ran on H20?")
        expect(note).to_contain_text("NVIDIA B200")
        page.get_by_label("Bounds of").select_option("")
        page.get_by_role("note").wait_for(state="detached")
        assert problems == []


PLACEHOLDER_ROOM = """(field) => {
  const style = getComputedStyle(field), ruler = document.createElement("canvas").getContext("2d");
  ruler.font = style.font;
  const padding = parseFloat(style.paddingLeft) + parseFloat(style.paddingRight);
  return field.clientWidth - padding - ruler.measureText(field.placeholder).width;
}"""
"""Pixels that a field has beside what stands in it before anything is typed."""


def test_the_host_has_its_queue_over_time_and_the_slack_of_operators(
    browser: Browser, address: str
) -> None:
    with watched(browser) as (page, problems):
        page.goto(f"{address}/profile/{profile_id(DEMOS[0])}")
        drawn(page)
        queue = page.locator("#host .chart")
        expect(queue).to_have_attribute("aria-label", re.compile("Depth of the launch queue"))
        eventually(page, queue.locator("[data-tip*='in the mean']").count, lambda parts: parts > 20)
        page.locator("#host").get_by_text("Slack, by operator").click()
        rows = page.locator("#host table", has_text="Median slack").locator("tbody tr")
        expect(rows.filter(has_text="vllm::moe_forward")).to_have_count(1)
        assert problems == []


def test_a_config_ranks_what_has_no_shapes(browser: Browser, address: str, tmp_path: Path) -> None:
    (tmp_path / "no.json").write_text("{}")
    (tmp_path / "gpt-oss-20b.json").write_bytes(CONFIG)
    with watched(browser) as (page, problems):
        page.goto(f"{address}/profile/{profile_id(DEMOS[1])}")
        advice = page.get_by_text("Give the model's config (above)")
        expect(advice).to_be_visible()
        page.get_by_label("Model config").set_input_files(tmp_path / "no.json")
        expect(page.get_by_role("alert")).to_have_text(
            "no.json: not a model's config: it has no hidden_size"
        )
        page.get_by_label("Model config").set_input_files(tmp_path / "gpt-oss-20b.json")
        expect(page.get_by_role("note")).to_contain_text("from the config gpt-oss-20b.json")
        expect(page.get_by_role("alert")).to_have_count(0)
        expect(page.get_by_label("Model config")).to_have_value(re.compile("^[0-9a-f]{12}$"))
        expect(advice).to_have_count(0)
        assert page.get_by_label("Batch").evaluate(PLACEHOLDER_ROOM) >= 0
        expect(page.locator("#hotspots .about").first).to_contain_text("known for 99.")
        # Another GPU is chosen beside it.
        page.get_by_label("Bounds of").select_option("H200")
        expect(page).to_have_url(re.compile("model=.*hardware=H200"))
        page.get_by_label("Model config").select_option("")
        expect(advice).to_be_visible()
        assert [one for one in problems if "422" not in one] == []


def test_a_store_has_one_line_per_model_and_gpu(browser: Browser, tmp_path: Path) -> None:
    create_corpus(tmp_path / "store").append([extract(name) for name in DEMOS])
    with serving([str(tmp_path / "store")]) as address, watched(browser) as (page, problems):
        page.goto(f"{address}/corpus")
        expect(page.locator("#trend .chart svg")).to_have_count(2)
        for name in ("unknown model on B200", "unknown model on MI300X"):
            expect(page.locator("#trend h3").get_by_text(name, exact=True)).to_have_count(1)
        # They come with the answer about importance.
        eventually(page, page.locator("#trend-of option").count, lambda n: n > 1)
        assert problems == []
