"""Listening: the address, the token, and a clean end."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import re
import secrets
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from solscope.demo import DEMOS, PREFIX
from solscope.errors import MissingToolError, UsageError

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

    from solscope.web.library import Library

TOKEN_VARIABLE = "SOLSCOPE_TOKEN"  # noqa: S105 - the name of one
MIN_TOKEN = 16
_TOKEN = re.compile(rf"[A-Za-z0-9_-]{{{MIN_TOKEN},}}")
LOOK_AGAIN_S = 5.0
"""How often to look for new profiles to read ahead."""
GRACE_S = 1
"""How long requests may continue after Ctrl-C."""


@dataclass(frozen=True)
class Exposure:
    """How others reach the dashboard."""

    token: bool = False
    """Ask for a token on loopback as well: other users of this machine can connect to it."""
    token_file: Path | None = None
    """The token, instead of a new one at each start."""
    root_path: str = ""
    """The path below which a proxy shows the dashboard, whether it takes it off or not."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses whose X-Forwarded-For and X-Forwarded-Proto are believed."""
    certificate: Path | None = None
    key: Path | None = None
    audit_log: Path | None = None
    """Where a line per request goes; `-` is stderr."""


def serve(
    sources: Sequence[str],
    host: str,
    port: int,
    say: Callable[[str], None],
    uploads: tuple[Path, int, int] | None = None,
    exposure: Exposure | None = None,
) -> None:
    """Serve the dashboard until interrupted.

    `uploads` is a folder, the largest size of one file and of all in bytes.
    """
    exposure = exposure or Exposure()
    try:
        import uvicorn  # noqa: F401 - used in `_server`, missed here

        from solscope.web.answer_cache import DiskCache, answers_folder
        from solscope.web.app import Uploads, create_app
        from solscope.web.audit import Audit
        from solscope.web.library import Library
        from solscope.web.sources import check_sources
        from solscope.web.upload import uploading_to
        from solscope.web.warm_up import warm
    except ImportError as error:
        raise MissingToolError(
            f"the dashboard needs {error.name}: pip install 'solscope[web]'"
        ) from error
    token = chosen_token(host, exposure)
    disk_cache = DiskCache(answers_folder())
    check_sources(sources, disk_cache)
    with ExitStack() as held:
        if uploads is not None:
            held.enter_context(uploading_to(uploads[0]))
            sources = [*sources, *_uploaded(uploads[0])]
        library = Library(sources or _demos(), disk_cache)
        library.takes_uploads = uploads is not None
        app = create_app(library, [host], token, Uploads(*uploads) if uploads else None)
        if exposure.audit_log is not None:
            app = Audit(app, held.enter_context(_audit_writer(exposure.audit_log)))
        listener = held.enter_context(listen(host, port))
        server = _server(app, exposure)
        say(f"solscope: {what_is_shown(library)} on {address_of(listener, exposure, token)}")
        say("solscope: press Ctrl-C to stop")
        threading.Thread(target=_work_ahead, args=(library, warm), daemon=True).start()
        with contextlib.suppress(KeyboardInterrupt):  # The documented way to stop.
            server.run(sockets=[listener])


def address_of(listener: socket.socket, exposure: Exposure, token: str | None) -> str:
    """The address to open; a token that is fixed is not printed, since logs keep what is."""
    address, port = listener.getsockname()[:2]
    shown = f"[{address}]" if ":" in address else address
    scheme = "http" if exposure.certificate is None else "https"
    query = f"?token={token}" if token and not is_fixed(exposure) else ""
    return f"{scheme}://{shown}:{port}{exposure.root_path}/{query}"


def chosen_token(host: str, exposure: Exposure) -> str | None:
    """The token that requests need; null where none is needed."""
    fixed = os.environ.get(TOKEN_VARIABLE, "")
    where = TOKEN_VARIABLE
    if exposure.token_file is not None:
        where = str(exposure.token_file)
        try:
            fixed = exposure.token_file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{where}: no token can be read: {error}") from None
        if not fixed:
            raise UsageError(f"{where}: no token in this file")
    if fixed and not _TOKEN.fullmatch(fixed):
        raise UsageError(
            f"{where}: a token is {MIN_TOKEN} or more letters, digits, - and _; "
            "make one with: openssl rand -hex 24"
        )
    if fixed:
        return fixed
    return secrets.token_urlsafe(24) if exposure.token or not is_loopback(host) else None


def is_fixed(exposure: Exposure) -> bool:
    """Whether the token is the user's own."""
    return exposure.token_file is not None or bool(os.environ.get(TOKEN_VARIABLE))


@contextlib.contextmanager
def _audit_writer(path: Path) -> Iterator[Callable[[str], None]]:
    """Something that appends lines to a file, or to stderr."""
    if str(path) == "-":
        yield lambda line: print(line, file=sys.stderr, flush=True)  # noqa: T201
        return
    try:
        file = path.open("a", encoding="utf-8", buffering=1)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None
    with file:
        yield lambda line: print(line, file=file)


def _work_ahead(library: Library, warm: Callable[[Library], None]) -> None:
    """Make answers ahead, then look now and then whether new profiles have come."""
    from solscope.web.warm_up import make_cards

    warm(library)
    while True:
        time.sleep(LOOK_AGAIN_S)
        library.look_again()
        make_cards(library)


def _demos() -> list[str]:
    """What the dashboard shows when no source is named."""
    return [f"{PREFIX}{name}" for name, demo in DEMOS.items() if demo.kind != "lab"]


def _uploaded(folder: Path) -> list[str]:
    """What was uploaded before."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return [str(path) for path in files if not path.name.startswith(".")]


def _server(app: ASGIApp, exposure: Exposure) -> uvicorn.Server:
    import uvicorn

    from solscope.web.connections import HEADER_BYTES, PatientProtocol, connection_limit
    from solscope.web.prefix import WithPrefix

    config = uvicorn.Config(
        WithPrefix(app, exposure.root_path) if exposure.root_path else app,
        http=PatientProtocol,
        h11_max_incomplete_event_size=HEADER_BYTES,
        limit_concurrency=connection_limit(),
        proxy_headers=bool(exposure.trusted_proxies),
        forwarded_allow_ips=list(exposure.trusted_proxies),
        root_path=exposure.root_path,
        ssl_certfile=exposure.certificate,
        ssl_keyfile=exposure.key,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=GRACE_S,
    )
    try:
        config.load()
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError.
        raise UsageError(f"{exposure.certificate}: no certificate and key: {error}") from None
    if config.ssl is not None:  # Debian's Python leaves the least version to OpenSSL.
        config.ssl.minimum_version = max(config.ssl.minimum_version, ssl.TLSVersion.TLSv1_2)
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
