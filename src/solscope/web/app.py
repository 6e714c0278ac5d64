"""The application: the front end, the API, and the guard around both."""

from __future__ import annotations

import logging
import re
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from solscope.errors import LimitError, SolscopeError
from solscope.text import encodable
from solscope.web.api import ENDPOINTS, Endpoint
from solscope.web.background_thread import run_in_thread
from solscope.web.connections import BodyDeadline
from solscope.web.dispatch import answer
from solscope.web.guard import Guard
from solscope.web.library import Library, NotShownError
from solscope.web.models import read_config
from solscope.web.openapi import openapi
from solscope.web.page import is_known, page
from solscope.web.quota import Quota
from solscope.web.upload import Body, UploadLimits, safe_name, take_upload

JSON = "application/json"
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">'
    '<rect width="16" height="16" rx="3" fill="#4778e5"/>'
    '<path d="M2 12 7 5h7" fill="none" stroke="#fff" stroke-width="2"/></svg>'
)
"""A roofline."""


@dataclass(frozen=True)
class Uploads:
    """Where uploaded profiles go, how large one may be, and how large all may be together."""

    folder: Path
    max_bytes: int
    quota_bytes: int = sys.maxsize


def create_app(
    library: Library,
    hosts: Iterable[str] = (),
    token: str | None = None,
    uploads: Uploads | None = None,
) -> ASGIApp:
    """The dashboard over `library`; with a token, only for those who know it."""
    routes = [
        *([Route("/api/upload", _uploader(library, uploads), methods=["POST"])] if uploads else []),
        Route("/api/model", _model_taker(library), methods=["POST"]),
        Route("/profile/{id}/perfetto.json.gz", _exporter(library), methods=["GET"]),
        *(
            Route(endpoint.path, _handler(endpoint, library), methods=["GET"])
            for endpoint in ENDPOINTS
        ),
        *(
            Route(path, _describer(uploads is not None), methods=["GET"])
            for path in ("/api/openapi.json", "/openapi.json")
        ),
        Route("/favicon.ico", _icon, methods=["GET"]),
        Route("/api/{rest:path}", _unknown, methods=["GET"]),
        Route("/{rest:path}", _pager(library), methods=["GET"]),
    ]
    # Level 5: within a few percent of the smallest answers, in a third of the time.
    packing = Middleware(GZipMiddleware, minimum_size=1_000, compresslevel=5)
    slow = Middleware(BodyDeadline)
    return Guard(Starlette(routes=routes, middleware=[slow, packing]), hosts, token)


def _handler(endpoint: Endpoint, library: Library) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        query = {**request.query_params, **request.path_params}
        try:
            with library.idle.request():
                body = await run_in_thread(answer, endpoint, library, query)
        except SolscopeError as error:
            return _error(str(error), 404 if isinstance(error, NotShownError) else 422)
        except Exception as error:  # noqa: BLE001 - the browser gets a line, the terminal the rest
            return _unforeseen(request, error)
        return Response(body, media_type=JSON, headers={"cache-control": "no-cache"})

    return handle


def _uploader(library: Library, uploads: Uploads) -> Callable[[Request], Awaitable[Response]]:
    limits = UploadLimits(uploads.max_bytes, Quota(uploads.folder, uploads.quota_bytes))

    async def handle(request: Request) -> Response:
        asked = request.query_params
        length = request.headers.get("content-length", "")
        try:
            entry = await take_upload(
                library,
                uploads.folder,
                asked.get("name", ""),
                Body(request.stream(), int(length) if length.isdecimal() else 0),
                limits,
                asked.get("store") == "1" and library.has_store,
            )
        except LimitError as error:
            return _error(str(error), 413)
        except SolscopeError as error:
            return _error(str(error), 422)
        except OSError as error:
            return _error(f"the upload cannot be kept: {error.strerror or error}", 507)
        except ClientDisconnect:
            return _error("the upload was broken off", 400)
        except Exception as error:  # noqa: BLE001 - the browser gets a line, the terminal the rest
            return _unforeseen(request, error)
        return Response(msgspec.json.encode(entry), 201, media_type=JSON)

    return handle


def _model_taker(library: Library) -> Callable[[Request], Awaitable[Response]]:
    """Takes a model's config; nothing of it is written to a file."""

    async def handle(request: Request) -> Response:
        try:
            name = safe_name(request.query_params.get("name", ""))
            data = await read_config(request.stream())
            entry = await run_in_thread(library.models.give, name, data)
        except LimitError as error:
            return _error(str(error), 413)
        except SolscopeError as error:
            return _error(str(error), 422)
        except ClientDisconnect:
            return _error("the upload was broken off", 400)
        except Exception as error:  # noqa: BLE001 - the browser gets a line, the terminal the rest
            return _unforeseen(request, error)
        return Response(msgspec.json.encode(entry), 201, media_type=JSON)

    return handle


def _exporter(library: Library) -> Callable[[Request], Awaitable[Response]]:
    """A profile as a file for Perfetto, made anew each time: it is large, and asked for rarely."""

    async def handle(request: Request) -> Response:
        name = request.path_params["id"]
        folder = Path(tempfile.mkdtemp(prefix="solscope-"))
        target = folder / "perfetto.json.gz"
        try:
            with library.idle.request():
                await run_in_thread(_export, library, name, target)
        except SolscopeError as error:
            shutil.rmtree(folder, ignore_errors=True)
            return _error(str(error), 404 if isinstance(error, NotShownError) else 422)
        except Exception as error:  # noqa: BLE001 - the browser gets a line, the terminal the rest
            shutil.rmtree(folder, ignore_errors=True)
            return _unforeseen(request, error)
        label = re.sub(r"[^A-Za-z0-9._-]+", "-", library.entry(name).label) or "profile"
        done = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
        return FileResponse(
            target,
            media_type="application/gzip",
            filename=f"{label}.perfetto.json.gz",
            background=done,
        )

    return handle


def _export(library: Library, name: str, target: Path) -> None:
    from solscope.export.files import export

    try:
        export(library.profile(name), "perfetto", target)
    finally:
        library.done(name)


async def _icon(_: Request) -> Response:
    headers = {"cache-control": "max-age=86400"}
    return Response(ICON, media_type="image/svg+xml", headers=headers)


def _pager(library: Library) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        path = f"/{request.path_params['rest']}"
        root = request.scope.get("root_path", "")
        with library.idle.request():
            text = await run_in_thread(page, library, path, request.query_params, root)
        status = 200 if is_known(library, path) else 404
        return Response(text, status, media_type="text/html", headers={"cache-control": "no-cache"})

    return handle


def _describer(takes_uploads: bool) -> Callable[[Request], Awaitable[Response]]:
    async def handle(_: Request) -> Response:
        # In a thread: it loads the libraries that make answers, for the types of those.
        document = await run_in_thread(openapi, ENDPOINTS, takes_uploads)
        return Response(msgspec.json.encode(document), media_type=JSON)

    return handle


async def _unknown(_: Request) -> Response:
    return _error("no such question; /api/openapi.json lists them", 404)


def _unforeseen(request: Request, error: Exception) -> Response:
    log = logging.getLogger("uvicorn.error")
    log.error("%s failed", request.url.path, exc_info=error)
    return _error("something unforeseen went wrong: see the server's terminal", 500)


def _error(message: str, status: int) -> Response:
    body = msgspec.json.encode({"error": encodable(message)})  # It may name a file.
    return Response(body, status, media_type=JSON)
