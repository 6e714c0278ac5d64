"""One suite for every reader: a new reader is done when a sample of its format passes here."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import solscope
from solscope import demo
from solscope.errors import InputError
from solscope.events import AGGREGATE_SCHEMA, CYCLE_SCHEMA, EVENT_SCHEMA, GPU_KINDS, METRIC_SCHEMA
from solscope.profile import Profile
from solscope.readers import JSON_READERS, READER_MODULES, readers
from solscope.readers.base import Head, ReadOptions
from solscope.readers.kineto_core import native_scanner
from solscope.readers.source import read_head, stream
from solscope.views.kernels import GroupBy

DATA = Path(__file__).parents[1] / "data"
DEMO = Path(demo.__file__).parent
SAMPLES = {
    "kineto_b200": ("kineto", DATA / "kineto_b200.json.gz"),
    "kineto_mi300x": ("kineto", DEMO / "vllm-mi300x-graph.json.gz"),
    "nsys_sqlite": ("nsys_sqlite", DATA / "nsys_h100.sqlite"),
    "nsys_stats_csv": ("nsys_stats", DATA / "nsys_decode_kern_sum.csv"),
    "nsys_stats_text": ("nsys_stats", DATA / "nsys_kern_sum.txt"),
    "rocprof": ("rocprof", DATA / "rocprofv3.json.gz"),
    "metrics": ("metrics", DATA / "run.metrics.csv"),
    "behavior_csv": ("behavior_csv", DATA / "behavior" / "normal_perf_data.csv"),
    "observations": ("observations", DATA / "cpu_quota-slow.observations.json.zst"),
}
WITHOUT_SAMPLE = {"nsys_report"}
"""Readers that need a program which is not there in CI."""
_WRITTEN = tempfile.TemporaryDirectory()
"""Samples that the unit test of a reader has as `SAMPLE`, as files."""


def sample_of_unit_test(name: str) -> Path:
    """The bytes `SAMPLE` of `tests/unit/readers/test_NAME.py` as a file."""
    file = Path(_WRITTEN.name) / f"sample.{name}"
    file.write_bytes(import_module(f"tests.unit.readers.test_{name}").SAMPLE)
    return file


SAMPLES |= {
    name: (name, sample_of_unit_test(name))
    for name in READER_MODULES
    if name not in WITHOUT_SAMPLE and name not in {reader for reader, _ in SAMPLES.values()}
}
CASES = [
    pytest.param((name, core), id=f"{name}-{core}" if core else name)
    for name, (reader, _) in SAMPLES.items()
    for core in (("native", "python") if reader == "kineto" else (None,))
]
GROUPINGS: tuple[GroupBy, ...] = ("name", "short", "category", "op")


@pytest.fixture(params=CASES, scope="module")
def sample(request: pytest.FixtureRequest) -> Iterator[str]:
    name, core = request.param
    if core == "native" and native_scanner() is None:
        pytest.skip("the native scanner is not built")
    with pytest.MonkeyPatch.context() as patch:
        if core:
            patch.setenv("SOLSCOPE_CORE", core)
        yield str(name)


@pytest.fixture(scope="module")
def profile(sample: str) -> Profile:
    return solscope.open(SAMPLES[sample][1])


@pytest.fixture(scope="module")
def attributed(profile: Profile) -> solscope.Attributed:
    return solscope.attribute(profile)


def gpu(profile: Profile) -> pl.DataFrame:
    return profile.events.filter(pl.col("kind").is_in(GPU_KINDS))


def tables(profile: Profile) -> dict[str, pl.DataFrame]:
    found = {"events": profile.events, "aggregates": profile.aggregates}
    more = {"metrics": profile.metrics, "cycles": profile.cycles}
    return found | {name: table for name, table in more.items() if table is not None}


def test_every_reader_has_a_sample() -> None:
    assert {reader for reader, _ in SAMPLES.values()} | WITHOUT_SAMPLE == set(readers().names())


def test_schema(profile: Profile) -> None:
    assert profile.events.schema == EVENT_SCHEMA
    assert profile.aggregates.schema == AGGREGATE_SCHEMA
    assert profile.metrics is None or profile.metrics.schema == METRIC_SCHEMA
    assert profile.cycles is None or profile.cycles.schema == CYCLE_SCHEMA


def test_something_was_read(profile: Profile) -> None:
    read = {name: table.height for name, table in tables(profile).items()}
    # What kernels add up to is said twice by a profile of cycles.
    rows = sum(read.values()) - (read["aggregates"] if "cycles" in read else 0)
    assert 0 < rows <= profile.metadata.events_in_file


def test_format_is_the_name_of_the_reader(sample: str, profile: Profile) -> None:
    assert profile.format == SAMPLES[sample][0]


def test_exactly_one_reader_claims_the_file(sample: str) -> None:
    reader, path = SAMPLES[sample]
    head = read_head(path)
    assert [r.name for r in readers() if r.sniff(head)] == [reader]


JSON_LIKE = (
    b'{"traceEvents": []}',
    b'[{"ph": "X"}]',
    b"{,counter_name,timestamp,value\n",
    b" {,cycle,function_name,beta_pct,anchor_name,anchor_dur_us\n",
    b"[t_ns,metric,device,value\n",
)


@pytest.mark.parametrize("data", JSON_LIKE)
def test_only_readers_of_json_claim_what_begins_like_it(data: bytes) -> None:
    head = Head(Path("a.nsys-rep"), data)
    assert head.is_json
    assert {r.name for r in readers() if r.sniff(head)} <= set(JSON_READERS)


@pytest.mark.parametrize("part", [0.25, 0.75, 0.99])
def test_a_truncated_gz_gives_a_profile_or_an_input_error(
    sample: str, part: float, tmp_path: Path
) -> None:
    reader, path = SAMPLES[sample]
    whole = gzip.compress(b"".join(stream(path, ReadOptions())))
    cut = tmp_path / (path.name.removesuffix(".gz").removesuffix(".zst") + ".gz")
    cut.write_bytes(whole[: int(len(whole) * part)])
    try:
        profile = solscope.open(cut)
    except InputError:
        return  # nothing in the file is usable
    assert profile.format == reader
    assert profile.warnings, "the profile does not say that its file is truncated"


def test_no_negative_durations(profile: Profile) -> None:
    times = [profile.events["dur_ns"]]
    times += [profile.aggregates[name] for name in ("total_ns", "mean_ns", "min_ns", "max_ns")]
    assert all((column.drop_nulls() >= 0).all() for column in times)


def test_every_gpu_activity_has_a_device_and_a_start(profile: Profile) -> None:
    activities = gpu(profile)
    assert activities["device"].null_count() == activities["start_ns"].null_count() == 0


def test_host_events_have_no_device(profile: Profile) -> None:
    host = profile.events.filter(pl.col("kind").is_in(["cpu_op", "runtime", "driver", "python"]))
    assert host["device"].null_count() == host.height


def test_every_gpu_activity_has_a_name(profile: Profile) -> None:
    assert gpu(profile)["name"].null_count() == profile.aggregates["name"].null_count() == 0


def test_devices_are_described_once(profile: Profile) -> None:
    ordinals = [device.ordinal for device in profile.metadata.devices]
    assert len(set(ordinals)) == len(ordinals)
    assert set(gpu(profile)["device"].drop_nulls()) <= set(ordinals)


def test_nothing_is_empty_text(profile: Profile) -> None:
    for table in tables(profile).values():
        for column in table.select(pl.col(pl.Categorical)):
            assert "" not in column.cast(pl.String).unique().to_list(), column.name


def test_reading_twice_gives_the_same(sample: str, profile: Profile) -> None:
    again = solscope.open(SAMPLES[sample][1])
    for name, table in tables(again).items():
        assert_frame_equal(table, tables(profile)[name], categorical_as_str=True)
    assert (again.metadata, again.warnings) == (profile.metadata, profile.warnings)


def test_saving_loses_nothing(profile: Profile, tmp_path: Path) -> None:
    opened = solscope.open(profile.save(tmp_path / "saved"))
    assert tables(opened).keys() == tables(profile).keys()
    for name, table in tables(opened).items():
        assert_frame_equal(table, tables(profile)[name], categorical_as_str=True)
    assert opened.metadata == profile.metadata
    assert opened.warnings == profile.warnings
    assert opened.format == profile.format


def test_saving_leaves_nothing_beside_the_target(profile: Profile, tmp_path: Path) -> None:
    profile.save(tmp_path / "saved")
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]


def test_a_saved_profile_gives_the_same_summary(profile: Profile, tmp_path: Path) -> None:
    opened = solscope.open(profile.save(tmp_path / "saved"))
    # The path is also in the command that the verdict suggests.
    first, second = (
        solscope.summarize(solscope.attribute(replace(p, path="same"))) for p in (profile, opened)
    )
    assert first == second


@pytest.mark.parametrize("by", GROUPINGS)
def test_kernels_sum_to_the_gpu_time(attributed: solscope.Attributed, by: GroupBy) -> None:
    profile = attributed.profile
    if by == "op" and profile.is_aggregate:
        pytest.skip("an aggregate has no operators")
    truth = int(gpu(profile)["dur_ns"].sum()) + int(profile.aggregates["total_ns"].sum())
    table = solscope.kernels(attributed, by)
    assert table.total_ns == truth
    assert sum(row.total_ns for row in table.kernels) == truth
    assert sum(row.calls for row in table.kernels) == table.calls


def test_categories_sum_to_the_gpu_time(attributed: solscope.Attributed) -> None:
    categories = solscope.summarize(attributed).categories
    total_ns = sum(round(part.time_ms * 1e6) for part in categories)
    assert total_ns == solscope.kernels(attributed).total_ns


def test_shares_sum_to_a_hundred(attributed: solscope.Attributed) -> None:
    table = solscope.kernels(attributed)
    if not table.total_ns:
        pytest.skip("nothing ran on a GPU")
    assert sum(row.pct for row in table.kernels) == pytest.approx(100, abs=1e-9)
    shares = sum(part.pct for part in solscope.summarize(attributed).categories)
    assert shares == pytest.approx(100, abs=1e-9)


def test_busy_and_idle_fill_the_span(attributed: solscope.Attributed) -> None:
    summary = solscope.summarize(attributed)
    if summary.gpu_span_ms is None or summary.gpu_busy_ms is None:
        pytest.skip("no time line")
    idle = sum(part.time_ms for part in summary.idle)
    assert summary.gpu_busy_ms <= summary.gpu_span_ms
    assert summary.gpu_busy_ms + idle == pytest.approx(summary.gpu_span_ms, abs=1e-6)


def test_command_line_and_environment_are_not_kept(profile: Profile, tmp_path: Path) -> None:
    folder = profile.save(tmp_path / "saved")
    kept = json.loads((folder / "profile.json").read_text())
    kept.pop("path")
    for secret in ("hunter2", "api-key", "serve.py", "train.py", "/srv/example", "/home/example"):
        assert secret not in json.dumps(kept)
        assert all(secret not in str(table.rows()) for table in tables(profile).values())


def test_the_samples_do_hold_a_command_line() -> None:
    assert b"hunter2" in (DATA / "nsys_h100.sqlite").read_bytes()
    assert b"hunter2" in gzip.decompress((DATA / "rocprofv3.json.gz").read_bytes())


def test_both_cores_give_the_same_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    if native_scanner() is None:
        pytest.skip("the native scanner is not built")
    for _, path in (SAMPLES["kineto_b200"], SAMPLES["kineto_mi300x"]):
        monkeypatch.setenv("SOLSCOPE_CORE", "native")
        native = solscope.open(path)
        monkeypatch.setenv("SOLSCOPE_CORE", "python")
        python = solscope.open(path)
        assert_frame_equal(native.events, python.events, categorical_as_str=True)
        assert (native.metadata, native.warnings) == (python.metadata, python.warnings)
