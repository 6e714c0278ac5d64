"""Events of the caching allocator in Chrome traces (`profile_memory=True`), read on demand.

They are instant events, which the event table does not hold: each states bytes taken (positive) or
given back, and the totals after it. A trace is streamed once and only these objects are decoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import polars as pl

from solscope.readers.base import ReadOptions
from solscope.readers.source import TruncatedStream, stream

ALLOCATION_SCHEMA = pl.Schema(
    {
        "start_ns": pl.Int64(),
        "tid": pl.Int64(),
        "device": pl.Int32(),
        "bytes": pl.Int64(),
        "allocated": pl.Int64(),
        "reserved": pl.Int64(),
    }
)
"""One row per event of a GPU's allocator; times as in the event table."""
HOST = 0
"""Device type of torch for memory of the host; all others are devices (CUDA is 1, HIP 6)."""
LONGEST = 4096
"""No such event takes more bytes of text."""
_NAME = b'"[memory]"'
_EVENT = re.compile(rb'\{[^{}]*"\[memory\]"[^{}]*\{[^{}]*\}\s*\}')


class _Arguments(msgspec.Struct):
    bytes: int = msgspec.field(name="Bytes", default=0)
    device: int = msgspec.field(name="Device Id", default=0)
    kind: int = msgspec.field(name="Device Type", default=0)
    allocated: int = msgspec.field(name="Total Allocated", default=0)
    reserved: int = msgspec.field(name="Total Reserved", default=0)


class _Event(msgspec.Struct):
    args: _Arguments
    ts: msgspec.Raw = msgspec.Raw(b"")
    tid: int | str = 0


def read_allocations(path: Path, options: ReadOptions | None = None) -> pl.DataFrame:
    """The allocator's events of all GPUs in order of time; empty where none were recorded."""
    decode = msgspec.json.Decoder(_Event).decode
    rows = []
    for text in _found(path, options or ReadOptions()):
        try:
            event = decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        start = _nanoseconds(bytes(event.ts))
        args = event.args
        if start is None or args.kind == HOST:
            continue
        tid = event.tid if isinstance(event.tid, int) else None
        rows.append((start, tid, args.device, args.bytes, args.allocated, args.reserved))
    return pl.DataFrame(rows, schema=ALLOCATION_SCHEMA, orient="row").sort(
        "start_ns", maintain_order=True
    )


def _found(path: Path, options: ReadOptions) -> Iterator[bytes]:
    """The text of each event; one that two pieces share is found in the second."""
    rest = b""
    try:
        for piece in stream(path, options):
            text = rest + piece
            last = 0
            # Most pieces have none, and a search for fixed text is much faster.
            for match in _EVENT.finditer(text) if _NAME in text else ():
                last = match.end()
                if match.end() - match.start() <= LONGEST:
                    yield match.group()
            rest = text[max(last, len(text) - LONGEST) :]
    except TruncatedStream:
        return


def _nanoseconds(text: bytes) -> int | None:
    """Microseconds as written, without a float in between."""
    whole, _, fraction = text.decode(errors="replace").strip('"').partition(".")
    if not whole.lstrip("-").isdigit() or (fraction and not fraction.isdigit()):
        return None
    return int(whole) * 1000 + int((fraction + "000")[:3])
