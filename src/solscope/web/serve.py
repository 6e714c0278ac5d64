"""Listening: the address, the token, and a clean end."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import secrets
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from solscope.demo import DEMOS, PREFIX
from solscope.errors import MissingToolError, UsageError

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

    from solscope.web.library import Library

GRACE_S = 1
"""How long requests may continue after Ctrl-C."""


def serve(
    sources: Sequence[str],
    host: str,
    port: int,
    say: Callable[[str], None],
    uploads: tuple[Path, int] | None = None,
) -> None:
    """Serve the dashboard until interrupted; `uploads` is a folder and a largest size in bytes."""
    try:
        import uvicorn  # noqa: F401 - used in `_server`, missed here

        from solscope.web.answer_cache import DiskCache, answers_folder
        from solscope.web.app import Uploads, create_app
        from solscope.web.library import Library
        from solscope.web.sources import check_sources
        from solscope.web.warm_up import warm
    except ImportError as error:
        raise MissingToolError(
            f"the dashboard needs {error.name}: pip install 'solscope[web]'"
        ) from error
    disk_cache = DiskCache(answers_folder())
    check_sources(sources, disk_cache)
    if uploads is not None:
        sources = [*sources, *_uploaded(uploads[0])]
    library = Library(sources or _demos(), disk_cache)
    library.takes_uploads = uploads is not None
    token = None if is_loopback(host) else secrets.token_urlsafe(24)
    with listen(host, port) as listener:
        address, chosen = listener.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        query = f"/?token={token}" if token else "/"
        server = _server(create_app(library, [host], token, Uploads(*uploads) if uploads else None))
        say(f"solscope: {what_is_shown(library)} on http://{shown}:{chosen}{query}")
        say("solscope: press Ctrl-C to stop")
        threading.Thread(target=warm, args=(library,), daemon=True).start()
        with contextlib.suppress(KeyboardInterrupt):  # The documented way to stop.
            server.run(sockets=[listener])


def _demos() -> list[str]:
    """What the dashboard shows when no source is named."""
    return [f"{PREFIX}{name}" for name, demo in DEMOS.items() if demo.kind != "lab"]


def _uploaded(folder: Path) -> list[str]:
    """What was uploaded before; the folder is made where there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return [str(path) for path in files if not path.name.startswith(".")]


def _server(app: ASGIApp) -> uvicorn.Server:
    import uvicorn

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=GRACE_S,
    )
    config.load()
    server = uvicorn.Server(config)
    # At the end, requests that are cut off are not worth a line each.
    logging.getLogger("uvicorn.error").addFilter(lambda _: not server.should_exit)
    return server


def what_is_shown(library: Library) -> str:
    """What is shown, in words: `8 profiles, a store, benchmark results`."""
    count = len(library.entries)
    parts = ["1 profile" if count == 1 else f"{count} profiles"]
    parts += ["a store"] * library.has_store
    parts += ["benchmark results"] * bool(library.result_files)
    return ", ".join(parts)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket, or one clear line."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UsageError(f"cannot listen on {host}: {error.strerror or error}") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise UsageError(
            f"cannot listen on {host} port {port}: {error.strerror or error}; --port 0 picks a "
            "free one"
        ) from error
    return listener


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
