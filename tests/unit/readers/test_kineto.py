from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import zstandard

from solscope.errors import DamagedFileError, MissingToolError, UnknownFormatError
from solscope.events import EVENT_SCHEMA
from solscope.profile import Device, Profile
from solscope.readers import kineto_core
from solscope.readers.base import Head, ReadOptions
from solscope.readers.kineto import READER
from solscope.readers.kineto_columns import NULL
from solscope.readers.kineto_core import TraceScanner
from solscope.readers.kineto_lenient import read_event
from solscope.readers.kineto_scan import FEW_EVENTS, PythonScanner
from solscope.readers.kineto_scanning import new_scanner

pytestmark = pytest.mark.usefixtures("core")

Read = Callable[..., Profile]


def kernel(name: str = "k", ts: Any = 100, dur: Any = 5, **args: Any) -> dict[str, Any]:
    args = {"device": 0, "stream": 7, "correlation": 1, **args}
    return {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "pid": 0,
        "tid": 7,
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def raw_kernel(name: str, ts: str = "100", dur: str = "5") -> bytes:
    """An event whose name and times are put into the JSON as they are."""
    return (
        b'{"ph": "X", "cat": "kernel", "name": "%s", "pid": 0, "tid": 7, "ts": %s, "dur": %s}'
        % (name.encode("latin-1"), ts.encode(), dur.encode())
    )


def trace(*events: bytes) -> bytes:
    return b'{"schemaVersion": 1, "traceEvents": [%s]}' % b",\n".join(events)


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def write_and_read(content: Any, name: str = "trace.json") -> Profile:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        path = tmp_path / name
        path.write_bytes(data)
        return READER.read(path, ReadOptions())

    return write_and_read


def codes(profile: Profile) -> list[str]:
    return [warning.code for warning in profile.warnings]


def message(profile: Profile, code: str) -> str:
    return next(warning.message for warning in profile.warnings if warning.code == code)


def column(profile: Profile, name: str) -> list[Any]:
    return profile.events[name].to_list()


# Numbers and units


def test_microsecond_integers_become_nanoseconds(read: Read) -> None:
    profile = read({"traceEvents": [kernel(ts=100, dur=5)]})
    assert (column(profile, "start_ns"), column(profile, "dur_ns")) == ([100_000], [5_000])


def test_fractions_are_nanoseconds(read: Read) -> None:
    profile = read({"traceEvents": [kernel(ts=100.125, dur=0.001)]})
    assert (column(profile, "start_ns"), column(profile, "dur_ns")) == ([100_125], [1])


@pytest.mark.parametrize(
    ("ts", "start_ns"),
    [
        ("1702000000000000.123", 1702000000000000123),
        ("1702000000000000.001", 1702000000000000001),
        ("1702000000000000.999", 1702000000000000999),
        ("9007199254740.993", 9007199254740993),
        ("1365627881414.225", 1365627881414225),
        ("-3.25", -3250),
    ],
)
def test_times_are_exact_to_the_nanosecond(read: Read, ts: str, start_ns: int) -> None:
    assert column(read(trace(raw_kernel("k", ts=ts))), "start_ns") == [start_ns]


def test_numbers_of_every_length_are_exact(read: Read) -> None:
    whole = ["9876543210987654321"[:length] for length in range(1, 17)]
    texts = [f"{sign}{digits}" for digits in whole for sign in ("", "-")]
    texts += [f"{digits}.{'123'[:length]}" for digits in whole for length in range(4)]
    profile = read(trace(*(raw_kernel("k", ts=text) for text in texts)))
    most = 4_000_000_000_000_000_000
    exact = [int(Decimal(text) * 1000) for text in texts]
    assert column(profile, "start_ns") == [ns if abs(ns) <= most else None for ns in exact]


def test_times_stay_exact_beside_a_damaged_event(read: Read) -> None:
    good = raw_kernel("k", ts="1702000000000000.123")
    control = raw_kernel("a\x01b", ts="1702000000000000.457")
    profile = read(trace(good, b'{"ph": "X", "name": "a"b"}', control))
    assert column(profile, "start_ns") == [1702000000000000123, 1702000000000000457]


@pytest.mark.parametrize(
    ("ts", "start_ns"),
    [("1.0005", 1001), ("1.0004", 1000), ("-1.0005", -1001), ("0.0015", 2), ("1e3", 1_000_000)],
)
def test_less_than_a_nanosecond_is_rounded_half_away_from_zero(
    read: Read, ts: str, start_ns: int
) -> None:
    assert column(read(trace(raw_kernel("k", ts=ts))), "start_ns") == [start_ns]


def test_numbers_in_quotes_are_numbers(read: Read) -> None:
    profile = read({"traceEvents": [kernel(ts="100.5", dur="5", bytes="1048576", device="3")]})
    row = profile.events.row(0, named=True)
    assert (row["start_ns"], row["dur_ns"], row["bytes"], row["device"]) == (
        100_500,
        5_000,
        1 << 20,
        3,
    )


@pytest.mark.parametrize(
    "number", ["1e300", "99999999999999999999999999", "-1e300", "1e400", '"1e9999999"', '"1e99"']
)
def test_an_absurd_start_is_left_out_and_counted(read: Read, number: str) -> None:
    profile = read(trace(raw_kernel("wild", ts=number), raw_kernel("good")))
    assert column(profile, "name") == ["wild", "good"]
    assert column(profile, "start_ns") == [None, 100_000]
    assert message(profile, "absurd_number").startswith("1 numbers")


def test_an_absurd_duration_counts_as_missing(read: Read) -> None:
    profile = read(trace(raw_kernel("k", dur="1e300")))
    assert column(profile, "dur_ns") == [None]
    assert codes(profile) == ["missing_duration", "absurd_number"]


def test_an_absurd_time_beside_an_exact_one_harms_nobody(read: Read) -> None:
    exact = raw_kernel("k", ts="1702000000000000.123")
    profile = read(trace(exact, raw_kernel("a", ts='"soon"'), raw_kernel("b", ts="[1]")))
    assert column(profile, "start_ns") == [1702000000000000123, None, None]


def test_an_absurd_device_is_null(read: Read) -> None:
    profile = read({"traceEvents": [kernel(device=2**40), kernel(device=2**80)]})
    assert column(profile, "device") == [None, 0]


def test_inf_and_nan_are_missing_values(read: Read) -> None:
    events = [raw_kernel("a", dur="inf"), raw_kernel("b", dur="-nan"), raw_kernel("c", dur="NaN")]
    profile = read(trace(*events, raw_kernel("d")))
    assert column(profile, "name") == ["a", "b", "c", "d"]
    assert column(profile, "dur_ns") == [None, None, None, 5_000]
    assert codes(profile) == ["missing_duration"]


def test_events_without_duration_are_kept_and_counted(read: Read) -> None:
    bare = kernel("a")
    del bare["dur"]
    profile = read({"traceEvents": [bare, kernel("b")]})
    assert column(profile, "dur_ns") == [None, 5_000]
    assert message(profile, "missing_duration").startswith("1 events")


def test_a_negative_duration_is_zero_and_counted(read: Read) -> None:
    profile = read({"traceEvents": [kernel("a", dur=-3), kernel("b")]})
    assert column(profile, "dur_ns") == [0, 5_000]
    assert message(profile, "negative_duration").startswith("1 events")


# Vintages


@pytest.mark.parametrize(
    ("category", "kind"),
    [
        ("kernel", "kernel"),
        ("Kernel", "kernel"),
        ("gpu_memcpy", "memcpy"),
        ("Memcpy", "memcpy"),
        ("gpu_memset", "memset"),
        ("cuda_runtime", "runtime"),
        ("Runtime", "runtime"),
        ("cuda_driver", "driver"),
        ("cpu_op", "cpu_op"),
        ("Operator", "cpu_op"),
        ("user_annotation", "annotation"),
        ("gpu_user_annotation", "gpu_annotation"),
        ("python_function", "python"),
        ("overhead", "overhead"),
    ],
)
def test_kind_by_category(read: Read, category: str, kind: str) -> None:
    profile = read({"traceEvents": [{**kernel(), "cat": category}]})
    assert column(profile, "kind") == [kind]


@pytest.mark.parametrize("key", ["External id", "external id"])
def test_external_id_in_both_spellings(read: Read, key: str) -> None:
    op = {"ph": "X", "cat": "Operator", "name": "aten::mm", "pid": 9, "tid": 9, "ts": 1, "dur": 2}
    profile = read({"traceEvents": [{**op, "args": {key: 42}}]})
    assert column(profile, "external_id") == [42]


def test_operator_arguments_are_compact_json(read: Read) -> None:
    op = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 9, "ts": 1, "dur": 2}
    args = {
        "Input Dims": [[2, 3], []],
        "Input type": ["float", "a b"],
        "Input Strides": [[3, 1], []],
        "Concrete Inputs": ["", "1"],
    }
    row = read({"traceEvents": [{**op, "args": args}]}).events.row(0, named=True)
    assert row["input_dims"] == "[[2,3],[]]"
    assert row["input_types"] == '["float","a b"]'
    assert row["input_strides"] == "[[3,1],[]]"
    assert row["concrete_inputs"] == '["","1"]'


def test_graph_ids(read: Read) -> None:
    args: dict[str, Any] = {"graph id": 5, "graph node id": 77}
    profile = read({"traceEvents": [{**kernel(), "args": args}]})
    assert (column(profile, "graph_id"), column(profile, "graph_node")) == ([5], [77])


def test_memcpy_filed_as_kernel(read: Read) -> None:
    names = ["Memcpy HtoD", "CopyDeviceToHost", "hipMemset", "FillBuffer", "my_memcpy_kernel"]
    profile = read({"traceEvents": [kernel(name) for name in names]})
    assert column(profile, "kind") == ["memcpy", "memcpy", "memset", "memset", "kernel"]


def test_an_operator_named_like_a_copy_stays_an_operator(read: Read) -> None:
    profile = read({"traceEvents": [{**kernel("Memcpy HtoD"), "cat": "cpu_op"}]})
    assert column(profile, "kind") == ["cpu_op"]


def test_unknown_categories_are_counted(read: Read) -> None:
    odd = {**kernel(), "cat": "quantum"}
    profile = read({"traceEvents": [odd, odd, kernel()]})
    assert profile.events.height == 1
    assert "quantum (2)" in message(profile, "unknown_category")


def test_flow_arrows_and_viewer_metadata_are_counted_only(read: Read) -> None:
    events = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
        {"ph": "s", "cat": "ac2g", "id": 1, "ts": 1, "pid": 1, "tid": 1},
        {"ph": "i", "name": "mark", "ts": 1},
        kernel(),
    ]
    profile = read({"traceEvents": events})
    assert (profile.events.height, profile.metadata.events_in_file, codes(profile)) == (1, 4, [])


# Places


def test_gpu_rows_have_device_and_stream_and_host_rows_have_thread(read: Read) -> None:
    op = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 10, "ts": 1, "dur": 2}
    columns = ("device", "stream", "pid", "tid")
    profile = read({"traceEvents": [kernel(device=1, stream=20), op]})
    assert profile.events.select(columns).rows() == [(1, 20, None, None), (None, None, 9, 10)]


def test_device_and_stream_fall_back_to_pid_and_tid(read: Read) -> None:
    event = {"ph": "X", "cat": "Kernel", "name": "k", "pid": 2, "tid": "13", "ts": 1, "dur": 2}
    profile = read({"traceEvents": [event]})
    assert profile.events.select("device", "stream").rows() == [(2, 13)]


def test_process_and_thread_as_strings(read: Read) -> None:
    op = {"ph": "X", "cat": "cpu_op", "name": "op", "ts": 1, "dur": 2}
    events = [{**op, "pid": "123", "tid": "456"}, {**op, "pid": "python", "tid": "main thread"}]
    rows = read({"traceEvents": events}).events.select("pid", "tid").rows()
    assert rows[0] == (123, 456)
    assert rows[1][0] < 0
    assert rows[1][1] < 0


def test_a_label_that_starts_with_a_number_is_no_number(read: Read) -> None:
    op = {"ph": "X", "cat": "cpu_op", "name": "op", "tid": 1, "ts": 1, "dur": 2}
    pids = column(read({"traceEvents": [{**op, "pid": "12 (python)"}]}), "pid")
    assert pids[0] < 0


@pytest.mark.parametrize(
    ("labels", "ranks"),
    [
        (["[TP00] 123", "[TP01] 124", "[TP10] 125"], [0, 1, 10]),
        (["[TP2] 1", "[TP10] 2", "[TP1] 3"], [2, 10, 1]),
        (["[TP00-DP00] 5", "[TP01-DP00] 5", "[TP00-DP01] 5"], [0, 2, 1]),
        (["rank0:9", "rank1:9", "rank1:9"], [0, 1, 1]),
        (["0_123", "1_123", "1_124"], [0, 1, 1]),
    ],
)
def test_ranks_of_a_merged_trace(read: Read, labels: list[str], ranks: list[int]) -> None:
    events = [{**kernel(), "pid": label} for label in labels]
    assert column(read({"traceEvents": events}), "rank") == ranks


def test_a_merged_trace_keeps_process_numbers(read: Read) -> None:
    op = {"ph": "X", "cat": "cpu_op", "name": "op", "tid": 1, "ts": 1, "dur": 2}
    events = [{**op, "pid": "[TP00] 123"}, {**op, "pid": "[TP01-DP00] 5"}]
    assert column(read({"traceEvents": events}), "pid") == [123, 5]


def test_labels_are_numbered_by_their_text(read: Read) -> None:
    op = {"ph": "X", "cat": "cpu_op", "name": "op", "tid": 1, "ts": 1, "dur": 2}
    events = [{**op, "pid": "b"}, {**op, "pid": "a"}, {**op, "pid": "b"}]
    assert column(read({"traceEvents": events}), "pid") == [-3, -2, -3]


def test_thread_labels_do_not_number_the_ranks(read: Read) -> None:
    events = [{**kernel(), "pid": "[TP00] 1", "tid": "[AA 1] 9"}]
    assert column(read({"traceEvents": events}), "rank") == [0]


def test_names_that_look_like_labels_do_not_number_the_ranks(read: Read) -> None:
    events = [
        {**kernel("[AA 1] step"), "pid": "[TP00] 1"},
        {**kernel("0_first"), "pid": "[TP01] 1"},
    ]
    assert column(read({"traceEvents": events}), "rank") == [0, 1]


@pytest.mark.parametrize(
    ("label", "rank"),
    [("[TP00] " + "9" * 30, 0), ("[²1] 4", 1), ("[" + "7" * 5000 + "] 1", 0)],
    ids=["process", "superscript", "endless"],
)
def test_hostile_labels_do_not_break_the_reader(read: Read, label: str, rank: int) -> None:
    profile = read({"traceEvents": [{**kernel(), "pid": label}]})
    assert column(profile, "rank") == [rank]


# Containers


def test_bare_event_array(read: Read) -> None:
    profile = read([kernel("a"), kernel("b")])
    assert (column(profile, "name"), codes(profile)) == (["a", "b"], [])


@pytest.mark.parametrize("start", [b'{"traceEvents": [', b"["])
def test_missing_closing_bracket(read: Read, start: bytes) -> None:
    data = start + raw_kernel("a") + b",\n" + raw_kernel("b")
    profile = read(data)
    assert column(profile, "name") == ["a", "b"]
    assert f"at byte {len(data)}" in message(profile, "truncated")


def test_trailing_comma(read: Read) -> None:
    profile = read(b'{"traceEvents": [' + raw_kernel("a") + b",\n]}")
    assert (column(profile, "name"), codes(profile)) == (["a"], [])


@pytest.mark.parametrize("suffix", ["json", "json.gz", "json.zst"])
def test_compression(read: Read, suffix: str) -> None:
    data = trace(raw_kernel("k"))
    packed = {
        "json": data,
        "json.gz": gzip.compress(data),
        "json.zst": zstandard.ZstdCompressor().compress(data),
    }
    assert column(read(packed[suffix], f"t.{suffix}"), "name") == ["k"]


def test_compression_is_told_by_content_not_by_name(read: Read) -> None:
    assert column(read(gzip.compress(trace(raw_kernel("k"))), "t.json"), "name") == ["k"]


def test_gzip_of_several_members(read: Read) -> None:
    data = trace(raw_kernel("a"), raw_kernel("b"))
    packed = gzip.compress(data[:50]) + gzip.compress(data[50:]) + b"\0" * 512
    profile = read(packed, "t.json.gz")
    assert (column(profile, "name"), codes(profile)) == (["a", "b"], [])


def test_zstd_of_several_frames(read: Read) -> None:
    data = trace(raw_kernel("a"), raw_kernel("b"))
    pack = zstandard.ZstdCompressor().compress
    assert column(read(pack(data[:50]) + pack(data[50:]), "t.json.zst"), "name") == ["a", "b"]


def test_byte_order_mark(read: Read) -> None:
    assert column(read(b"\xef\xbb\xbf" + trace(raw_kernel("k"))), "name") == ["k"]


def test_pretty_printed(read: Read) -> None:
    op = {**kernel(), "cat": "cpu_op", "args": {"Input Dims": [[2, 3]]}}
    data = json.dumps({"schemaVersion": 1, "traceEvents": [op, kernel("k")]}, indent=4).encode()
    profile = read(data.replace(b"\n", b"\r\n"))
    assert profile.events.select("name", "input_dims").rows() == [("k", "[[2,3]]"), ("k", None)]


def test_empty_trace(read: Read) -> None:
    profile = read({"schemaVersion": 1, "traceEvents": []})
    assert (profile.events.height, profile.events.schema, codes(profile)) == (0, EVENT_SCHEMA, [])


@pytest.mark.parametrize("data", [b'{"schemaVersion": 1}', b'{"a": {"b": [1, 2]}}', b"{}"])
def test_json_that_is_no_trace(read: Read, data: bytes) -> None:
    with pytest.raises(UnknownFormatError, match="without a traceEvents array"):
        read(data)


def test_header_members_before_and_after_the_events(read: Read) -> None:
    profile = read(
        {"schemaVersion": 1, "traceEvents": [kernel()], "record_shapes": 1, "trace_id": "A"}
    )
    assert profile.metadata.about == {"schemaVersion": 1, "record_shapes": 1, "trace_id": "A"}


def test_invalid_utf8_in_the_header(read: Read) -> None:
    profile = read(b'{"trace_id": "a\xff", "with_stack": 1, "traceEvents": [%s]}' % raw_kernel("k"))
    assert column(profile, "name") == ["k"]
    assert profile.metadata.about == {"trace_id": "a\ufffd", "with_stack": 1}


@pytest.mark.parametrize("data", [b'{"schemaVersion": "\xff"}', b'{"schemaVersion": "\xff'])
def test_invalid_utf8_without_events(read: Read, data: bytes) -> None:
    with pytest.raises((UnknownFormatError, DamagedFileError)):
        read(data)


def test_a_huge_header_member_is_passed_over(read: Read) -> None:
    huge = [{"text": 'a"]}\\' + "b" * 1_000, "n": index} for index in range(5_500)]
    data = {"schemaVersion": 1, "huge": huge, "traceEvents": [kernel()], "with_stack": 1}
    assert len(json.dumps(data)) > 5_000_000
    profile = read(data)
    assert (column(profile, "name"), codes(profile)) == (["k"], [])
    assert profile.metadata.about == {"schemaVersion": 1, "with_stack": 1}


# Damage


def test_control_characters_in_a_name(read: Read) -> None:
    profile = read(trace(raw_kernel("a\x01b\nc"), raw_kernel("d")))
    assert (column(profile, "name"), codes(profile)) == (["a\x01b\nc", "d"], [])


def test_invalid_utf8_in_a_name(read: Read) -> None:
    profile = read(trace(raw_kernel("a\xff\xfeb"), raw_kernel("d")))
    assert (column(profile, "name"), codes(profile)) == (["a\ufffd\ufffdb", "d"], [])


def test_lone_surrogates_in_a_name(read: Read) -> None:
    profile = read(trace(raw_kernel(r"a\ud800b"), raw_kernel(r"\ud83d\ude00")))
    assert (column(profile, "name"), codes(profile)) == (["a?b", "\U0001f600"], [])


def test_escapes_in_a_name(read: Read) -> None:
    profile = read(trace(raw_kernel(r"a\"b\\c\/d\u00e9\t")))
    assert column(profile, "name") == ['a"b\\c/dé\t']


def test_unescaped_quotes_lose_that_event_only(read: Read) -> None:
    profile = read(trace(raw_kernel("a"), raw_kernel('f<"x">'), raw_kernel("c")))
    assert column(profile, "name") == ["a", "c"]
    assert message(profile, "damaged_events").startswith("1 events are not valid JSON")
    assert profile.metadata.events_in_file == 3


def test_the_place_of_the_first_damage_is_named(read: Read) -> None:
    data = trace(raw_kernel("a"), raw_kernel('f<"x">'), raw_kernel("c"))
    at = data.index(b"\n", data.index(b"\n") - 1) + 1
    assert f"byte {at}:" in message(read(data), "damaged_events")


def test_json_cut_inside_an_event(read: Read) -> None:
    data = trace(raw_kernel("a"), raw_kernel("b"))
    at = data.index(b"\n") + 1
    profile = read(data[:-20])
    assert column(profile, "name") == ["a"]
    assert f"at byte {at}" in message(profile, "truncated")


@pytest.mark.parametrize(
    "data", [b'{"schemaVersion": 1, "tra', b'{"traceEvents"', b'{"traceEvents": [{"ph"']
)
def test_json_cut_before_the_first_event(read: Read, data: bytes) -> None:
    with pytest.raises(DamagedFileError):
        read(data)


def test_gzip_cut_in_the_middle_keeps_what_came_before(read: Read) -> None:
    names = [f"kernel_{index}_{index * 7919 % 10007}" for index in range(3000)]
    packed = gzip.compress(trace(*map(raw_kernel, names)))
    profile = read(packed[: len(packed) // 2], "t.json.gz")
    kept = column(profile, "name")
    assert 500 < len(kept) < 3000
    assert kept == names[: len(kept)]
    assert "the gzip stream has no end mark" in message(profile, "truncated")


def test_zstd_cut_in_the_middle_keeps_what_came_before(read: Read) -> None:
    names = [os.urandom(16).hex() for _ in range(20_000)]
    packed = zstandard.ZstdCompressor().compress(trace(*map(raw_kernel, names)))
    profile = read(packed[: len(packed) // 2], "t.json.zst")
    kept = column(profile, "name")
    assert 500 < len(kept) < 20_000
    assert kept == names[: len(kept)]
    assert "the zstd stream has no end mark" in message(profile, "truncated")


def test_gzip_without_its_checksum_is_reported(read: Read) -> None:
    profile = read(gzip.compress(trace(raw_kernel("k")))[:-8], "t.json.gz")
    assert (column(profile, "name"), codes(profile)) == (["k"], ["truncated"])


def test_deep_nesting_does_not_break_the_reader(read: Read) -> None:
    deep = b'{"ph": "X", "cat": "kernel", "name": "deep", "ts": 1, "dur": 1, "args": {"x": %s}}'
    nested = deep % (b"[" * 20_000 + b"]" * 20_000)
    profile = read(trace(raw_kernel("a"), nested, raw_kernel("b")))
    assert [name for name in column(profile, "name") if name != "deep"] == ["a", "b"]


def test_deep_nesting_in_the_header_does_not_break_the_reader(read: Read) -> None:
    deep = b"[" * 20_000 + b"]" * 20_000
    profile = read(b'{"deep": %s, "traceEvents": [%s]}' % (deep, raw_kernel("k")))
    assert column(profile, "name") == ["k"]


# What the file says of itself


@pytest.mark.parametrize(
    ("name", "rank", "stage"),
    [
        ("1702000000.5-TP-3-DECODE.trace.json", 3, "decode"),
        ("1702000000.5-TP-0-EXTEND.trace.json", 0, "prefill"),
        ("trace_rank3.json", 3, None),
        ("rank-12.json", 12, None),
        ("trace.json", None, None),
    ],
)
def test_facts_in_the_file_name(read: Read, name: str, rank: int | None, stage: str | None) -> None:
    metadata = read({"traceEvents": [kernel()]}, name).metadata
    assert (metadata.rank, metadata.stage) == (rank, stage)


def test_the_header_knows_the_rank_better_than_the_file_name(read: Read) -> None:
    info = {"rank": 5, "world_size": 8, "nccl_version": "2.27.5"}
    metadata = read({"distributedInfo": info, "traceEvents": [kernel()]}, "rank3.json").metadata
    assert (metadata.rank, metadata.world_size, metadata.versions["nccl"]) == (5, 8, "2.27.5")


def test_base_time_gives_the_wall_clock(read: Read) -> None:
    profile = read({"baseTimeNanoseconds": 1767189312000000000, "traceEvents": [kernel()]})
    assert profile.metadata.unix_offset_ns == 1767189312000000000


def test_unix_microseconds_need_no_base(read: Read) -> None:
    assert read(trace(raw_kernel("k", ts="1702000000000000"))).metadata.unix_offset_ns == 0


def test_another_clock_has_no_wall_clock(read: Read) -> None:
    assert read(trace(raw_kernel("k", ts="100"))).metadata.unix_offset_ns is None


H100 = {
    "id": 1,
    "name": "NVIDIA H100",
    "computeMajor": 9,
    "computeMinor": 0,
    "numSms": 132,
    "totalGlobalMem": 85899345920,
    "warpSize": 32,
}


def test_devices_are_those_that_worked(read: Read) -> None:
    header = {"deviceProperties": [{**H100, "id": 0}, H100]}
    profile = read({**header, "traceEvents": [kernel(device=1)]})
    assert profile.metadata.devices == (
        Device(1, "NVIDIA H100", "nvidia", "sm_90", 132, 85899345920),
    )


def test_rocm_numbers_activities_by_agent_and_the_header_by_gpu(read: Read) -> None:
    mi300 = {"id": 0, "name": "", "computeMajor": 9, "computeMinor": 4, "warpSize": 64}
    profile = read({"deviceProperties": [mi300], "traceEvents": [kernel(device=2)]})
    assert profile.metadata.devices == (Device(2, None, "amd", "gfx94x"),)


def test_a_device_that_the_header_does_not_describe(read: Read) -> None:
    profile = read(
        {"deviceProperties": [H100], "traceEvents": [kernel(device=1), kernel(device=4)]}
    )
    assert [device.label for device in profile.metadata.devices] == [
        "NVIDIA H100",
        "GPU 4 (not described)",
    ]


@pytest.mark.parametrize(
    "properties", [7, "x", [None], [{"id": "0"}], [{"id": 0, "name": 5, "computeMajor": "9"}]]
)
def test_a_senseless_device_list_is_ignored(read: Read, properties: Any) -> None:
    profile = read({"deviceProperties": properties, "traceEvents": [kernel()]})
    assert [device.name for device in profile.metadata.devices] == [None]


def test_absurd_header_numbers_survive_saving(read: Read, tmp_path: Path) -> None:
    device = {"id": 0, "totalGlobalMem": 10**30, "numSms": 10**30}
    data = {"deviceProperties": [device], "x": 10**30, "traceEvents": [kernel()]}
    read(data).save(tmp_path / "saved")


def test_the_framework_shows_in_the_names_of_events_that_are_kept(read: Read) -> None:
    label = {"ph": "M", "name": "sglang/label"}
    frame = {**kernel("vllm/worker.py(1): run"), "cat": "python_function"}
    assert read({"traceEvents": [label, frame]}).metadata.framework == "vllm"


def test_environment_and_command_are_not_kept(read: Read) -> None:
    header = {"env": {"HF_TOKEN": "hunter2"}, "cmdline": "--key hunter2", "host_name": "hunter2"}
    assert "hunter2" not in str(read({**header, "traceEvents": [kernel()]}).metadata)


@pytest.mark.parametrize(
    ("data", "claimed"),
    [
        (b'{"schemaVersion": 1, "traceEvents": [', True),
        (b'\xef\xbb\xbf  {"traceEvents": [', True),
        (b'[{"ph": "X"', True),
        (b"[]", True),
        (b"[1, 2]", False),
        (b'{"rocprofiler-sdk-tool": []}', False),
        (b'{"a": 1}', False),
        (b"name,calls", False),
    ],
)
def test_sniff(data: bytes, claimed: bool) -> None:
    assert READER.sniff(Head(Path("x"), data)) is claimed


# The contract of a scanner


def scan(data: bytes, size: int) -> tuple[Any, ...]:
    scanner: TraceScanner = new_scanner()
    for at in range(0, len(data), size):
        scanner.feed(data[at : at + size])
    scanner.finish()
    columns = {name: bytes(values) for name, values in scanner.take().items()}
    return (
        columns,
        list(scanner.texts(0)),
        list(scanner.jsons()),
        list(scanner.header()),
        scanner.stats(),
    )


PIECES = {
    "whole": trace(
        raw_kernel("a"), raw_kernel(r"b\"c"), raw_kernel("d", ts="1702000000000000.123")
    ),
    "byte order mark": b"\xef\xbb\xbf\n " + trace(raw_kernel("a")),
    "bare": b"[" + raw_kernel("a") + b"]",
    "trailer": b'{"traceEvents": ['
    + raw_kernel("a")
    + b'], "with_stack": 1, "x": {"y": ["]}"]}}\n',
    "damaged": trace(raw_kernel("a"), raw_kernel('"'), raw_kernel("b\x02")),
    "cut": trace(raw_kernel("a"), raw_kernel("b"))[:-30],
    "not closed": b'{"traceEvents": [' + raw_kernel("a"),
    "no trace": b'{"a": 1}',
    "text": b"hello",
    "nothing": b"",
}


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("data", PIECES.values(), ids=PIECES.keys())
def test_pieces_of_any_size_give_the_same(data: bytes, size: int) -> None:
    assert scan(data, size) == scan(data, max(1, len(data)))


def test_take_forgets_what_it_returned() -> None:
    scanner = new_scanner()
    scanner.feed(trace(raw_kernel("a")))
    scanner.finish()
    first, second = scanner.take(), scanner.take()
    assert len(bytes(first["start_ns"])) == 8
    assert len(bytes(second["start_ns"])) == 0


def test_a_missing_number_is_the_null_sentinel() -> None:
    scanner = new_scanner()
    scanner.feed(b'[{"ph": "X"}, {"ph": "X", "pid": 7}]')
    scanner.finish()
    columns = {name: bytes(values) for name, values in scanner.take().items()}
    assert np.frombuffer(columns["pid"], np.int64).tolist() == [NULL, 7]
    assert np.frombuffer(columns["start_ns"], np.int64).tolist() == [NULL, NULL]
    assert set(np.frombuffer(columns["tid"], np.int64).tolist()) <= {NULL}


def test_many_batches_give_one_table(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solscope.readers.kineto_scanning.BATCH_ROWS", 100)
    names = [f"kernel_{index:06d}" for index in range(20_000)]
    profile = read(trace(*map(raw_kernel, names)))
    assert profile.events["name"].cast(pl.String).to_list() == names


MESSAGE: dict[str, Any] = {
    "Collective name": "_allgather_base",
    "In msg nelems": 25136,
    "Group size": 8,
    "dtype": "BFloat16",
    "In split size": "[]",
    "Out split size": "[1, 2]",
}
INPUTS = ("input_dims", "input_types", "concrete_inputs")


def test_what_a_collective_sends_stands_for_its_inputs(read: Read) -> None:
    events = read({"traceEvents": [kernel("nccl", **MESSAGE)]}).events
    (row,) = events.select(pl.col(INPUTS).cast(pl.String)).rows()
    concrete = '["","","","","","[]","[1, 2]","","","8"]'
    assert row == ("[[25136]]", '["BFloat16"]', concrete)


def test_recorded_inputs_of_a_collective_stay(read: Read) -> None:
    recorded = {"Input Dims": [[1, 25136]], "Input type": ["c10::BFloat16"]}
    events = read({"traceEvents": [kernel("nccl", **MESSAGE, **recorded)]}).events
    assert events["input_dims"].to_list() == ["[[1,25136]]"]
    assert events["concrete_inputs"].to_list() == [None]


@pytest.mark.parametrize(
    "wrong",
    [
        {"In msg nelems": -1},
        {"In msg nelems": 1.5},
        {"In msg nelems": "7"},
        {"In msg nelems": 10**20},
        {"dtype": None},
        {"dtype": 'B"'},
        {"dtype": ["BFloat16"]},
    ],
)
def test_what_is_no_message_gives_no_inputs(read: Read, wrong: dict[str, Any]) -> None:
    events = read({"traceEvents": [kernel("nccl", **(MESSAGE | wrong))]}).events
    assert events.select(INPUTS).row(0) == (None, None, None)


def test_parts_of_a_message_may_be_missing(read: Read) -> None:
    odd = MESSAGE | {"Group size": None, "In split size": [1], "Out split size": "\\"}
    events = read({"traceEvents": [kernel("nccl", **odd)]}).events
    assert events["concrete_inputs"].to_list() == ['["","","","","","","","","",""]']


def test_what_torch_records_of_a_collective_is_kept(read: Read) -> None:
    group = {"Process Group Name": "3", "Process Group Ranks": "[0, 2]", "Seq": 41}
    columns = ("collective", "process_group", "process_group_ranks", "sequence", "peer")
    rows = (
        read({"traceEvents": [kernel("nccl", **MESSAGE, **group), kernel("gemm")]})
        .events.select(pl.col(columns))
        .rows()
    )
    assert rows == [("_allgather_base", "3", "[0, 2]", 41, None), (None,) * 5]


def test_the_kernel_that_a_launch_call_names_is_kept(read: Read) -> None:
    call = {"ph": "X", "cat": "cuda_runtime", "name": "hipLaunchKernel", "ts": 1, "dur": 1}
    named = call | {"args": {"kernel": "void gemm<8>(int)", "grid": [8, 1, 1]}}
    odd = call | {"args": {"kernel": 7}}
    events = read({"traceEvents": [named, odd, call]}).events
    assert events["launched"].to_list() == ["void gemm<8>(int)", None, None]


def test_the_peer_of_a_send_is_its_target_and_of_a_receive_its_source(read: Read) -> None:
    send = kernel("nccl", **{"Collective name": "send", "Src Rank": 1, "Dst Rank": 2})
    receive = kernel("nccl", **{"Collective name": "recv", "Src Rank": 1})
    assert read({"traceEvents": [send, receive]}).events["peer"].to_list() == [2, 1]


def test_a_damaged_event_does_not_slow_down_those_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scanner in Python reads events one by one near the damage only."""
    alone = []

    def noted(text: bytes, offset: int) -> tuple[Any, int]:
        alone.append(offset)
        return read_event(text, offset)

    monkeypatch.setattr("solscope.readers.kineto_scan.read_event", noted)
    events = [raw_kernel(f"k{index}") for index in range(1000)]
    events[100] = events[100].replace(b'"dur"', b"dur")
    scanner = PythonScanner()
    scanner.feed(trace(*events))
    scanner.finish()
    assert (scanner.stats()["events"], scanner.stats()["damaged"]) == (1000, 1)
    assert len(scanner.take()["name"]) == 999
    assert len(alone) <= 2 * FEW_EVENTS


def test_a_scanner_of_another_version_is_refused() -> None:
    class Older(PythonScanner):
        def take(self) -> dict[str, Any]:
            columns = super().take()
            del columns["peer"]
            return columns

    with pytest.raises(MissingToolError, match="build it again"):
        kineto_core._require_current(Older)
