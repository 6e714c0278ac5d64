"""The pure-Python scanner of Chrome traces, on msgspec; `kineto_core.py` states its contract.

It decodes whole runs of events as one JSON array and builds columns from them. Only around damage
are events read one by one, by `kineto_lenient.py`, in the same states as in `_native/scanner.cpp`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

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
from solscope.readers.kineto_lenient import (
    EVENT_START,
    SPACE,
    BadError,
    MoreError,
    find_event,
    read_event,
    skip_space,
    text_end,
    value_end,
)

MAX_EVENT_BYTES = 8 << 20
MAX_HEADER_BYTES = 4 << 20
MAX_WASTED_BYTES = 256 << 20
RUN_BYTES = 1 << 20
"""Text that is decoded at once; less is left until more has come."""
FEW_EVENTS = 8
"""Events that are read one by one where a run of them does not decode."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class PythonScanner:
    """`TraceScanner` in Python."""

    def __init__(self) -> None:
        self._buffer = b""
        self._at = 0
        self._consumed = 0
        self._wasted = 0
        self._state: Callable[[bool], bool] = self._start
        self._bare = False
        self._skip_depth = 0
        self._skip_text = self._skip_escape = False
        self._events: list[Event] = []
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
        if self._state == self._done:
            self._consumed += len(piece)
            return self._held
        self._consumed += self._at
        self._buffer = self._buffer[self._at :] + piece
        self._at = 0
        self._run(final=False)
        return self._held

    def finish(self) -> None:
        self._run(final=True)
        if self._state != self._done and self._stats["truncated_at"] < 0:
            self._stats["truncated_at"] = self._consumed + self._at
        self._buffer, self._at = b"", 0

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

    # States, as in the native scanner: each returns whether it got on

    def _run(self, *, final: bool) -> None:
        while self._state(final):
            pass
        self._add()

    def _start(self, _: bool) -> bool:
        if self._consumed + self._at == 0:
            head = self._buffer[:3]
            if head and _BYTE_ORDER_MARK.startswith(head):
                if len(head) < 3:
                    return False
                self._at = 3
        self._at = skip_space(self._buffer, self._at)
        first = self._buffer[self._at : self._at + 1]
        if not first:
            return False
        if first == b"{":
            self._state = self._member
        elif first == b"[":
            self._state = self._event
            self._bare = self._stats["saw_events"] = True
        else:
            self._stats["not_trace"] = True
            self._state = self._done
            return True
        self._at += 1
        return True

    def _member(self, _: bool) -> bool:
        text, offset = self._buffer, self._after_commas()
        first = text[offset : offset + 1]
        if not first:
            return False
        if first == b"}":
            self._state = self._done
            self._at = offset + 1
            return True
        if first != b'"':
            return self._give_up(offset, "a member name was expected")
        try:
            end = text_end(text, offset)
        except MoreError:
            if len(text) - self._at > MAX_HEADER_BYTES:
                return self._give_up(self._at, "a member name does not end")
            return False
        key, colon = text[offset + 1 : end - 1], skip_space(text, end)
        if colon >= len(text):
            return False
        if text[colon] != ord(":"):
            return self._give_up(colon, "':' was expected")
        value = skip_space(text, colon + 1)
        if value >= len(text):
            return False
        if key == b"traceEvents" and text[value] == ord("["):
            self._state = self._event
            self._stats["saw_events"] = True
            self._at = value + 1
            return True
        return self._member_value(key, value)

    def _member_value(self, key: bytes, value: int) -> bool:
        text = self._buffer
        try:
            end = value_end(text, value)
        except BadError:
            return self._give_up(value, "a value was expected")
        except MoreError:
            if len(text) - value < MAX_HEADER_BYTES:
                return False
            if text[value : value + 1] not in (b"{", b"[", b'"'):
                return self._give_up(value, "a number does not end")
            # A member too large to keep: pass over it as it streams.
            self._skip_text = text[value : value + 1] == b'"'
            self._at = value + self._skip_text
            self._skip_depth, self._skip_escape = 0, False
            self._state = self._skip
            return True
        if len(self._header) < 256:
            self._header.append((key, text[value:end]))
        self._at = end
        return True

    def _skip(self, _: bool) -> bool:
        for offset in range(self._at, len(self._buffer)):
            mark = self._buffer[offset]
            if self._skip_text:
                if self._skip_escape:
                    self._skip_escape = False
                elif mark == ord("\\"):
                    self._skip_escape = True
                elif mark == ord('"'):
                    self._skip_text = False
                    if self._skip_depth == 0:
                        return self._skipped(offset)
                continue
            if mark == ord('"'):
                self._skip_text = True
            elif mark in b"{[":
                self._skip_depth += 1
            elif mark in b"}]":
                self._skip_depth -= 1
                if self._skip_depth == 0:
                    return self._skipped(offset)
        self._at = len(self._buffer)
        return False

    def _skipped(self, offset: int) -> bool:
        self._at = offset + 1
        self._state = self._member
        return True

    def _event(self, final: bool) -> bool:
        """Decode everything before the last event that is seen to begin, then that one."""
        if not final and len(self._buffer) - self._at < RUN_BYTES:
            return False
        self._at = begin = self._after_commas()
        begins = [match.start(1) for match in EVENT_START.finditer(self._buffer, begin)]
        self._decode_runs([begin, *begins], final)
        if self._at > begin or self._state != self._event:
            return True
        return self._one_event(final)

    def _decode_runs(self, begins: list[int], final: bool) -> None:
        """Decode events between the places where some begin, in runs as long as they are sound."""
        runs = [(0, len(begins) - 1)]
        while runs and self._state == self._event:
            first, last = runs.pop()
            self._at = self._after_commas()
            first = max(first, bisect_right(begins, self._at) - 1)
            if first >= last:
                continue
            if self._at == begins[first] and self._decode(begins[first], begins[last]):
                self._at = begins[last]
            elif last - first > FEW_EVENTS:
                middle = (first + last) // 2
                runs += [(middle, last), (first, middle)]
            else:
                while self._at < begins[last] and self._state == self._event:
                    if not self._one_event(final):
                        return

    def _decode(self, begin: int, end: int) -> bool:
        """Take the events of a part of the text, if it is valid JSON."""
        array = b"[" + self._buffer[begin:end].rstrip(SPACE).removesuffix(b",") + b"]"
        try:
            events = decode_events(array)
        except BROKEN:
            return False
        if any(type(e.ts) is float and abs(e.ts) >= EXACT_US for e in events):
            for event, exact in zip(events, decode_times(array), strict=True):
                event.ts = bytes(exact.ts).decode().strip('"')
                event.dur = bytes(exact.dur).decode().strip('"')
        self._stats["events"] += len(events)
        self._stats["phased"] += sum(e.ph is not None for e in events)
        self._events += [e for e in events if e.ph == "X"]
        return True

    def _one_event(self, final: bool) -> bool:
        text = self._buffer
        self._at = offset = self._after_commas()
        first = text[offset : offset + 1]
        if not first:
            return False
        if first == b"]":
            self._at = offset + 1
            self._state = self._done if self._bare else self._member
            return True
        ran_out = False
        try:
            if first != b"{":
                raise BadError
            event, end = read_event(text, offset)
        except BadError:
            pass
        except MoreError:
            ran_out = len(text) - offset <= MAX_EVENT_BYTES
            if ran_out and not final:
                return False
        else:
            self._stats["events"] += 1
            self._stats["phased"] += event.ph is not None
            self._events += [event] if event.ph == "X" else []
            self._at = end
            return True
        return self._resync(offset, final, ran_out)

    def _resync(self, offset: int, final: bool, ran_out: bool) -> bool:
        """The event at `at` is broken: go on where the next one seems to begin."""
        size = len(self._buffer)
        following = find_event(self._buffer, offset + 1)
        if following is None and not final:
            if size - offset <= MAX_EVENT_BYTES:
                return False
            self._at = size - 256
            self._wasted += MAX_EVENT_BYTES
            return self._too_damaged()
        if following is None:
            self._stats["truncated_at"] = self._consumed + offset
            self._note(
                offset, "the file ends inside an event" if ran_out else "unreadable up to the end"
            )
            self._stats["damaged"] += not ran_out
            self._at = size
            return False
        self._stats["events"] += 1
        self._stats["damaged"] += 1
        self._note(offset, "an event is not valid JSON")
        self._wasted += size - offset if ran_out else 0
        self._at = following
        self._too_damaged()
        return True

    def _too_damaged(self) -> bool:
        """Stop before looking at every event up to the end of the text becomes quadratic."""
        if self._wasted < MAX_WASTED_BYTES + 2 * (self._consumed + len(self._buffer)):
            return False
        self._stats["truncated_at"] = self._consumed + self._at
        self._note(self._at, "too much of the file is damaged")
        self._state = self._done
        self._at = len(self._buffer)
        return True

    def _done(self, _: bool) -> bool:
        self._at = len(self._buffer)
        return False

    def _give_up(self, offset: int, why: str) -> bool:
        self._note(offset, why)
        if self._stats["saw_events"]:
            self._stats["truncated_at"] = self._consumed + offset
        else:
            self._stats["not_trace"] = True
        self._state = self._done
        self._at = len(self._buffer)
        return True

    def _after_commas(self) -> int:
        offset, size = self._at, len(self._buffer)
        while offset < size and self._buffer[offset] in b" \n\r\t,":
            offset += 1
        return offset

    def _note(self, offset: int, why: str) -> None:
        if len(self._stats["damage"]) < 16:
            self._stats["damage"].append((self._consumed + offset, why))

    # Columns

    def _add(self) -> None:
        """Build columns from the events that were read."""
        keep, self._events = self._events, []
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
        columns |= self._times(keep)
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

    def _times(self, keep: list[Event]) -> dict[str, Column]:
        start_ns = self._numbers.nanoseconds([e.ts for e in keep], MAX_TIME_NS)
        dur_ns = self._numbers.nanoseconds([e.dur for e in keep], MAX_DUR_NS)
        self._stats["absent_dur"] += int((dur_ns == NULL).sum())
        negative = (dur_ns < 0) & (dur_ns != NULL)
        self._stats["negative_dur"] += int(negative.sum())
        dur_ns[negative] = 0
        return {"start_ns": start_ns, "dur_ns": dur_ns}
