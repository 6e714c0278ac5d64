"""Pages as one self-contained HTML file: no network, no other files.

Script and style are those that `make web` built from `frontend/`. The data are in a script
element that no browser runs; `<`, `>` and `&` are written as JSON escapes there, so that no text
of a profile can end it. The content security policy allows that one script, by its hash.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from typing import Any
from zlib import crc32

import msgspec

from solscope._version import __version__
from solscope.compiled import kept
from solscope.files import new_file
from solscope.text import clean

ASSETS = Path(__file__).with_name("assets")
_ESCAPES = {b"<": b"\\u003c", b">": b"\\u003e", b"&": b"\\u0026", b"\xe2\x80\xa8": b"\\u2028"}


@cache
def asset(name: str) -> str:
    """One built file of the front end."""
    return (ASSETS / name).read_text(encoding="utf-8")


def render_html(pages: Sequence[Any], title: str) -> str:
    """The pages as one document."""
    document = {"solscope": __version__, "pages": list(pages)}
    script = asset("app.js")
    policy = kept(ASSETS / "app.js", crc32(script.encode()), lambda: content_policy(script))
    return Template(asset("page.html")).substitute(
        title=escape(clean(title)),
        policy=escape(policy),
        style=asset("app.css"),
        data=script_data(msgspec.json.encode(document)),
        script=script,
    )


def write_html(pages: Sequence[Any], title: str, target: Path) -> int:
    """Write the document to `target`, whole or not at all; returns its size in bytes."""
    text = render_html(pages, title).encode()
    with new_file(target) as temporary:
        temporary.write_bytes(text)
    return len(text)


def content_policy(script: str) -> str:
    """Nothing may be loaded, and only this script may run."""
    return (
        f"default-src 'none'; script-src '{digest(script)}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def digest(script: str) -> str:
    """A script as a content security policy names it."""
    import hashlib

    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def script_data(data: bytes) -> str:
    """JSON that is safe inside a script element."""
    for character, written in _ESCAPES.items():
        data = data.replace(character, written)
    return data.decode()
