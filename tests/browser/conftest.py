"""A real browser, for what only a browser can tell."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, sync_playwright

import solscope
from solscope import attribute
from solscope.bench.results.files import read_results
from solscope.pages.bench import bench_page
from solscope.pages.comparison import comparison_page
from solscope.pages.profile import profile_page
from solscope.pages.selection import Page as Shown

if TYPE_CHECKING:
    from solscope.web.app import Uploads

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DEMOS = ["demo:vllm-b200", "demo:vllm-mi300x-graph"]
RESULTS = "tests/data/bench_results.jsonl"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium here: scripts/install-chromium installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


def demo_pages() -> list[Shown]:
    """A page of each kind that the demos and a few results make."""
    profiles = [attribute(solscope.open(name)) for name in DEMOS]
    return [
        profile_page(profiles[0], most_events=200_000),
        comparison_page(profiles, ["b200", "mi300x"]),
        bench_page(read_results([RESULTS]), "results"),
    ]


class Problems(list[str]):
    """Errors and refused loads that a page reported."""


@contextmanager
def watched(
    browser: Browser, *, width: int = 1440, height: int = 900, dark: bool = False
) -> Iterator[tuple[Page, Problems]]:
    """A page that lists everything that goes wrong on it."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
    )
    page, problems = context.new_page(), Problems()

    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            problems.append(message.text)

    def on_failed(request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # The page itself no longer wanted it.
            problems.append(f"failed: {request.url}")

    def on_dialog(dialog: Dialog) -> None:
        problems.append(dialog.message)
        dialog.dismiss()

    page.on("console", on_console)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("requestfailed", on_failed)
    page.on("dialog", on_dialog)
    try:
        yield page, problems
    finally:
        context.close()


def drawn(page: Page) -> None:
    """Wait for all charts: those outside the window are drawn when there is time."""
    page.wait_for_selector("main section, main h1", state="attached")
    page.wait_for_selector(".chart:not(:has(svg))", state="detached")


def treemap(page: Page) -> None:
    """Show the areas of the time by role and kernel in place of the icicle."""
    page.get_by_role("button", name="Treemap").click()
    page.wait_for_selector("#tree .areas svg")


@contextmanager
def serving(sources: list[str], uploads: Uploads | None = None) -> Iterator[str]:
    """The dashboard over `sources`, in a thread; gives its address."""
    import uvicorn

    from solscope.web.app import create_app
    from solscope.web.library import Library
    from solscope.web.serve import listen

    with listen("127.0.0.1", 0) as listener:
        library = Library(sources)
        library.takes_uploads = uploads is not None
        app = create_app(library, uploads=uploads)
        config = uvicorn.Config(app, log_level="error", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
