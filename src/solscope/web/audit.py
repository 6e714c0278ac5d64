"""One line per request: who asked for what, and what came of it. Never a secret.

Queries, cookies and headers can hold a token, so none of them is written.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timezone

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from solscope.text import encodable

MAX_PATH = 200


class AuditLine(msgspec.Struct, frozen=True):
    """What is written about a request."""

    time: str
    client: str | None
    """Address of the client; behind a trusted proxy, the one that the proxy states."""
    method: str
    path: str
    status: int | None
    """Null when the client left before the answer began."""
    bytes: int
    """Of the answer's body, compressed as it was sent."""
    ms: float


class Audit:
    """Middleware around everything else, so that refusals are written as well."""

    def __init__(self, app: ASGIApp, write: Callable[[str], None]) -> None:
        self._app = app
        self._write = write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status: int | None = None
        size = 0
        begin = time.perf_counter()
        started = datetime.now(timezone.utc)

        async def counted(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, counted)
        finally:
            client = scope.get("client")
            line = AuditLine(
                time=started.isoformat(timespec="milliseconds"),
                client=client[0] if client else None,
                method=scope["method"],
                path=encodable(scope["path"])[:MAX_PATH],
                status=status,
                bytes=size,
                ms=round((time.perf_counter() - begin) * 1000, 1),
            )
            self._write(msgspec.json.encode(line).decode())
