"""Exports: valid for viewers, exact, readable again, and free of what `--redact` promises."""

from __future__ import annotations

import errno
import gzip
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import zstandard

import solscope
from solscope import Attributed
from solscope.cli import run
from solscope.errors import UsageError
from solscope.export import files as module
from solscope.export.files import export, redact_attributed, spreadsheet_safe
from solscope.export.lanes import MAX_LANES, lanes
from solscope.export.perfetto import perfetto_json
from tests.making import aggregate, attributed, event

DATA = Path(__file__).parents[2] / "data"
SHARED = Path(__file__).parents[4] / "shared" / "data" / "traces"
SAMPLES = ("kineto_b200.json.gz", "nsys_h100.sqlite", "rocprofv3.json.gz")


def load(path: Path) -> Attributed:
    return solscope.attribute(solscope.open(path))


def document(result: Attributed) -> dict[str, Any]:
    """The export, parsed without floats."""
    text = "".join(perfetto_json(result))
    parsed = json.loads(text, parse_float=Decimal, parse_constant=no_constant)
    assert isinstance(parsed, dict)
    return parsed


def no_constant(text: str) -> None:
    raise AssertionError(f"{text} is not JSON")


def slices(result: Attributed) -> list[dict[str, Any]]:
    return [e for e in document(result)["traceEvents"] if e["ph"] == "X"]


def names(result: Attributed, what: str) -> dict[tuple[Any, ...], str]:
    """Names of processes (by pid) or threads (by pid and tid)."""
    found = {}
    for e in document(result)["traceEvents"]:
        if e["ph"] == "M" and e["name"] == f"{what}_name":
            key = (e["pid"], e["tid"]) if what == "thread" else (e["pid"],)
            found[key] = e["args"]["name"]
    return found


def track(result: Attributed, name: str) -> list[tuple[str, int, int]]:
    """Name, start and duration (ns) of the slices of the added track of this name."""
    threads = names(result, "thread")
    return [
        (e["name"], int(e["ts"] * 1000), int(e["dur"] * 1000))
        for e in slices(result)
        if e["cat"] == "Trace" and threads[e["pid"], e["tid"]] == name
    ]


def check(parsed: dict[str, Any]) -> None:
    """What viewers of Chrome traces demand."""
    stacks: dict[tuple[Any, Any], list[tuple[Decimal, Decimal]]] = {}
    flows: dict[int, list[str]] = {}
    for e in parsed["traceEvents"]:
        assert {"ph", "name", "pid", "tid"} <= e.keys()
        assert isinstance(e["name"], str)
        assert e["ph"] in "XMsf"
        if e["ph"] == "X":
            assert e["dur"] >= 0
            assert isinstance(e["args"], dict)
            stacks.setdefault((e["pid"], e["tid"]), []).append((e["ts"], -(e["ts"] + e["dur"])))
        elif e["ph"] in "sf":
            flows.setdefault(e["id"], []).append(e["ph"])
        else:
            assert len(e["args"]) == 1
    assert all(ends == ["s", "f"] for ends in flows.values())
    for thread in stacks.values():
        assert_nested(sorted(thread))


def assert_nested(thread: list[tuple[Decimal, Decimal]]) -> None:
    open_until: list[Decimal] = []
    for start, minus_end in thread:
        while open_until and open_until[-1] <= start:
            open_until.pop()
        assert not open_until or -minus_end <= open_until[-1], "a slice overlaps another in part"
        open_until.append(-minus_end)


# --- The trace for viewers


@pytest.mark.parametrize("sample", SAMPLES)
def test_real_profiles_give_valid_traces(sample: str) -> None:
    parsed = document(load(DATA / sample))
    check(parsed)
    assert next(iter(parsed)) == "schemaVersion"


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_an_exported_trace_opens_again_as_the_same_events(tmp_path: Path, suffix: str) -> None:
    before = load(DATA / "kineto_b200.json.gz")
    file = tmp_path / f"out.json{suffix}"
    written = export(before, "perfetto", file)
    assert (written.events, written.bytes) == (before.profile.events.height, file.stat().st_size)
    after = load(file)
    assert after.profile.warnings == before.profile.warnings
    old, new = before.profile, after.profile
    shift = (new.metadata.unix_offset_ns or 0) - (old.metadata.unix_offset_ns or 0)
    texts = pl.col(pl.Categorical).cast(pl.String)
    expected = old.events.with_columns(pl.col("start_ns") - shift, texts)
    # A host event that overlaps another of its thread only in part has a thread of its own.
    assert new.events.with_columns(texts).drop("tid").equals(expected.drop("tid"))
    assert new.metadata.devices == old.metadata.devices
    assert (new.metadata.rank, new.metadata.framework) == (
        old.metadata.rank,
        old.metadata.framework,
    )


@pytest.mark.parametrize("sample", SAMPLES)
def test_an_exported_trace_gives_the_same_totals(tmp_path: Path, sample: str) -> None:
    before = solscope.summarize(load(DATA / sample))
    export(load(DATA / sample), "perfetto", tmp_path / "out.json")
    after = solscope.summarize(load(tmp_path / "out.json"))
    for name in ("kernels", "gpu_span_ms", "gpu_busy_ms", "kernel_time_ms", "comm_ms", "memcpy_ms"):
        assert getattr(after, name) == getattr(before, name), name
    assert after.categories == before.categories
    assert [k.total_ns for k in after.top_kernels] == [k.total_ns for k in before.top_kernels]


def test_times_are_exact() -> None:
    text = "".join(perfetto_json(attributed(event("kernel", "k", 1_234_567_890_123, 1_001))))
    assert '"ts":1234567890.123,"dur":1.001' in text


def test_times_that_a_double_cannot_hold_are_counted_from_the_first_event() -> None:
    zero = 1_700_000_000_123_456_789
    parsed = document(
        attributed(
            event("kernel", "k", zero, 5), event("kernel", "l", zero + 7, 5), unix_offset_ns=0
        )
    )
    assert [e["ts"] for e in parsed["traceEvents"] if e.get("cat") == "kernel"] == [
        Decimal("0.000"),
        Decimal("0.007"),
    ]
    assert parsed["baseTimeNanoseconds"] == zero


def test_kernels_say_what_was_found() -> None:
    result = attributed(
        event("cpu_op", "aten::mm", 0, 50, external_id=9),
        event("runtime", "cudaLaunchKernel", 10, 5, correlation=1, external_id=9),
        event("kernel", "void ampere_sgemm<4>(int)", 20, 30, correlation=1, grid="1,2,3"),
    )
    (kernel,) = (e for e in slices(result) if e["cat"] == "kernel")
    assert kernel["name"] == "void ampere_sgemm<4>(int)"
    args = kernel["args"]
    assert (args["short name"], args["category"], args["op"]) == (
        "ampere_sgemm",
        "gemm",
        "aten::mm",
    )
    assert (args["grid"], args["device"], args["stream"]) == ([1, 2, 3], 0, 7)
    assert (args["correlation"], args["row"], args["step"]) == (1, 2, 0)


def test_arrows_lead_from_launches_to_kernels() -> None:
    result = attributed(
        event("runtime", "cudaGraphLaunch", 10, 5, correlation=1),
        event("kernel", "a", 20, 5, correlation=1),
        event("kernel", "b", 30, 5, correlation=1),
    )
    arrows = [(e["ph"], e["id"], e["ts"]) for e in document(result)["traceEvents"] if "id" in e]
    assert arrows == [
        ("s", 1, Decimal("0.010")),
        ("f", 1, Decimal("0.020")),
        ("s", 2, Decimal("0.010")),
        ("f", 2, Decimal("0.030")),
    ]


def test_added_tracks() -> None:
    result = attributed(
        event("annotation", "decode step", 0, 95),
        event("runtime", "cudaLaunchKernel", 1, 2, correlation=1),
        event("runtime", "cudaLaunchKernel", 50, 2, correlation=2),
        event("kernel", "ampere_sgemm", 10, 20, correlation=1),
        event("kernel", "ncclDevKernel_AllReduce", 90, 5, correlation=2),
    )
    assert names(result, "process")[1 << 20,] == "solscope GPU 0"
    assert track(result, "steps") == [("decode step", 10, 85)]
    assert track(result, "phases") == [("decode", 10, 85)]
    assert track(result, "categories, stream 7") == [("gemm", 10, 20), ("comm", 90, 5)]
    assert track(result, "idle") == [("idle: launch", 30, 60)]
    (idle,) = (e for e in slices(result) if e["name"].startswith("idle"))
    assert idle["args"] == {"host_ns": 20, "launch_ns": 40}


def test_layers_and_roles_are_tracks() -> None:
    result = load(DATA / "kineto_b200.json.gz")
    placed = result.activities.filter(pl.col("role").is_not_null())
    found = [t for t in set(names(result, "thread").values()) if t.startswith("roles")]
    assert sum(len(track(result, name)) for name in found) == placed.height
    has_layers = result.activities["place"].drop_nulls().len() > 0
    assert bool(track(result, "layers")) == has_layers


def test_kernels_that_overlap_on_a_stream_get_lanes() -> None:
    result = attributed(
        event("kernel", "a", 0, 10), event("kernel", "b", 5, 10), event("kernel", "c", 16, 10)
    )
    check(document(result))
    threads = names(result, "thread")
    kernels = [e for e in slices(result) if e["cat"] == "kernel"]
    assert [threads[e["pid"], e["tid"]] for e in kernels] == [
        "stream 7",
        "stream 7 (2)",
        "stream 7",
    ]
    assert [e["args"]["stream"] for e in kernels] == [7, 7, 7]


def test_launches_stay_on_their_thread_when_a_frame_overlaps_them() -> None:
    result = attributed(
        event("python", "f", 0, 10),
        event("annotation", "step", 5, 20),
        event("runtime", "cudaLaunchKernel", 6, 30, correlation=1),
    )
    check(document(result))
    tids = {e["name"]: e["tid"] for e in slices(result)}
    assert tids["cudaLaunchKernel"] == 1
    assert tids["f"] != 1


def test_a_host_process_may_have_the_number_of_a_device() -> None:
    result = attributed(
        event("cpu_op", "x", 0, 5, pid=0, tid=7), event("kernel", "k", 0, 5, device=0)
    )
    host, kernel = (e for e in slices(result) if e["cat"] in ("cpu_op", "kernel"))
    assert (host["pid"], kernel["args"]["device"]) == (0, 0)
    assert kernel["pid"] != 0


def test_merged_ranks_stay_apart(tmp_path: Path) -> None:
    result = attributed(
        *(event("cpu_op", f"op{r}", 0, 9, pid=50, rank=r) for r in (0, 1)),
        *(event("kernel", f"k{r}", r, 9, rank=r) for r in (0, 1)),
    )
    check(document(result))
    assert "solscope rank 1 GPU 0" in names(result, "process").values()
    export(result, "perfetto", tmp_path / "out.json")
    again = solscope.open(tmp_path / "out.json").events
    assert again.select("name", "rank", "pid", "device").rows() == [
        ("op0", 0, 50, None),
        ("op1", 1, 50, None),
        ("k0", 0, None, 0),
        ("k1", 1, None, 0),
    ]


def test_processes_with_the_same_correlations_stay_linked(tmp_path: Path) -> None:
    result = attributed(
        *(event("runtime", f"launch{p}", 0, 2, pid=p, correlation=5) for p in (8, 9)),
        *(event("kernel", f"k{p}", p, 1, pid=p, correlation=5) for p in (9, 8)),
    )
    export(result, "perfetto", tmp_path / "out.json")
    again = load(tmp_path / "out.json")
    assert again.activities["launch_row"].to_list() == [1, 0]


def test_a_kernel_of_which_nothing_is_recorded() -> None:
    bare = event("kernel", "k", 0, 5) | {"device": None, "stream": None}
    (kernel,) = (e for e in slices(attributed(bare)) if e["cat"] == "kernel")
    assert kernel["args"]["short name"] == "k"


def test_events_without_start_or_duration() -> None:
    lost = event("kernel", "lost", 0, 5) | {"start_ns": None}
    result = attributed(event("kernel", "k", 0, None), lost)
    kernels = [(e["name"], e["dur"]) for e in slices(result) if e["cat"] == "kernel"]
    assert kernels == [("k", Decimal("0.000"))]


def test_names_from_strangers_cannot_break_the_file() -> None:
    wild = 'a"b\\c\n\x1b[31m{}\u2028é'
    result = attributed(
        event("cpu_op", wild, 0, 5, input_dims="[[1,", concrete_inputs='["{}"]'),
        event("kernel", wild, 0, 5),
    )
    first, *_ = slices(result)
    assert (first["name"], first["args"]["Input Dims"]) == (wild, "[[1,")


def test_a_summary_has_no_time_line() -> None:
    summary = aggregate({"kind": "kernel", "name": "k", "calls": 2, "total_ns": 10})
    with pytest.raises(UsageError, match="summary without single events"):
        document(summary)


def test_a_profile_without_gpu_work_is_still_a_trace() -> None:
    assert [e["name"] for e in slices(attributed(event("cpu_op", "x", 0, 5)))] == ["x"]


# --- Lanes


def test_nested_and_disjoint_intervals_need_one_lane() -> None:
    start, end = np.array([0, 0, 2, 10, 10]), np.array([10, 5, 4, 20, 10])
    assert lanes(start, end).tolist() == [0, 0, 0, 0, 0]


def test_the_heavier_interval_stays() -> None:
    start, end = np.array([0, 5]), np.array([10, 15])
    assert lanes(start, end).tolist() == [0, 1]
    assert lanes(start, end, np.array([0, 1])).tolist() == [1, 0]


def test_lanes_are_limited() -> None:
    start = np.arange(200)
    assert lanes(start, start + 1000).max() == MAX_LANES - 1


# --- Parquet and CSV


def test_parquet_opens_again_and_holds_what_was_found(tmp_path: Path) -> None:
    before = load(DATA / "kineto_b200.json.gz")
    folder = tmp_path / "run.solscope"
    written = export(before, "parquet", folder)
    assert written.events == before.profile.events.height
    assert solscope.open(folder).events.equals(before.profile.events)
    assert pl.read_parquet(folder / "activities.parquet").equals(before.activities)
    assert pl.read_parquet(folder / "steps.parquet").equals(before.steps)


def test_csv_has_one_row_per_activity(tmp_path: Path) -> None:
    before = load(DATA / "kineto_b200.json.gz")
    export(before, "csv", tmp_path / "out.csv")
    table = pl.read_csv(tmp_path / "out.csv", infer_schema_length=None)
    assert table.columns == before.activities.columns
    assert table["dur_ns"].equals(before.activities["dur_ns"])


def test_csv_of_a_summary(tmp_path: Path) -> None:
    summary = aggregate({"kind": "kernel", "name": "k", "calls": 2, "total_ns": 10})
    assert export(summary, "csv", tmp_path / "out.csv").events == 1
    assert pl.read_csv(tmp_path / "out.csv")["calls"].to_list() == [2]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@sum", "\t=1", "\r=1"])
def test_csv_cells_are_no_formulas(text: str) -> None:
    table = pl.DataFrame({"name": [text, "fine=1"], "n": [-1, 2]})
    assert spreadsheet_safe(table).rows() == [("'" + text, -1), ("fine=1", 2)]


# --- Redaction, in the bytes that are written


def exported_bytes(result: Attributed, folder: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Everything that the exports write, decompressed."""
    write = pl.DataFrame.write_parquet

    def plain(self: pl.DataFrame, file: Path, **_: object) -> None:
        write(self, file, compression="uncompressed")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", plain)
    export(result, "perfetto", folder / "a.json.gz")
    export(result, "parquet", folder / "b")
    export(result, "csv", folder / "c.csv")
    data = gzip.decompress((folder / "a.json.gz").read_bytes()) + (folder / "c.csv").read_bytes()
    return data + b"".join(file.read_bytes() for file in sorted((folder / "b").iterdir()))


def test_a_redacted_sample_gives_nothing_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, redactor = redact_attributed(load(DATA / "rocprofv3.json.gz"))
    counts = redactor.counts
    data = exported_bytes(result, tmp_path, monkeypatch)
    for secret in (b"example-host", b"hunter2", b"/srv/", b"/opt/", b"rocprofv3.json.gz"):
        assert secret not in data
    assert counts["fact"] == 1


PRIVATE = {
    "rocprofv3_908_results.json.gz": (
        b"smci350",
        b"aorta",
        b"/opt/conda",
        b"max_steps",
        b"7a08373d",
    ),
    "h100_qwen1.5-0.5b.json.gz": (b"ab5ece529443", b"vllm-openai", b"0x7d6a9"),
    "mi300_xdit_sd3.5.json.gz": (b"/app/", b"0x7fae95908430", b"B6F59249500C41EFA3BEA0632025F38C"),
    "vllm_decode_full_exec.json.gz": (b"0x7f6078b90e30", b"C1883E13EEE242C998FD033CD6EE9CC1"),
    "mi300_sglang_qwen3-8b_decode.json.gz": (b"sgl-workspace", b"0x7ed7a027b740"),
}
LARGE = ("rocprofv3_908_results.json.gz", "mi300_xdit_sd3.5.json.gz")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long) if name in LARGE else name for name in PRIVATE],
)
@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the shared traces")
def test_redacted_traces_give_nothing_away(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, _ = redact_attributed(load(SHARED / name))
    data = exported_bytes(result, tmp_path, monkeypatch)
    assert [secret for secret in PRIVATE[name] if secret in data] == []
    check(json.loads(gzip.decompress((tmp_path / "a.json.gz").read_bytes()), parse_float=Decimal))


def test_redaction_changes_no_number() -> None:
    before = load(DATA / "kineto_b200.json.gz")
    after, _ = redact_attributed(before)
    numbers = [c.name for c in before.activities if c.dtype.is_numeric()]
    assert after.activities.select(numbers).equals(before.activities.select(numbers))
    assert after.activities["category"].equals(before.activities["category"])


# --- The command


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    file = folder / "trace.json.gz"
    file.write_bytes((DATA / "kineto_b200.json.gz").read_bytes())
    return file


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return folder


def failing(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert run(["export", *map(str, arguments)]) == 2
    printed, err = capsys.readouterr()
    assert printed == ""
    return err


def test_the_command_writes_and_prints_paths(
    trace: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [out / "a.json.zst", out / "b", out / "c.csv"]
    options = [
        w
        for pair in zip(("--perfetto", "--parquet", "--csv"), map(str, files), strict=True)
        for w in pair
    ]
    assert run(["export", str(trace), *options]) == 0
    assert capsys.readouterr() == ("\n".join(map(str, files)) + "\n", "")
    assert sorted(out.iterdir()) == files
    assert (
        zstandard.ZstdDecompressor().decompressobj().decompress(files[0].read_bytes())[:1] == b"{"
    )


def test_the_command_reports_as_json(
    trace: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", str(trace), "--csv", str(out / "c.csv"), "--redact", "--json"]) == 0
    printed, err = capsys.readouterr()
    result = json.loads(printed)
    (written,) = result["written"]
    assert written == {
        "path": str(out / "c.csv"),
        "format": "csv",
        "events": written["events"],
        "bytes": (out / "c.csv").stat().st_size,
    }
    assert result["redacted"]["fact"] > 0
    assert err.startswith("redacted: ")


def test_nothing_is_replaced_without_force(
    trace: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = out / "a.json"
    target.write_text("mine")
    assert "--force" in failing(capsys, trace, "--perfetto", target)
    assert target.read_text() == "mine"
    assert run(["export", str(trace), "--perfetto", str(target), "--force"]) == 0
    assert target.read_text()[0] == "{"


def test_a_saved_profile_is_replaced_with_force_and_other_folders_are_not(
    trace: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert run(["export", str(trace), "--parquet", str(out / "b"), "--force"]) == 0
    capsys.readouterr()
    other = out / "other"
    other.mkdir()
    (other / "mine").write_text("x")
    assert "not a saved profile" in failing(capsys, trace, "--parquet", other, "--force")
    assert "is a folder" in failing(capsys, trace, "--csv", other, "--force")
    assert sorted(p.name for p in out.iterdir()) == ["b", "other"]


def test_the_profile_itself_is_never_replaced(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "the profile itself" in failing(capsys, trace, "--perfetto", trace, "--force")


def test_bad_usage(trace: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "choose an output" in failing(capsys, trace)
    assert "not a folder" in failing(capsys, trace, "--csv", out / "no" / "c.csv")
    summary = DATA / "nsys_kern_sum.txt"
    assert "summary without single" in failing(capsys, summary, "--perfetto", out / "a.json")
    assert list(out.iterdir()) == []


def full_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", "out")


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("fail", [full_disk, interrupted])
@pytest.mark.parametrize("option", ["--perfetto", "--parquet", "--csv"])
def test_a_failure_leaves_nothing_behind(
    trace: Path,
    out: Path,
    option: str,
    fail: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def pieces(result: Attributed) -> Iterator[str]:
        yield next(perfetto_json(result))
        fail()

    monkeypatch.setattr(module, "perfetto_json", pieces)
    monkeypatch.setattr(pl.DataFrame, "write_csv", fail)
    monkeypatch.setattr(pl.DataFrame, "write_parquet", fail)
    code = run(["export", str(trace), option, str(out / "x")])
    assert code == (130 if fail is interrupted else 2)
    assert list(out.iterdir()) == []
    expected = "interrupted" if fail is interrupted else "No space left on device"
    assert expected in capsys.readouterr().err


def test_a_report_lists_what_was_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, report = tmp_path / "t.json", tmp_path / "replaced.json"
    kernel = {"ph": "X", "cat": "kernel", "ts": 1, "dur": 1, "args": {"device": 0, "stream": 7}}
    events = [{**kernel, "name": name} for name in ("load /data/x", "k", "free /data/x")]
    trace.write_text(json.dumps({"traceEvents": events}))
    words = ["export", str(trace), "--csv", str(tmp_path / "c.csv"), "--redact-report", str(report)]
    assert run(words) == 2
    assert "needs --redact" in capsys.readouterr().err
    assert run([*words, "--redact"]) == 0
    path = {"kind": "path", "token": "<path1>", "original": "/data/x"}
    (listed,) = json.loads(report.read_text())
    assert {key: listed[key] for key in path} == path
    assert report.stat().st_mode & 0o077 == 0
    assert "/data/x" not in (tmp_path / "c.csv").read_text()
    assert "load <path1>" in (tmp_path / "c.csv").read_text()
