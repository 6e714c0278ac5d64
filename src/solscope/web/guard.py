"""Whom the dashboard answers, and what a browser may do with its pages.

The server listens on loopback. A page elsewhere on the web must not reach it through the user's own
browser, so requests whose Host is not ours are refused (DNS rebinding), as are changes asked for by
other origins. On another interface every request needs the token that was printed at the start.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from solscope.report.html import asset, digest

COOKIE = "solscope_token"
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
"""Sent with every answer."""
STRICT_TRANSPORT = (b"strict-transport-security", b"max-age=31536000")
"""Sent over TLS: the browser asks for no unencrypted page of this host for a year."""
LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))


class Guard:
    """Refuses foreign hosts, foreign origins and, with a token set, everyone without it."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = (), token: str | None = None) -> None:
        self._app = app
        sent = {**HEADERS, "content-security-policy": policy(asset("app.js"))}
        self._headers = [(name.encode(), value.encode()) for name, value in sent.items()]
        self._hosts = LOOPBACK | {host.lower() for host in hosts}
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in scope["headers"]}

        added = [*self._headers, STRICT_TRANSPORT] if scope["scheme"] == "https" else self._headers

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *added]
            await send(message)

        refusal = self._refusal(scope, headers)
        await (refusal or self._app)(scope, receive, guarded)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> Response | None:
        # With a token the name may be any that leads here; the token itself says who may.
        if self._token is None and host_name(headers.get("host", "")) not in self._hosts:
            return PlainTextResponse("unknown host: open the address that was printed", 421)
        if scope["method"] not in ("GET", "HEAD"):
            origin = headers.get("origin")
            if origin is not None and _place(origin) != headers.get("host"):
                return PlainTextResponse("a page of another site may not change anything here", 403)
            if "x-solscope" not in headers:
                return PlainTextResponse("changes need the header X-Solscope", 403)
        return self._without_token(scope, headers) if self._token is not None else None

    def _without_token(self, scope: Scope, headers: dict[str, str]) -> Response | None:
        assert self._token is not None
        asked = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
        if same(asked, self._token):
            # One slash: "//host" would lead elsewhere.
            answer = RedirectResponse("/" + scope["path"].lstrip("/\\"), 303)
            answer.set_cookie(
                COOKIE,
                self._token,
                httponly=True,
                samesite="strict",
                secure=scope["scheme"] == "https",
                path=scope.get("root_path") or "/",
            )
            return answer
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        if same(bearer, self._token) or same(_cookie(headers), self._token):
            return None
        return PlainTextResponse("open the address with ?token=... that was printed", 401)


def policy(script: str) -> str:
    """What a page may load and run: answers from here, and the one script that it carries."""
    return (
        f"default-src 'none'; script-src '{digest(script)}'; style-src 'unsafe-inline'; "
        "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    )


def _place(origin: str) -> str | None:
    """Host and port of an origin; null for one that is damaged."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def host_name(host: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def same(given: str, wanted: str) -> bool:
    """Equal, compared in constant time."""
    return hmac.compare_digest(given.encode(), wanted.encode())


def _cookie(headers: dict[str, str]) -> str:
    try:
        morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return morsel.value if morsel is not None else ""
