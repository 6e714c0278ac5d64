"""Connections that cannot be held for nothing: how many there are, and how long they may wait.

uvicorn limits how long a connection may idle between requests, and no more: a client that sends
half a request would hold its connection, and a file descriptor, forever.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Any

import h11
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0
"""From the connection, or the first byte of a later request, to the end of its headers."""
BODY_SECONDS = 30.0
"""For a body to arrive, and a second more for every `BODY_BYTES_PER_SECOND`."""
BODY_BYTES_PER_SECOND = 10_000
HEADER_BYTES = 16 * 1024
"""Request line and headers together."""
MAX_CONNECTIONS = 512


def connection_limit() -> int:
    """How many connections at a time: half of the files that this process may open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if soft < 0 else max(8, min(MAX_CONNECTIONS, soft // 2))


class PatientProtocol(H11Protocol):
    """HTTP as uvicorn speaks it, with an end to waiting for headers."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.limit_concurrency and len(self.connections) > self.limit_concurrency:
            transport.abort()
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self.transport.abort()


class BodyDeadline:
    """Middleware: a body that does not arrive in time counts as a client that has gone."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        loop = asyncio.get_running_loop()
        begin, received, complete = loop.time(), 0, False

        async def receive_in_time() -> Message:
            nonlocal received, complete
            if complete:
                return await receive()
            left = begin + BODY_SECONDS + received / BODY_BYTES_PER_SECOND - loop.time()
            try:
                message = await asyncio.wait_for(receive(), max(left, 0))
            except asyncio.TimeoutError:
                raise ClientDisconnect from None
            received += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            return message

        await self._app(scope, receive_in_time, send)
