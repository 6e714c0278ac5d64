"""Reports, `show` and the page of a profile by two checkouts, in turn, in one table.

    python benchmarks/versions.py CHECKOUT [--runs 3] [--json out.json]

CHECKOUT is another version, with its native modules built in place (`setup.py build_ext
--inplace`); what it does not have is a dash. See README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from playwright.sync_api import Browser, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parent))
from corpus import DATA, describe
from dashboard import FLAGS, UNDISTURBED_S, Server

ROOT = Path(__file__).resolve().parents[1]
PROFILES = (DATA / "traces/b200_eager.json.gz", DATA / "h200/graph/normal.trace.json.gz")
PATIENCE_S = 60
READY_S = 1.0
"""From the printed address to the visit: sooner than anyone clicks on it."""
WATCH = """
window.solscopeTimes = {};
const look = () => {
  const times = window.solscopeTimes;
  if (!times.verdict && document.querySelector("#verdict .sentence")) {
    times.verdict = performance.now();
  }
  if (!times.table && document.querySelector("main tbody td")) times.table = performance.now();
  if (!times.table) requestAnimationFrame(look);
};
requestAnimationFrame(look);
"""
Figures = dict[str, list[float]]
"""By what was measured, one figure per run."""


def environment(checkout: Path, cache: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(checkout / "src"), "XDG_CACHE_HOME": cache}


def command(checkout: Path, *words: str) -> tuple[float, float]:
    """CPU seconds and most megabytes of a command with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        process = subprocess.Popen(
            [sys.executable, "-m", "solscope", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(checkout, cache),
        )
        _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{checkout}: solscope {' '.join(words)} failed")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1000


@contextmanager
def served(checkout: Path, profile: Path, cache: str) -> Iterator[tuple[Server, str]]:
    """A new server over one profile, and the path of that in the API."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "solscope", "serve", str(profile), "--port", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(checkout, cache),
    )
    assert process.stderr is not None
    try:
        address = process.stderr.readline().split()[-1].rstrip("/")
        one = Server(process, address, time.perf_counter() - start)
        yield one, f"profile/{one.ask('/api/overview')['profiles'][0]['id']}"
    finally:
        process.terminate()
        process.communicate()


def visit(browser: Browser, address: str) -> dict[str, float]:
    """When verdict and first table of a profile's page were there, ms; new browser context."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    tab = context.new_page()
    tab.add_init_script(WATCH)
    time.sleep(READY_S)
    tab.goto(address, wait_until="commit")
    time.sleep(UNDISTURBED_S)
    deadline = time.monotonic() + PATIENCE_S
    while not (times := tab.evaluate("window.solscopeTimes")).get("table"):
        if time.monotonic() > deadline:
            sys.exit(f"no table after {PATIENCE_S} s: {tab.inner_text('main')[:300]}")
        tab.wait_for_timeout(50)
    context.close()
    return {f"page, {what}": float(at) for what, at in times.items()}


def measure(browser: Browser, checkout: Path, profile: Path) -> dict[str, float]:
    """Everything about one version and one profile, once."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "report.html"
        used = command(checkout, "report", str(profile), "-o", str(out), "--force")
        found["report, CPU s"], found["report, MB"] = used
        found["report, kB"] = out.stat().st_size / 1000
    found["show, CPU s"], found["show, MB"] = command(checkout, "show", str(profile))
    with (
        tempfile.TemporaryDirectory() as cache,
        served(checkout, profile, cache) as (one, path),
    ):
        one.ask(f"/api/{path}")
        found["first answer, CPU s"] = one.cpu_ms() / 1000
        found["first answer, MB"] = one.most_mb()
    with tempfile.TemporaryDirectory() as cache:
        for when in ("first time", "read before"):
            with served(checkout, profile, cache) as (one, path):
                times = visit(browser, f"{one.address}/{path}")
                # The answer is kept after it was given.
                time.sleep(READY_S)
            found.update({f"{what}, {when}, ms": at for what, at in times.items()})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path, metavar="CHECKOUT")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("no Chromium here: scripts/install-chromium installs it")
    sides = {"before": given.before.absolute(), "now": ROOT}
    figures: dict[str, dict[str, Figures]] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        browser.new_context().new_page().goto("about:blank")
        for profile in PROFILES:
            of = figures.setdefault(profile.name, {side: {} for side in sides})
            for _ in range(given.runs):
                for side, checkout in sides.items():
                    for what, value in measure(browser, checkout, profile).items():
                        of[side].setdefault(what, []).append(value)
        browser.close()
    print(f"least and median of {given.runs} runs in turn")
    for name, of in figures.items():
        print(f"\n{name:38}{'before':>18}{'now':>18}")
        for what in of["now"]:
            print(f"{what:38}{''.join(f'{text(of[side].get(what)):>18}' for side in sides)}")
    machine = describe()
    print("\n" + "\n".join(f"{key}: {value}" for key, value in machine.items()))
    if given.json:
        document = {"figures": figures, "machine": machine}
        given.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def text(values: list[float] | None) -> str:
    if not values:
        return "-"
    digits = 2 if max(values) < 100 else 0
    return f"{min(values):,.{digits}f} {median(values):,.{digits}f}"


if __name__ == "__main__":
    main()
