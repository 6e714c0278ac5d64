"""A real browser, for what only a browser can tell."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from playwright.sync_api import (
    Browser,
    ConsoleMessage,
    Dialog,
    FloatRect,
    Locator,
    Page,
    Request,
    expect,
    sync_playwright,
)

import solscope
from solscope import attribute
from solscope.bench.results.files import read_results
from solscope.pages.bench import bench_page
from solscope.pages.comparison import comparison_page
from solscope.pages.profile import profile_page
from solscope.pages.selection import Page as Shown
from tests.memory import has_room

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from solscope.web.app import Uploads

T = TypeVar("T")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DEMOS = ["demo:vllm-b200", "demo:vllm-mi300x-graph"]
RESULTS = "tests/data/bench_results.jsonl"
PATIENCE_S = 120
"""How long to wait for what has to come: far longer than a busy machine needs."""
SLOW_ANSWERS_MS = int(os.environ.get("SOLSCOPE_SLOW_ANSWERS_MS", "0"))
SLOW_PROCESSOR = float(os.environ.get("SOLSCOPE_SLOW_PROCESSOR", "1"))
"""To provoke races: answers of the API come up to so late, and pages run so many times slower."""
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium here: scripts/install-chromium installs it")
    with sync_playwright() as playwright:
        # Where it may be small, Playwright has processes share memory through files on the disk.
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=FLAGS,
            ignore_default_args=["--disable-dev-shm-usage"] if has_room() else None,
        )
        yield browser
        _IDLE.clear()
        browser.close()


expect.set_options(timeout=1000 * PATIENCE_S)


def eventually(page: Page, read: Callable[[], T], holds: Callable[[T], Any]) -> T:
    """Read again until it holds: `expect`, for what is neither an element nor an address.

    Playwright's `wait_for_function` cannot be used where the content policy forbids `eval`.
    """
    end = monotonic() + PATIENCE_S
    while not holds(value := read()):
        if monotonic() > end:
            raise AssertionError(f"still not so after {PATIENCE_S} s: {value!r}")
        page.wait_for_timeout(20)
    return value


def until(page: Page, condition: str) -> None:
    """Wait until a JavaScript expression is true."""
    eventually(page, lambda: (condition, page.evaluate(condition)), lambda read: read[1])


FRAME = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"


def settle(page: Page) -> None:
    """Wait until what was drawn has its listeners: components attach them after a frame."""
    page.evaluate(FRAME)
    page.evaluate(FRAME)


def standing(page: Page, locator: Locator) -> FloatRect:
    """Where an element is, once nothing moves it any more."""
    before = None
    end = monotonic() + PATIENCE_S
    while True:
        place = eventually(page, locator.bounding_box, lambda box: box is not None)
        assert place is not None
        if place == before:
            return place
        if monotonic() > end:
            raise AssertionError(f"still moving after {PATIENCE_S} s: {before} to {place}")
        before = place
        settle(page)


@cache
def demo_pages() -> tuple[Shown, ...]:
    """A page of each kind that the demos and a few results make."""
    profiles = [attribute(solscope.open(name)) for name in DEMOS]
    return (
        profile_page(profiles[0], most_events=200_000),
        comparison_page(profiles, ["b200", "mi300x"]),
        bench_page(read_results([RESULTS]), "results"),
    )


class Problems(list[str]):
    """Errors and refused loads that a page reported."""


_IDLE: list[Page] = []
"""Pages that no test uses now."""


def _new_page(browser: Browser) -> Page:
    context = browser.new_context()
    context.set_default_timeout(1000 * PATIENCE_S)
    page = context.new_page()
    if SLOW_PROCESSOR > 1:
        session = context.new_cdp_session(page)
        session.send("Emulation.setCPUThrottlingRate", {"rate": SLOW_PROCESSOR})
    return page


def _forget(page: Page) -> None:
    """Leave a page as if it had not been used; it keeps listeners that a test does not take off."""
    for other in page.context.pages:
        if other is not page:
            other.close()
    page.evaluate("try { localStorage.clear(); sessionStorage.clear() } catch {}")
    page.goto("about:blank")
    page.mouse.move(0, 0)
    session = page.context.new_cdp_session(page)
    for request in ("Network.clearBrowserCache", "Page.resetNavigationHistory"):
        session.send(request)
    session.detach()
    page.context.clear_cookies()


@contextmanager
def listening(page: Page, **handlers: Callable[[Any], None]) -> Iterator[None]:
    """Call handlers, by the name of what happens on a page."""
    for event, handler in handlers.items():
        page.on(event, handler)  # type: ignore[call-overload]
    yield
    for event, handler in handlers.items():
        page.remove_listener(event, handler)


@contextmanager
def watched(
    browser: Browser, *, width: int = 1440, height: int = 900, dark: bool = False
) -> Iterator[tuple[Page, Problems]]:
    """A page that lists everything that goes wrong on it.

    It is the one of an earlier test that passed: a new one, with its process, whose script is
    compiled again, takes three times as much CPU time until it shows something.
    """
    page, problems = _IDLE.pop() if _IDLE else _new_page(browser), Problems()
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(media="null", color_scheme="dark" if dark else "light")

    def on_console(message: ConsoleMessage) -> None:
        # That an answer was not used within seconds says how fast the machine is. That pages
        # use all answers is tested in `test_a_page_asks_for_all_that_is_loaded_ahead`.
        late = "was preloaded using link preload but not used" in message.text
        if message.type in ("error", "warning") and not late:
            problems.append(message.text)

    def on_failed(request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # The page itself no longer wanted it.
            problems.append(f"failed: {request.url}")

    def on_dialog(dialog: Dialog) -> None:
        problems.append(dialog.message)
        dialog.dismiss()

    try:
        with listening(
            page,
            console=on_console,
            pageerror=lambda error: problems.append(str(error)),
            requestfailed=on_failed,
            dialog=on_dialog,
        ):
            yield page, problems
    except BaseException:
        page.context.close()
        raise
    _forget(page)
    _IDLE.append(page)


def drawn(page: Page) -> None:
    """Wait for all charts: those outside the window are drawn when there is time."""
    page.wait_for_selector("main section, main h1", state="attached")
    page.wait_for_selector(".chart:not(:has(svg))", state="detached")
    settle(page)


def treemap(page: Page) -> None:
    """Show the areas of the time by role and kernel in place of the icicle."""
    page.get_by_role("button", name="Treemap").click()
    page.wait_for_selector("#tree .areas svg")
    settle(page)


class SlowAnswers:
    """Hold back answers of the API, each for a time of its own."""

    def __init__(self, app: ASGIApp, most_ms: int) -> None:
        self.app, self.most_ms = app, most_ms

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.most_ms and scope.get("path", "").startswith("/api/"):
            question = scope["path"].encode() + scope.get("query_string", b"")
            await asyncio.sleep((0.2 + 0.8 * zlib.crc32(question) / 2**32) * self.most_ms / 1000)
        await self.app(scope, receive, send)


@contextmanager
def serving(
    sources: list[str], uploads: Uploads | None = None, slow_ms: int = SLOW_ANSWERS_MS
) -> Iterator[str]:
    """The dashboard over `sources`, in a thread; gives its address."""
    import uvicorn

    from solscope.web.app import create_app
    from solscope.web.library import Library
    from solscope.web.serve import listen

    with listen("127.0.0.1", 0) as listener:
        library = Library(sources)
        library.takes_uploads = uploads is not None
        app = SlowAnswers(create_app(library, uploads=uploads), slow_ms)
        config = uvicorn.Config(app, log_level="error", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
