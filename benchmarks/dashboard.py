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
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Browser, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parent))
from corpus import CACHE, DATA, PROFILES, build, describe, subset
from vary import real_traces, write_variants

ROOT = Path(__file__).resolve().parents[1]
AIM_MS = 300
AIM_START_S = 1.0
AFTER_S = (0.0, 1.0)
"""When pages are opened: at once, and when someone has had time to click on the address."""
PATIENCE_S = 60
UNDISTURBED_S = 0.8
"""Time for a page to load before it is asked how long that took: asking takes time as well."""
SETTLED_S = 5.0
"""Time without a new answer, and without work, after which all are taken to be made."""
IDLE = 0.1
"""Share of a core below which a server does not work."""
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
STORE_PARTS = ("#importance tbody td", "#trend .chart", "#profiles tbody td")
PROFILE_PARTS = ("#kernels tbody td", "#tree .icicle")
COMPILING = ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
"""The first start compiles the program, as an installer does; the others find it compiled."""
RUNS = ("normal", "extra_sync")
"""Two recordings of one serving loop on an H200, 30 MB of JSON each."""


@dataclass(frozen=True)
class Page:
    """A page to open, and what it consists of."""

    name: str
    path: str
    parts: tuple[str, ...]
    """Its tables; `{a}`, `{b}` and `{demo}` in the path are ids of profiles."""
    first_time: bool = False
    """Nothing of an earlier start is there: profiles must be read."""


PAGES = (
    Page("profiles", "/", ("#profiles tbody td",)),
    Page("store", "/corpus", STORE_PARTS),
    Page("store by kernel", "/corpus?by=kernel", STORE_PARTS),
    Page("store by shape", "/corpus?by=shape", STORE_PARTS),
    Page("store, one GPU", "/corpus?gpu=H200", STORE_PARTS),
    Page("store, two filters", "/corpus?framework=sglang&gpu=MI300X", STORE_PARTS),
    Page("store, new question", "/corpus?framework=sglang&gpu=MI300X&what=attention", STORE_PARTS),
    Page("suite", "/suite", ("#suite tbody td", "#roofline .chart")),
    Page("suite, one operator", "/suite/unified_attention", ("#shapes tbody td",)),
    Page("benchmark", "/bench", ("#leaderboard tbody td", "#operators tbody td")),
    Page("benchmark, run diff", "/bench?{solutions}", ("#diff tbody td",)),
    Page("demo profile", "/profile/{demo}", PROFILE_PARTS),
    Page("profile", "/profile/{a}", PROFILE_PARTS),
    Page("compare", "/compare?a={a}&b={b}", ("main tbody td", "main .chart")),
    Page("diagnose", "/diagnose?a={a}&b={b}", ("main tbody td", "main .chart")),
    Page("profile, first time", "/profile/{a}", PROFILE_PARTS, first_time=True),
    Page(
        "diagnose, first time",
        "/diagnose?a={a}&b={b}",
        ("main tbody td", "main .chart"),
        first_time=True,
    ),
)
KINDS = ("shown", "table", "window", "whole")
SHOWN = "main tbody td, main .working li strong"
"""The first thing of use: a row of a table, or which file is being read and how far that is."""
WATCH = """
const wanted = WANTED;
window.solscopeTimes = {};
const look = () => {
  const times = window.solscopeTimes;
  if (!times.shown && document.querySelector(SHOWN)) times.shown = performance.now();
  const told = document.querySelector("#verdict .sentence");
  if (!times.verdict && told) times.verdict = performance.now();
  if (!times.table && document.querySelector("main tbody td")) times.table = performance.now();
  if (!times.whole && wanted.every((one) => document.querySelector(one))) {
    const open = [...document.querySelectorAll(".chart:not(:has(svg))")];
    const seen = open.filter((one) => one.getBoundingClientRect().top < window.innerHeight);
    if (!times.window && !seen.length) times.window = performance.now();
    if (!open.length) times.whole = performance.now();
  }
  if (!times.whole) requestAnimationFrame(look);
};
requestAnimationFrame(look);
"""


@dataclass(frozen=True)
class Visit:
    """One page, seen for the first time."""

    page: str
    after_s: float
    """Time between the printed address and the visit."""
    start_s: float
    """From the start of the process to the printed address."""
    shown_ms: float
    """From the start of the navigation to the first thing of use in the page."""
    verdict_ms: float | None
    """To the sentence that a page begins with; null where it has none."""
    table_ms: float
    """To the first row of a table."""
    window_ms: float
    """To all tables, and all charts in the window of 1440 x 900."""
    whole_ms: float
    """To the last chart, however far down."""
    server_cpu_ms: float
    """Processor time of the server since its address was printed."""
    server_mb: float
    """Most memory that the server has had."""


@dataclass(frozen=True)
class Report:
    """A report of one profile, made without a cache."""

    profile: str
    kb: float
    cpu_s: float
    """User and system, all threads; least of the runs."""
    mb: float
    """Most memory."""


@dataclass(frozen=True)
class Server:
    """A dashboard in a process of its own."""

    process: subprocess.Popen[str]
    address: str
    start_s: float

    def cpu_ms(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def most_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1000

    def ask(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.address}{path}") as answer:
            return json.load(answer)


@contextmanager
def server(store: Path, cache: Path) -> Iterator[Server]:
    """The dashboard in a new process."""
    start = time.perf_counter()
    runs = [str(path) for path in run_files() if path.is_file()]
    inherited = {name: os.environ[name] for name in os.environ if name not in COMPILING}
    command = ["serve", str(store), "demo:vllm-b200", *runs, "tests/data/bench_results.jsonl"]
    process = subprocess.Popen(
        [sys.executable, "-m", "solscope", *command, "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={
            **inherited,
            "XDG_CACHE_HOME": str(cache),
            "PYTHONPYCACHEPREFIX": str(cache.parent / "compiled"),
        },
    )
    assert process.stderr is not None
    try:
        address = process.stderr.readline().split()[-1].rstrip("/")
        yield Server(process, address, time.perf_counter() - start)
    finally:
        process.terminate()
        process.communicate()


def run_files() -> list[Path]:
    """The recordings that are compared."""
    return [DATA / "h200" / "runs" / f"{name}.trace.json.gz" for name in RUNS]


def names_of(store: Path, cache: Path) -> dict[str, str]:
    """What stands for the names in braces of a page's path."""
    with server(store, cache) as one:
        overview = one.ask("/api/overview")
    ids = [entry["id"] for entry in overview["profiles"]]
    a, b = overview["solutions"][:2]
    names = {"demo": ids[0], "solutions": urlencode({"a": a, "b": b})}
    return {**names, "a": ids[1], "b": ids[2]} if len(ids) > 2 else names


def visit(browser: Browser, store: Path, cache: Path, page: Page, path: str, after: float) -> Visit:
    """Open one page of a new server in a new browser context."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    tab = context.new_page()
    tab.add_init_script(
        WATCH.replace("WANTED", json.dumps(page.parts)).replace("SHOWN", json.dumps(SHOWN))
    )
    with server(store, cache) as one:
        before = one.cpu_ms()
        time.sleep(after)
        tab.goto(f"{one.address}{path}", wait_until="commit")
        time.sleep(UNDISTURBED_S)
        deadline = time.monotonic() + PATIENCE_S
        while not (times := tab.evaluate("window.solscopeTimes")).get("whole"):
            if time.monotonic() > deadline:
                text = tab.inner_text("main")[:500]
                sys.exit(f"{page.name}: not whole after {PATIENCE_S} s: {text}")
            tab.wait_for_timeout(50)
        spent, most = one.cpu_ms() - before, one.most_mb()
        context.close()
    told = {f"{name}_ms": float(times[name]) for name in KINDS}
    return Visit(
        page=page.name,
        after_s=after,
        start_s=one.start_s,
        verdict_ms=times.get("verdict"),
        server_cpu_ms=spent,
        server_mb=most,
        **told,
    )


def reported(profile: Path, runs: int) -> Report:
    """Write a report several times, each in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "report.html"
        command = [sys.executable, "-m", "solscope", "report", str(profile), "-o", str(out)]
        used = []
        for _ in range(runs):
            process = subprocess.Popen(
                [*command, "--force", "--no-cache"], stdout=subprocess.DEVNULL
            )
            _, status, spent = os.wait4(process.pid, 0)
            if status:
                sys.exit(f"report of {profile} failed")
            used.append((spent.ru_utime + spent.ru_stime, spent.ru_maxrss / 1000))
        least = min(used)
        return Report(profile.name, out.stat().st_size / 1000, *least)


def prepare(store: Path, cache: Path) -> float:
    """The first start over a store: how long until all that is made ahead is there."""
    answers = cache / "solscope" / "answers"
    start = last = time.perf_counter()
    with server(store, cache) as one:
        count, spent = -1, one.cpu_ms()
        while time.perf_counter() - last < SETTLED_S:
            time.sleep(0.5)
            found, now = len(list(answers.glob("*"))), one.cpu_ms()
            # On a busy machine one answer can take longer than it takes to look settled.
            if found != count or now - spent > 500 * IDLE:
                last = time.perf_counter()
            count, spent = found, now
    return last - start


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
    parser.add_argument("--only", help="pages whose name holds this text")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    store = (given.store or made_store(given.profiles)).absolute()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("no Chromium here: scripts/install-chromium installs it")
    visits: list[Visit] = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        cache, bare, used = (Path(folder) / name for name in ("kept", "bare", "used"))
        first = prepare(store, cache)
        shutil.copytree(cache, bare)
        names = names_of(store, cache)
        pages = [page for page in PAGES if (given.only or "") in page.name]
        if "a" not in names:
            print(f"no recordings in {DATA}: pages of them are left out")
            pages = [page for page in pages if "{a}" not in page.path]
        paths = {page.name: page.path.format(**names) for page in pages}
        with server(store, cache) as one:
            for page in pages:
                if "{" in page.path and "{solutions}" not in page.path and not page.first_time:
                    one.ask(f"/api{paths[page.name]}")
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        browser.new_context().new_page().goto("about:blank")
        print(f"ms: best, median, worst of {given.runs}; processor time of the server: median")
        for after in AFTER_S:
            print(
                f"\nvisited {f'{after:.0f} s' if after else 'right'} after the address is printed"
            )
            heads = ("first of use", "first table", "window", "whole page")
            print(
                f"{'':22}{''.join(f'{head:>18}' for head in heads)}"
                f"{'verdict':>9}{'server':>8}{'MB':>8}"
            )
            for page in pages:
                found = []
                for _ in range(given.runs):
                    shutil.rmtree(used, ignore_errors=True)
                    shutil.copytree(bare if page.first_time else cache, used)
                    found.append(visit(browser, store, used, page, paths[page.name], after))
                show(page.name, found)
                visits += found
        browser.close()
    reports = [reported(path, given.runs) for path in run_files() if path.exists()]
    for made in reports:
        costs = f"{made.kb:,.0f} kB, {made.cpu_s:.2f} CPU s, {made.mb:.0f} MB"
        print(f"\nreport of {made.profile}: {costs}")
    starts = [one.start_s for one in visits]
    print(
        f"\nstart-up {min(starts):.2f} s best, {statistics.median(starts):.2f} s median, "
        f"{max(starts):.2f} s worst (aim {AIM_START_S:.0f} s); all answers made ahead "
        f"{first:.1f} s after the first start over this store"
    )
    machine = describe()
    print("\n".join(f"{key}: {value}" for key, value in machine.items()))
    if given.json:
        document = {
            "visits": [asdict(one) for one in visits],
            "reports": [asdict(one) for one in reports],
            "first_s": first,
            "machine": machine,
        }
        given.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def show(name: str, visits: list[Visit]) -> None:
    """One line of the table."""
    columns = [[getattr(v, f"{kind}_ms") for v in visits] for kind in KINDS]
    texts = [
        f"{min(times):7.0f}{statistics.median(times):5.0f}{max(times):6.0f}" for times in columns
    ]
    server_ms = statistics.median(v.server_cpu_ms for v in visits)
    over = "" if statistics.median(columns[-1]) <= AIM_MS else "  above the aim"
    told = [v.verdict_ms for v in visits if v.verdict_ms is not None]
    verdict = f"{statistics.median(told):9.0f}" if told else f"{'-':>9}"
    most = max(v.server_mb for v in visits)
    print(f"{name:22}{''.join(texts)}{verdict}{server_ms:8.0f}{most:8.0f}{over}", flush=True)


if __name__ == "__main__":
    main()
