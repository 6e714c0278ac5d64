"""moto's S3 server in this process, for `s3_server.py`: run with the interpreter that has moto.

`python -m moto.server` spends most of its time on the same questions again: it lists its own folder
for every request and parses the date of every object that it lists. Both are cached here, and
connections stay open. One request is answered at a time, so that a conditional write is atomic, as
at S3: moto looks for the object and writes it in two steps. With `--read-directly` objects are read
without moto's checks of accounts, which take most of the time; all else is moto's.
"""

import functools
import re
import sys
import threading
from collections.abc import Iterable
from typing import Any

from moto import backends
from moto.backends import get_backend
from moto.core import DEFAULT_ACCOUNT_ID, serialize
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


class Handler(MotoRequestHandler):  # type: ignore[misc]
    """Without a line of output per request."""

    protocol_version = "HTTP/1.1"

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Nothing."""


class OneAtATime:
    """An application that answers requests one after the other."""

    def __init__(self, application: Any, *, read_directly: bool) -> None:
        self.application = application
        self.read_directly = read_directly
        self.lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        with self.lock:
            if self.read_directly and (data := read(environ, start_response)) is not None:
                return [data]
            return [b"".join(self.application(environ, start_response))]


def read(environ: dict[str, Any], start_response: Any) -> bytes | None:
    """An object that is there, or a range of it."""
    if environ["REQUEST_METHOD"] != "GET" or environ.get("QUERY_STRING"):
        return None
    _, bucket, *rest = environ["PATH_INFO"].split("/", 2)
    found = get_backend("s3")[DEFAULT_ACCOUNT_ID]["aws"].buckets.get(bucket)
    key = found.keys.get(rest[0]) if found is not None and rest else None
    if key is None:
        return None
    data: bytes = key.value
    headers = [("ETag", key.etag), ("Last-Modified", key.last_modified_RFC1123)]
    status = "200 OK"
    if asked := _RANGE.fullmatch(environ.get("HTTP_RANGE", "")):
        size = len(data)
        first = int(asked[1]) if asked[1] else max(0, size - int(asked[2]))
        last = min(int(asked[2]), size - 1) if asked[1] and asked[2] else size - 1
        data = data[first : last + 1]
        status = "206 Partial Content"
        headers.append(("Content-Range", f"bytes {first}-{last}/{size}"))
    start_response(status, [*headers, ("Content-Length", str(len(data)))])
    return data


def main() -> None:
    """Serve on a free port until the process is ended."""
    modules = tuple(backends.list_of_moto_modules())
    backends.list_of_moto_modules = lambda: modules
    serialize.parse_to_aware_datetime = functools.lru_cache(10_000)(
        serialize.parse_to_aware_datetime
    )
    application = OneAtATime(
        DomainDispatcherApplication(create_backend_app), read_directly="--read-directly" in sys.argv
    )
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Handler)
    sys.stdout.write(f"Running on http://127.0.0.1:{server.port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
