"""Laws that hold for any input: scanners against a reference, intervals against brute force."""

from __future__ import annotations

import json
import tempfile
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import solscope
from solscope.intervals import gaps, innermost, nest, overlap, union
from solscope.profile import Profile
from solscope.readers.base import ReadOptions
from solscope.readers.kineto import READER
from solscope.readers.kineto_core import native_scanner

CORES = ["python"] if native_scanner() is None else ["native", "python"]
two_cores = pytest.mark.skipif(len(CORES) < 2, reason="the native scanner is not built")


def read(data: bytes, core: str) -> Profile:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOLSCOPE_CORE", core)
        path = Path(folder) / "trace.json"
        path.write_bytes(data)
        return READER.read(path, ReadOptions())


def outcome(data: bytes, core: str) -> Profile | str:
    try:
        return read(data, core)
    except solscope.SolscopeError as error:
        return type(error).__name__


# Valid traces

NUMBERS = st.one_of(
    st.integers(0, 10**9).map(str),
    st.integers(0, 10**12).map(lambda n: f"{n // 1000}.{n % 1000:03d}"),
    st.integers(0, 10**18).map(lambda n: f"{1702 * 10**12 + n // 10**6}.{n % 1000:03d}"),
    st.integers(0, 10**10).map(lambda n: f"{n // 10**5}.{n % 10**5:05d}"),
    st.integers(0, 10**6).map(lambda n: f"{n}e-2"),
    st.integers(0, 10**9).map(lambda n: f'"{n}"'),
)
DURATIONS = st.one_of(
    st.integers(0, 10**6).map(str),
    st.integers(0, 10**9).map(lambda n: f"{n // 1000}.{n % 1000:03d}"),
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
CATEGORIES = st.sampled_from(["kernel", "Kernel", "gpu_memcpy", "cpu_op", "cuda_runtime", "odd"])
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "device": st.integers(0, 7),
        "stream": st.integers(0, 100),
        "correlation": st.integers(0, 2**62),
        "External id": st.integers(0, 2**40),
        "bytes": st.integers(0, 2**60) | st.integers(0, 2**40).map(str),
        "grid": st.lists(st.integers(1, 9), min_size=3, max_size=3),
        "Input Dims": st.lists(st.lists(st.integers(0, 99), max_size=3), max_size=3),
        "other": st.recursive(st.none() | NAMES, lambda inner: st.lists(inner, max_size=3)),
    },
)


@st.composite
def events(draw: st.DrawFn) -> bytes:
    """One event as JSON text."""
    fields = {
        "ph": json.dumps(draw(st.sampled_from("XXXXMs"))),
        "cat": json.dumps(draw(CATEGORIES)),
        "name": json.dumps(draw(NAMES), ensure_ascii=draw(st.booleans())),
        "pid": json.dumps(draw(st.integers(0, 9) | st.sampled_from(["7", "[TP01] 3", "main"]))),
        "tid": json.dumps(draw(st.integers(0, 2**40))),
        "ts": draw(NUMBERS),
        "dur": draw(DURATIONS),
        "args": json.dumps(draw(ARGUMENTS)),
    }
    space = draw(st.sampled_from(["", " ", "\n  "]))
    return (
        f"{{{f',{space}'.join(f'{json.dumps(k)}:{space}{v}' for k, v in fields.items())}}}".encode()
    )


def trace(parts: list[bytes]) -> bytes:
    return b'{"schemaVersion": 1, "traceEvents": [%s], "with_stack": 1}' % b",\n".join(parts)


def nanoseconds(value: Any) -> int:
    return int((Decimal(value) * 1000).to_integral_value(ROUND_HALF_UP))


def reference(data: bytes) -> list[tuple[int, int]]:
    """Start and end of every kernel, by the standard library alone."""
    decoded = json.loads(data, parse_float=Decimal)["traceEvents"]
    kernels = [e for e in decoded if e["ph"] == "X" and e["cat"].lower() == "kernel"]
    # Such names are copies and fills that ROCm files as kernels.
    kernels = [e for e in kernels if not e["name"].startswith(("Mem", "hipMem", "Copy", "Fill"))]
    starts = [nanoseconds(e["ts"]) for e in kernels]
    return [(s, s + nanoseconds(e["dur"])) for s, e in zip(starts, kernels, strict=True)]


def busy_ns(spans: list[tuple[int, int]]) -> int:
    """Length of the union, point by point of change."""
    points = sorted({point for span in spans for point in span})
    covered = (any(s <= a and b <= e for s, e in spans) for a, b in pairwise(points))
    return sum(b - a for (a, b), inside in zip(pairwise(points), covered, strict=True) if inside)


@given(st.lists(events(), max_size=12))
def test_a_valid_trace_reads_as_the_reference_does(parts: list[bytes]) -> None:
    data = trace(parts)
    spans = reference(data)
    for core in CORES:
        profile = read(data, core)
        kernels = profile.events.filter(profile.events["kind"] == "kernel")
        starts, durations = kernels["start_ns"].to_list(), kernels["dur_ns"].to_list()
        found = [(s, s + d) for s, d in zip(starts, durations, strict=True)]
        assert found == spans
        assert profile.metadata.events_in_file == len(parts)
        together = union(
            *(
                np.array(side, np.int64)
                for side in (zip(*found, strict=True) if found else ((), ()))
            )
        )
        assert together.length == busy_ns(spans)
        if found:
            assert together.end[-1] - together.start[0] == max(e for _, e in spans) - min(starts)


@two_cores
@given(st.lists(events(), max_size=12))
def test_both_cores_give_the_same_table(parts: list[bytes]) -> None:
    native, python = (read(trace(parts), core) for core in CORES)
    assert_frame_equal(native.events, python.events, categorical_as_str=True)
    assert (native.metadata, native.warnings) == (python.metadata, python.warnings)


# Damaged traces


def control_character(event: bytes) -> bytes:
    return event.replace(b'"name":', b'"name": "\x01\t\n", "x":', 1)


def invalid_utf8(event: bytes) -> bytes:
    return event.replace(b'"name":', b'"name": "a\xff\xc3", "x":', 1)


def lone_surrogate(event: bytes) -> bytes:
    return event.replace(b'"name":', b'"name": "a\\ud800", "x":', 1)


def not_a_number(event: bytes) -> bytes:
    return event.replace(b'"dur":', b'"dur": nan, "x": [-inf, Infinity], "y":', 1)


def trailing_comma(event: bytes) -> bytes:
    return event[:-1] + b', "z": [1, 2,],}'


def bare_quote(event: bytes) -> bytes:
    return event.replace(b'"name":', b'"name": "f<"x">", "x":', 1)


def whole(event: bytes) -> bytes:
    return event


DAMAGES = [
    *(whole, control_character, invalid_utf8, lone_surrogate),
    *(not_a_number, trailing_comma, bare_quote),
]


@two_cores
@given(st.lists(st.tuples(events(), st.sampled_from(DAMAGES)), max_size=10), events())
def test_both_cores_keep_the_same_events_of_a_damaged_trace(
    damaged: list[tuple[bytes, Any]], last: bytes
) -> None:
    parts = [damage(event) for event, damage in damaged]
    native, python = (read(trace([*parts, last]), core) for core in CORES)
    columns = ["kind", "name", "start_ns", "dur_ns", "device", "stream", "correlation", "bytes"]
    assert_frame_equal(
        native.events.select(columns), python.events.select(columns), categorical_as_str=True
    )
    assert native.metadata.events_in_file == python.metadata.events_in_file == len(parts) + 1
    assert native.warnings == python.warnings


CUTS = st.tuples(st.floats(0, 1), st.integers(0, 40), st.binary(max_size=6) | st.sampled_from(
    [b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b'"traceEvents":[', b"1e999", b"\xef\xbb\xbf"]
))  # fmt: skip


@given(st.lists(events(), max_size=6), st.lists(CUTS, min_size=1, max_size=6))
def test_broken_text_never_breaks_a_core(
    parts: list[bytes], cuts: list[tuple[float, int, bytes]]
) -> None:
    data = trace(parts)
    for place, size, insert in cuts:
        at = int(place * len(data))
        data = data[:at] + insert + data[at + size :]
    for core in CORES:
        found = outcome(data, core)
        if isinstance(found, Profile):
            solscope.summarize(solscope.attribute(found, RULES))


RULES = solscope.load_rules()


@given(st.text('{}[]",:\\ \nabtrueEvnsdX019.-e\ufeff', max_size=200))
def test_arbitrary_text_never_breaks_a_core(text: str) -> None:
    for core in CORES:
        outcome(text.encode(), core)
        outcome(b'{"traceEvents": [' + text.encode(), core)
        outcome(b'[{"ph": "X", "name": "' + text.encode(), core)


# Intervals

SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12)), max_size=12)
Pairs = list[tuple[int, int]]


def arrays(spans: Pairs) -> tuple[Any, Any]:
    start = np.array([s for s, _ in spans], np.int64)
    return start, start + np.array([d for _, d in spans], np.int64)


def points(spans: Pairs) -> set[int]:
    """The unit steps that the intervals cover."""
    return {step for start, size in spans for step in range(start, start + size)}


@given(SPANS)
def test_union_covers_what_the_intervals_cover(spans: Pairs) -> None:
    result = union(*arrays(spans))
    covered = [step for s, e in zip(*result, strict=True) for step in range(s, e)]
    assert set(covered) == points(spans)
    assert result.length == len(covered) == len(points(spans))
    assert (result.start[1:] > result.end[:-1]).all()


@given(SPANS)
def test_gaps_fill_the_span(spans: Pairs) -> None:
    busy = union(*arrays(spans))
    if spans:
        assert busy.length + gaps(busy).length == busy.end[-1] - busy.start[0]


@given(SPANS, SPANS)
def test_overlap_counts_common_steps(spans: Pairs, cover: Pairs) -> None:
    start, end = arrays(spans)
    expected = [len(points([span]) & points(cover)) for span in spans]
    assert overlap(start, end, union(*arrays(cover))).tolist() == expected


def by_begin(spans: Pairs) -> list[int]:
    """Indices in the order in which a call stack opens them."""
    return sorted(range(len(spans)), key=lambda i: (spans[i][0], -max(spans[i][1], 1), i))


@given(SPANS)
def test_nest_finds_the_latest_interval_still_open(spans: Pairs) -> None:
    order = by_begin(spans)
    expected = [-1] * len(spans)
    for position, index in enumerate(order):
        begin = spans[index][0]
        outer = (
            i for i in reversed(order[:position]) if sum(spans[i]) > begin or spans[i] == (begin, 0)
        )
        expected[index] = next(outer, -1)
    assert nest(*arrays(spans)).tolist() == expected


@given(SPANS, st.lists(st.integers(-1, 45), max_size=8))
def test_innermost_is_the_shortest_of_the_latest(spans: Pairs, at: list[int]) -> None:
    start, end = arrays(spans)
    found = innermost(np.array(at, np.int64), start, end).tolist()
    for point, index in zip(at, found, strict=True):
        holding = [span for span in spans if span[0] <= point < sum(span)]
        latest = [span for span in holding if span[0] == max(s for s, _ in holding)]
        assert (None if index < 0 else spans[index]) == min(
            latest, key=lambda s: s[1], default=None
        )
