"""Pages of the dashboard over a store of 1,303 profiles, cold: the aim is 300 ms, start-up 1 s.

Every figure has a server process and a browser context of its own; see README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parent))
from corpus import CACHE, DATA, PROFILES, build, describe, subset
from vary import real_traces, write_variants

ROOT = Path(__file__).resolve().parents[1]
AIM_MS = 300
AIM_START_S = 1.0
PATIENCE_S = 60
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
STORE_PARTS = ("#importance tbody td", "#trend .chart svg", "#profiles tbody td")
PAGES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("profiles", "/", ("#profiles tbody td",)),
    ("store", "/corpus", STORE_PARTS),
    ("store by kernel", "/corpus?by=kernel", STORE_PARTS),
    ("store by shape", "/corpus?by=shape", STORE_PARTS),
    ("store, one GPU", "/corpus?gpu=H200", STORE_PARTS),
    ("suite", "/suite", ("#suite tbody td", "#roofline .chart svg")),
    ("suite, one operator", "/suite/unified_attention", ("#shapes tbody td",)),
    ("benchmark", "/bench", ("#leaderboard tbody td", "#operators tbody td")),
    ("demo profile", "/profile/{demo}", ("#kernels tbody td", "#tree .chart svg")),
)
WATCH = """
const wanted = WANTED;
window.solscopeTimes = {};
const look = () => {
  const times = window.solscopeTimes;
  if (!times.table && document.querySelector("main tbody td")) times.table = performance.now();
  if (!times.whole && wanted.every((one) => document.querySelector(one)))
    times.whole = performance.now();
  if (!times.whole) requestAnimationFrame(look);
};
requestAnimationFrame(look);
"""


@dataclass(frozen=True)
class Visit:
    """One page, seen for the first time."""

    page: str
    start_s: float
    """From the start of the process to the printed address."""
    table_ms: float
    """From the start of the navigation to the first row of a table in the page."""
    whole_ms: float
    """To the last of its tables and charts."""


@contextmanager
def server(store: Path, cache: Path) -> Iterator[tuple[str, float]]:
    """The dashboard in a new process; its address, and how long it took to print it."""
    start = time.perf_counter()
    command = ["serve", str(store), "demo:vllm-b200", "tests/data/bench_results.jsonl"]
    process = subprocess.Popen(
        [sys.executable, "-m", "solscope", *command, "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
    )
    assert process.stderr is not None
    try:
        address = process.stderr.readline().split()[-1].rstrip("/")
        yield address, time.perf_counter() - start
    finally:
        process.terminate()
        process.communicate()


def visit(browser: Browser, store: Path, cache: Path, name: str) -> Visit:
    """Open one page of a new server in a new browser context."""
    _, path, wanted = next(page for page in PAGES if page[0] == name)
    with server(store, cache) as (address, start_s):
        if "{demo}" in path:
            with urllib.request.urlopen(f"{address}/api/overview") as answer:
                path = path.replace("{demo}", json.load(answer)["profiles"][0]["id"])
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        page = context.new_page()
        page.add_init_script(WATCH.replace("WANTED", json.dumps(wanted)))
        page.goto(f"{address}{path}")
        deadline = time.monotonic() + PATIENCE_S
        while not (times := page.evaluate("window.solscopeTimes")).get("whole"):
            if time.monotonic() > deadline:
                sys.exit(f"{name}: not whole after {PATIENCE_S} s: {page.inner_text('main')[:500]}")
            page.wait_for_timeout(50)
        context.close()
    return Visit(name, start_s, times["table"], times["whole"])


def prepare(store: Path, cache: Path) -> float:
    """The first start over a store: how long until all that is made ahead is there."""
    start = time.perf_counter()
    with server(store, cache) as (address, _):
        for by in ("operator", "shape", "category", "role", "kernel"):
            urllib.request.urlopen(f"{address}/api/corpus/importance?by={by}").read()
        for path in (
            *("/api/overview", "/api/corpus", "/api/corpus/trend?what=step", "/api/bench"),
            *("/api/suite?hardware=H20,XPU-A,H200",),
        ):
            urllib.request.urlopen(f"{address}{path}").read()
    return time.perf_counter() - start


def made_store(profiles: int) -> Path:
    """The store of `benchmarks/corpus.py`, built when it is not there."""
    store = CACHE / f"store-{profiles}"
    if not store.is_dir():
        traces = real_traces(DATA)
        if not traces:
            sys.exit(f"no traces in {DATA}")
        write_variants(traces, CACHE / "variants", range(profiles))
        build(subset(CACHE / "variants", profiles), store, "local", 2)
    return store


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, help="a store; else that of corpus.py")
    parser.add_argument("--profiles", type=int, default=PROFILES)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    store = given.store or made_store(given.profiles)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("no Chromium here: scripts/install-chromium installs it")
    visits = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        cache = Path(folder)
        first = prepare(store, cache)
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        browser.new_context().new_page().goto("about:blank")
        print("best, median and worst of", given.runs)
        for name, *_ in PAGES:
            visits += [visit(browser, store, cache, name) for _ in range(given.runs)]
            show(name, [one for one in visits if one.page == name])
        browser.close()
    starts = [one.start_s for one in visits]
    print(
        f"start-up {min(starts):.2f} s best, {statistics.median(starts):.2f} s median "
        f"(aim {AIM_START_S:.0f} s); first start over this store: {first:.1f} s to all answers"
    )
    machine = describe()
    print("\n".join(f"{key}: {value}" for key, value in machine.items()))
    if given.json:
        document = {"visits": [asdict(one) for one in visits], "first_s": first, "machine": machine}
        given.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def show(name: str, visits: list[Visit]) -> None:
    """One line of the table."""
    columns = [[v.table_ms for v in visits], [v.whole_ms for v in visits]]
    texts = [
        f"{min(times):5.0f} {statistics.median(times):5.0f} {max(times):5.0f}" for times in columns
    ]
    over = "" if min(columns[1]) <= AIM_MS else "  (above the aim)"
    print(f"{name:20} first table {texts[0]}, whole page {texts[1]} ms{over}", flush=True)


if __name__ == "__main__":
    main()
