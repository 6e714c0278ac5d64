"""The dashboard below a path of a host, behind a reverse proxy."""

from __future__ import annotations

import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Request, expect

from solscope.web.app import Uploads, create_app
from solscope.web.library import Library, profile_id
from solscope.web.serve import Exposure, _server, listen
from tests.browser.conftest import DEMOS, RESULTS, drawn, listening, settle, watched

pytestmark = pytest.mark.browser
ROOT = "/team/perf"
PASSED_ON = ("content-type", "content-length", "x-solscope", "origin", "host")


@contextmanager
def proxied(sources: list[str], folder: Path, takes_off: bool) -> Iterator[str]:
    """The dashboard at `ROOT` of a host that has nothing else; gives the address of the host."""
    exposure = Exposure(root_path=ROOT)
    library = Library(sources)
    library.takes_uploads = True
    with listen("127.0.0.1", 0) as listener:
        behind = f"http://127.0.0.1:{listener.getsockname()[1]}"
        server = _server(create_app(library, uploads=Uploads(folder, 10_000_000)), exposure)
        serving = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        serving.start()
        proxy = ThreadingHTTPServer(("127.0.0.1", 0), _handler(behind, takes_off))
        proxying = threading.Thread(target=proxy.serve_forever)
        proxying.start()
        try:
            yield f"http://127.0.0.1:{proxy.server_port}"
        finally:
            proxy.shutdown()
            proxying.join()
            proxy.server_close()
            server.should_exit = True
            serving.join()


def _handler(behind: str, takes_off: bool) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self.path.startswith(f"{ROOT}/"):
                self.send_error(404)
                return
            size = int(self.headers.get("content-length", "0"))
            asked = urllib.request.Request(
                behind + (self.path.removeprefix(ROOT) if takes_off else self.path),
                self.rfile.read(size) if size else None,
                {name: self.headers[name] for name in PASSED_ON if name in self.headers},
                method=self.command,
            )
            try:
                answer = urllib.request.urlopen(asked)
            except urllib.error.HTTPError as error:
                answer = error
            with answer:
                body = answer.read()
                self.send_response(answer.status)
                for name in ("content-type", "content-security-policy", "content-disposition"):
                    if name in answer.headers:
                        self.send_header(name, answer.headers[name])
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the name that http.server calls

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@pytest.mark.parametrize("takes_off", [True, False], ids=["taken off", "passed on"])
def test_all_works_below_a_path(browser: Browser, tmp_path: Path, takes_off: bool) -> None:
    sources = [*DEMOS, RESULTS]
    outside: list[str] = []

    def on_request(one: Request) -> None:
        if not one.url.startswith(host + ROOT):
            outside.append(one.url)

    with (
        proxied(sources, tmp_path, takes_off) as host,
        watched(browser) as (page, problems),
        listening(page, request=on_request),
    ):
        page.goto(f"{host}{ROOT}/")
        page.get_by_role("link", name="vllm-b200").click()
        expect(page).to_have_url(f"{host}{ROOT}/profile/{profile_id(DEMOS[0])}")
        # Events by range, the host side, and what a choice asks for.
        page.wait_for_selector(".timeline .lanes canvas")
        page.wait_for_selector("#host")
        page.get_by_role("button", name="Choose range in sight").click()
        expect(page.locator("#kernels h2")).to_have_text("Kernels in range")
        expect(page).to_have_url(re.compile(rf"{re.escape(host + ROOT)}/profile/.*range="))
        with page.expect_download() as waiting:
            page.get_by_role("link", name="Download for Perfetto").click()
        assert waiting.value.suggested_filename.endswith("perfetto.json.gz")
        page.reload()
        expect(page.locator("#kernels h2")).to_have_text("Kernels in range")
        page.get_by_label("Bounds of").select_option("H200")
        expect(page.locator("[role=note]").first).to_contain_text("What if it ran on H200?")
        page.get_by_role("link", name="Diagnose: its slow steps").click()
        expect(page.locator("#verdict h2")).to_have_text("Cannot tell")
        page.get_by_label("Compare with the normal run").select_option(label=DEMOS[1])
        expect(page.locator("#verdict .sentence")).to_contain_text("cannot be compared")
        page.go_back()
        expect(page.locator("#verdict h2")).to_have_text("Cannot tell")
        for name, shown in (("Suite", "#suite tbody td"), ("Benchmark", "#solutions")):
            page.get_by_role("link", name=name, exact=True).click()
            page.wait_for_selector(shown)
        page.get_by_role("link", name="Profiles", exact=True).click()
        expect(page).to_have_url(f"{host}{ROOT}/")
        page.locator("input[type=file]").set_input_files("tests/data/kineto_b200.json.gz")
        expect(page.locator(".drop li")).to_contain_text("kineto_b200.json.gz: added")
        # An address of its own, from a link that was copied.
        page.goto(f"{host}{ROOT}/suite/rms_norm")
        page.wait_for_selector("main tbody td")
        drawn(page)
        settle(page)
        assert outside == []
        assert problems == []
