"""The pure-Python scanner of Chrome traces, on msgspec; `kineto_core.py` states its contract.

It cuts the stream between two events, decodes the cut-off part as one JSON array and builds columns
from it; a part that does not decode is salvaged event by event.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import islice, pairwise
from typing import Any

import msgspec
import numpy as np

from solscope.readers.base import MAX_DUR_NS, MAX_TIME_NS
from solscope.readers.kineto_columns import EXACT_US, NONE, NULL, Column, Interned, Numbers
from solscope.readers.kineto_core import CODES, NUMBERS, ScanStats
from solscope.readers.kineto_events import (
    BROKEN,
    NO_ARGS,
    Event,
    decode_events,
    decode_times,
    with_message,
)
from solscope.readers.kineto_repair import repair

MAX_EVENT_BYTES = 8 << 20

_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_EVENT_START = re.compile(rb'\}\s*,\s*(\{)\s*"(?:ph|name|cat|ts|pid|tid|id|args|dur)"')
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class PythonScanner:
    """`TraceScanner` in Python."""

    def __init__(self) -> None:
        self._buffer = b""
        self._consumed = 0
        self._state = "start"
        self._searched = 0
        self._bare = False
        self._rows: list[dict[str, Column]] = []
        self._held = 0
        self._texts = Interned()
        self._jsons = Interned()
        self._numbers = Numbers()
        self._header: list[tuple[bytes, bytes]] = []
        self._stats: ScanStats = {
            "events": 0,
            "phased": 0,
            "damaged": 0,
            "wild": 0,
            "absent_dur": 0,
            "negative_dur": 0,
            "truncated_at": -1,
            "saw_events": False,
            "not_trace": False,
            "damage": [],
        }

    def feed(self, piece: bytes, /) -> int:
        self._buffer += piece
        if self._state == "start":
            self._start()
        if self._state == "events":
            self._cut()
        return self._held

    def finish(self) -> None:
        if self._state == "start":
            self._start()
        if self._state == "events":
            self._last_part()
        elif not self._stats["not_trace"]:
            self._no_events()
        self._buffer = b""

    def take(self) -> dict[str, Any]:
        parts, self._rows, self._held = self._rows, [], 0
        empty = {name: np.empty(0, np.uint32) for name in CODES} | {
            name: np.empty(0, np.int64) for name in NUMBERS
        }
        return {name: np.concatenate([empty[name], *(p[name] for p in parts)]) for name in empty}

    def texts(self, start: int, /) -> Sequence[bytes | str]:
        return list(islice(self._texts.codes, start, None))

    def jsons(self) -> Sequence[bytes]:
        return list(self._jsons.codes)

    def header(self) -> Sequence[tuple[bytes, bytes]]:
        return self._header

    def stats(self) -> ScanStats:
        return self._stats

    def _start(self) -> None:
        if _BYTE_ORDER_MARK.startswith(self._buffer):
            return
        text = self._buffer.removeprefix(_BYTE_ORDER_MARK).lstrip()
        if not text:
            return
        if text[:1] == b"[":
            self._bare = True
            self._enter_events(text[1:])
        elif text[:1] != b"{":
            self._stats["not_trace"] = True
            self._state = "done"
        elif found := self._events_key(text):
            head = text[: found.start()].rstrip().rstrip(b",")
            self._members(head + b"}")
            self._enter_events(text[found.end() :])

    def _events_key(self, text: bytes) -> re.Match[bytes] | None:
        """The member `traceEvents` of the outermost object; one nested deeper is another's."""
        for found in _EVENTS_KEY.finditer(text, self._searched):
            if _depth(text[: found.start()]) == 1:
                return found
        if len(text) > 8 * MAX_EVENT_BYTES:
            self._give_up("the header does not end")
        # The key may be split over two pieces.
        self._searched = max(0, len(text) - 64)
        return None

    def _enter_events(self, rest: bytes) -> None:
        self._consumed = len(self._buffer) - len(rest)
        self._buffer = rest
        self._stats["saw_events"] = True
        self._state = "events"

    def _no_events(self) -> None:
        """No `traceEvents` in the whole file: JSON of another kind, or cut in its header."""
        try:
            _decode_members(self._buffer)
        except BROKEN:
            try:
                json.loads(self._buffer)
            except (ValueError, RecursionError):
                self._stats["truncated_at"] = len(self._buffer)

    def _cut(self) -> None:
        """Decode everything before the last event that is seen to begin."""
        if len(self._buffer) < 1 << 20:
            return
        if len(self._buffer) > 8 * MAX_EVENT_BYTES:
            self._give_up("no event begins or ends here")
            return
        found = None
        for reach in (1 << 14, MAX_EVENT_BYTES):
            for match in _EVENT_START.finditer(self._buffer, max(0, len(self._buffer) - reach)):
                found = match
            if found is not None:
                break
        else:
            return
        at = found.start(1)
        part = self._buffer[:at].rstrip().removesuffix(b",")
        if self._decode(part):
            self._consumed += at
            self._buffer = self._buffer[at:]

    def _give_up(self, why: str) -> None:
        """What follows cannot be scanned in bounded memory."""
        self._stats["truncated_at"] = self._consumed
        self._note(0, why)
        self._buffer = b""
        self._state = "done"

    def _decode(self, part: bytes) -> bool:
        """Add the events of `part`; False when the event array ends inside it."""
        array = b"[" + part + b"]"
        try:
            events = decode_events(array)
        except BROKEN:
            if self._array_end(part) is not None:
                return False
            self._salvage(part, final=False)
            return True
        self._add(events, array)
        return True

    def _array_end(self, part: bytes) -> int | None:
        """Where the event array ends in `part`, in bytes; None if it does not, or unclear."""
        text = "[" + part.decode("latin-1")
        try:
            _, end = json.JSONDecoder(strict=False).raw_decode(text)
        except (ValueError, RecursionError):
            return None
        return end - 2

    def _last_part(self) -> None:
        end = self._array_end(self._buffer)
        if end is not None:
            self._decode(self._buffer[:end].rstrip().removesuffix(b","))
            self._trailer(self._buffer[end + 1 :])
            return
        part, trailer = self._split_damaged(self._buffer)
        self._salvage(part, final=trailer is None)
        if trailer is not None:
            self._trailer(trailer)

    def _split_damaged(self, rest: bytes) -> tuple[bytes, bytes | None]:
        """Events and trailer of a last part that is not valid JSON; no trailer if truncated."""
        closes = [m.start() for m in re.finditer(rb"\](?=\s*[,}]|\s*$)", rest)]
        for at in reversed(closes[-4096:]):
            tail = rest[at + 1 :].strip()
            if (self._bare and not tail) or (not self._bare and self._is_trailer(tail)):
                return rest[:at], rest[at + 1 :]
        return rest, None

    @staticmethod
    def _is_trailer(tail: bytes) -> bool:
        try:
            _decode_members(b"{" + tail.removeprefix(b","))
        except BROKEN:
            return False
        return True

    def _trailer(self, tail: bytes) -> None:
        tail = tail.strip()
        if self._bare:
            return
        if not tail.endswith(b"}"):
            self._stats["truncated_at"] = self._consumed + len(self._buffer)
            tail = b"}"
        self._members(b"{" + tail.removeprefix(b","))

    def _members(self, text: bytes) -> None:
        try:
            members = _decode_members(text.decode("utf-8", errors="replace").encode())
        except BROKEN:
            return
        self._header += [(key.encode(), bytes(raw)) for key, raw in members.items()]

    def _salvage(self, part: bytes, *, final: bool) -> None:
        """Decode event by event; count those that are beyond repair."""
        bounds = [0, *(m.start(1) for m in _EVENT_START.finditer(part)), len(part)]
        good: list[bytes] = []
        for at, until in pairwise(bounds):
            piece = part[at:until].strip().removesuffix(b",").rstrip()
            if not piece:
                continue
            event = repair(piece)
            if event is not None:
                good.append(event)
            elif final and until == len(part):
                self._stats["truncated_at"] = self._consumed + at
                self._note(at, "the file ends inside an event")
            else:
                self._stats["events"] += 1
                self._stats["damaged"] += 1
                self._note(at, "an event is not valid JSON")
        array = b"[" + b",".join(good) + b"]"
        self._add(decode_events(array), array)
        if final and self._stats["truncated_at"] < 0:
            self._stats["truncated_at"] = self._consumed + len(part)

    def _note(self, at: int, why: str) -> None:
        if len(self._stats["damage"]) < 16:
            self._stats["damage"].append((self._consumed + at, why))

    def _add(self, events: list[Event], array: bytes) -> None:
        self._stats["events"] += len(events)
        self._stats["phased"] += sum(e.ph is not None for e in events)
        keep = [e for e in events if e.ph == "X"]
        if not keep:
            return
        args = [with_message(e.args) if e.args else NO_ARGS for e in keep]
        texts, raws, integers = self._texts.texts, self._jsons.raws, self._numbers.integers
        columns = {
            "cat": texts([e.cat for e in keep]),
            "name": texts([e.name for e in keep]),
            "grid": raws([a.grid for a in args]),
            "block": raws([a.block for a in args]),
            "input_dims": raws([a.input_dims or a.input_dims_old for a in args]),
            "input_types": raws([a.input_types or a.input_types_new for a in args]),
            "input_strides": raws([a.input_strides for a in args]),
            "concrete_inputs": raws([a.concrete_inputs for a in args]),
            "collective": texts([a.collective for a in args]),
            "process_group": texts([a.group for a in args]),
            "process_group_ranks": texts([a.group_ranks for a in args]),
            "launched": texts([a.launched for a in args]),
            "sequence": integers([a.sequence for a in args]),
            "peer": integers([a.source if a.target is None else a.target for a in args]),
            "device": integers([a.device for a in args]),
            "stream": integers([a.stream for a in args]),
            "correlation": integers([a.correlation for a in args]),
            "external_id": integers(
                [a.external_id_old if a.external_id is None else a.external_id for a in args]
            ),
            "graph_id": integers([a.graph_id for a in args]),
            "graph_node": integers([a.graph_node for a in args]),
            "bytes": integers([a.bytes for a in args]),
        }
        columns |= self._times(keep, array)
        columns |= self._numbered("pid", [e.pid for e in keep])
        columns |= self._numbered("tid", [e.tid for e in keep])
        self._stats["wild"] = self._numbers.wild
        self._rows.append(columns)
        self._held += len(keep)

    def _numbered(self, key: str, values: list[Any]) -> dict[str, Column]:
        """A process or thread by its number, or by its text where it has none."""
        numbers = self._numbers.integers(values, count_wild=False)
        labeled = numbers == NULL
        texts = np.full(len(values), NONE, np.uint32)
        if labeled.any():
            labels = [v if no else None for v, no in zip(values, labeled, strict=True)]
            texts = self._texts.texts(labels)
        return {key: numbers, f"{key}_text": texts}

    def _times(self, keep: list[Event], array: bytes) -> dict[str, Column]:
        starts: list[Any] = [e.ts for e in keep]
        durs: list[Any] = [e.dur for e in keep]
        if any(abs(t) >= EXACT_US for t in starts if type(t) is float):
            exact = [t for t in decode_times(array) if t.ph == "X"]
            starts = [bytes(t.ts).decode().strip('"') for t in exact]
            durs = [bytes(t.dur).decode().strip('"') for t in exact]
        start_ns = self._numbers.nanoseconds(starts, MAX_TIME_NS)
        dur_ns = self._numbers.nanoseconds(durs, MAX_DUR_NS)
        self._stats["absent_dur"] += int((dur_ns == NULL).sum())
        negative = (dur_ns < 0) & (dur_ns != NULL)
        self._stats["negative_dur"] += int(negative.sum())
        dur_ns[negative] = 0
        return {"start_ns": start_ns, "dur_ns": dur_ns}


def _depth(text: bytes) -> int:
    """How many objects and arrays are open at the end of JSON text."""
    bare = _STRINGS.sub(b"", text)
    return bare.count(b"{") + bare.count(b"[") - bare.count(b"}") - bare.count(b"]")
