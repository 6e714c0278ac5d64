"""Addresses below a path, as a proxy shows them to the browser.

Some proxies take the path off before they ask, some do not, and who opens the printed address asks
without a proxy. All of them mean the same page.
"""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


class WithPrefix:
    """Takes off a prefix that came with the request; the server has put it before every path."""

    def __init__(self, app: ASGIApp, root: str) -> None:
        self._app, self._root = app, root

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            root = self._root
            path = scope["path"]
            twice = path == 2 * root or path.startswith(f"{2 * root}/")
            if twice:
                path = path.removeprefix(root)
            scope = {**scope, "path": f"{root}/" if path == root else path}
        await self._app(scope, receive, send)
