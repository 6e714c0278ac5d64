"""Frame times of the time line over a large trace, in a browser without a GPU.

The aim is p95 < 20 ms.

    python benchmarks/timeline.py [TRACE] [--frames 300]

The trace is served by the dashboard, and the time line is moved as keys and wheel move it, with the
stacks of the host open: through all of it from afar, across the middle level by level, zooming in
and out. Two times are taken per frame: between animation frames, and for the drawing itself.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parent))
from corpus import CACHE, describe

AIM_MS = 20.0
LARGE = CACHE / "mi300_xdit_sd3.5-c978aedd-x4.json.gz"
"""250 MB of JSON; `benchmarks/ingest.py` makes it."""
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]
MOVE = """
async ([from, to, frames, zoom, pan]) => {
  const drawing = document.querySelector(".timeline").timeline;
  drawing.show(from, to);
  await new Promise((done) => setTimeout(done, 600));
  const between = [], drawn = [];
  drawing.onFrame = (ms) => drawn.push(ms);
  let last = null;
  await new Promise((done) => {
    const step = (now) => {
      if (last !== null) between.push(now - last);
      last = now;
      if (between.length >= frames) return done();
      const forth = between.length < frames / 2;
      if (zoom) drawing.zoom(forth ? 1 / zoom : zoom, drawing.gutter + drawing.plot / 2);
      if (pan) drawing.pan(forth ? pan : -pan);
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  });
  drawing.onFrame = null;
  return { between, drawn };
}
"""


@contextmanager
def serving(trace: Path) -> Iterator[str]:
    """The dashboard over one trace; gives its address."""
    command = [sys.executable, "-m", "solscope", "serve", str(trace), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        yield process.stderr.readline().split()[-1].rstrip("/")
    finally:
        process.terminate()
        process.communicate()


def moves(span: float) -> list[tuple[str, list[float]]]:
    """What is measured: a name, and range, pixels per frame and factor per frame."""
    middle = span / 2
    found = [("all of it, moved", [span * 0.1, span * 0.9, 0, 12])]
    for name, part in (("1/10", 0.1), ("1/100", 0.01), ("1/1,000", 0.001), ("1/10,000", 0.0001)):
        found.append((f"{name} of it, moved", [middle, middle + span * part, 0, 12]))
    found.append(("zoomed in 10,000 times and out", [0, span, 10_000 ** (2 / 300), 0]))
    return [(name, [low, high, zoom, pan]) for name, (low, high, zoom, pan) in found]


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def measure(page: Page, frames: int) -> list[dict[str, Any]]:
    timeline = page.evaluate("document.querySelector('.timeline').timeline.timeline.span_ns")
    rows = []
    for name, (low, high, zoom, pan) in moves(float(timeline)):
        found = page.evaluate(MOVE, [low, high, frames, zoom, pan])
        between, drawn = found["between"], found["drawn"]
        rows.append(
            {
                "move": name,
                "p50_ms": statistics.median(between),
                "p95_ms": percentile(between, 0.95),
                "drawing_p50_ms": statistics.median(drawn),
                "drawing_p95_ms": percentile(drawn, 0.95),
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path, nargs="?", default=LARGE)
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if not given.trace.exists():
        sys.exit(f"no {given.trace}: benchmarks/ingest.py makes it")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("no Chromium here: scripts/install-chromium installs it")
    with serving(given.trace) as address, sync_playwright() as playwright:
        with urllib.request.urlopen(f"{address}/api/overview") as answer:
            name = json.load(answer)["profiles"][0]["id"]
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(300_000)
        start = time.perf_counter()
        page.goto(f"{address}/profile/{name}")
        page.wait_for_selector(".timeline .lanes canvas")
        while not page.evaluate("document.querySelector('.timeline').timeline.tiles.base !== null"):
            page.wait_for_timeout(20)
        first = time.perf_counter() - start
        page.get_by_role("button", name="Host calls").click()
        page.locator(".timeline").scroll_into_view_if_needed()
        page.wait_for_timeout(3_000)
        events = page.evaluate("document.querySelector('.timeline').timeline.timeline.events")
        rows = measure(page, given.frames)
        browser.close()
    print(f"{given.trace.name}: {events:,} events, first drawn after {first:.1f} s")
    print(f"{'':34}{'frame p50':>10}{'p95 ms':>8}{'drawing p50':>13}{'p95 ms':>8}")
    for row in rows:
        over = "" if row["p95_ms"] < AIM_MS else "  above the aim"
        print(
            f"{row['move']:34}{row['p50_ms']:10.1f}{row['p95_ms']:8.1f}"
            f"{row['drawing_p50_ms']:13.1f}{row['drawing_p95_ms']:8.1f}{over}"
        )
    machine = describe()
    print("\n".join(f"{key}: {value}" for key, value in machine.items()))
    if given.json:
        document = {"events": events, "first_s": first, "moves": rows, "machine": machine}
        given.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
