"""Damaged real files: the outcome is a profile whose numbers are sound, or one clear line.

Each case is fixed by its sample and its seed, which a failure names.
"""

from __future__ import annotations

import gzip
import math
import random
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest
import zstandard

import solscope
from solscope import demo
from solscope.attribution.rule_set import RuleSet
from solscope.events import AGGREGATE_SCHEMA, EVENT_SCHEMA, GPU_KINDS
from solscope.profile import Profile
from solscope.readers import ReadOptions
from solscope.readers.kineto_core import native_scanner
from solscope.report.json import render_json
from solscope.report.results.show import show_parts
from solscope.views.summary import DeviceSummary, Summary
from tests.fuzz.commands import time_limit
from tests.fuzz.mutating import mutate
from tests.printing import printed
from tests.sampling import some

DATA = Path(__file__).parents[1] / "data"


class Sample(NamedTuple):
    path: Path
    pack: Callable[[bytes], bytes] | None = None
    """Compress again after mutating what was compressed; null to mutate the file as it is."""
    core: str | None = None


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, 1)


def _zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(1).compress(data)


KINETO = DATA / "kineto_b200.json.gz"
GRAPH = Path(demo.__file__).parent / "vllm-mi300x-graph.json.gz"
SAMPLES = {
    "kineto-json-native": Sample(KINETO, _gzip, "native"),
    "kineto-json-python": Sample(KINETO, _zstd, "python"),
    "kineto-gzip-native": Sample(KINETO, None, "native"),
    "kineto-gzip-python": Sample(GRAPH, None, "python"),
    "rocprof-json": Sample(DATA / "rocprofv3.json.gz", _gzip),
    "rocprof-gzip": Sample(DATA / "rocprofv3.json.gz"),
    "nsys-sqlite": Sample(DATA / "nsys_h100.sqlite"),
    "nsys-csv": Sample(DATA / "nsys_decode_kern_sum.csv"),
    "nsys-text": Sample(DATA / "nsys_kern_sum.txt"),
    "metrics": Sample(DATA / "run.metrics.csv"),
    "behavior-csv": Sample(DATA / "behavior" / "normal_perf_data.csv"),
}


def examine(path: Path, rules: RuleSet) -> bool:
    """Open `path` and check all that is made from it; False when it is refused as it should be."""
    try:
        profile = solscope.open(path, options=ReadOptions(max_expansion=1000))
    except solscope.SolscopeError as refusal:
        lines = str(refusal).splitlines()
    else:
        check(profile, rules)
        return True
    assert len(lines) == 1, lines
    return False


def check(profile: Profile, rules: RuleSet) -> None:
    """Every invariant of a profile and of the views on it."""
    assert profile.events.schema == EVENT_SCHEMA
    assert profile.aggregates.schema == AGGREGATE_SCHEMA
    gpu = profile.events.filter(pl.col("kind").is_in(GPU_KINDS))
    assert (gpu["dur_ns"].drop_nulls() >= 0).all()
    attributed = solscope.attribute(profile, rules)
    assert attributed.activities.height == gpu.height
    table = solscope.kernels(attributed)
    total = sum(map(int, gpu["dur_ns"].drop_nulls())) + sum(profile.aggregates["total_ns"])
    assert table.total_ns == total == sum(row.total_ns for row in table.kernels)
    summary = solscope.summarize(attributed)
    assert math.isclose(sum(c.time_ms for c in summary.categories) * 1e6, total, abs_tol=1.0)
    if total:
        assert math.isclose(sum(row.pct for row in table.kernels), 100, abs_tol=1e-9)
    devices: list[DeviceSummary | Summary] = [*summary.per_device, summary]
    for device in devices:
        if device.gpu_span_ms is not None and device.gpu_busy_ms is not None:
            assert 0 <= device.gpu_busy_ms <= device.gpu_span_ms * (1 + 1e-12)
            idle = sum(part.time_ms for part in device.idle)
            whole = device.gpu_busy_ms + idle
            assert math.isclose(whole, device.gpu_span_ms, rel_tol=1e-9, abs_tol=1e-6)
    groups = solscope.runs([summary])
    text = printed(show_parts, {"profiles": [summary], "runs": groups}, width=100, full_names=False)
    assert "\x1b" not in text
    assert render_json({"profiles": [summary], "runs": groups})


def run_cases(sample: Sample, seeds: range, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if sample.core == "native" and native_scanner() is None:
        pytest.skip("the native scanner is not built")
    if sample.core:
        monkeypatch.setenv("SOLSCOPE_CORE", sample.core)
    data = sample.path.read_bytes()
    if sample.pack:
        data = gzip.decompress(data)
    rules = solscope.load_rules()
    path = folder / sample.path.name
    opened = 0
    for seed in seeds:
        rng = random.Random(zlib.crc32(f"{sample.path.name}{sample.core}{seed}".encode()))
        changed = mutate(data, rng)
        path.write_bytes(sample.pack(changed) if sample.pack else changed)
        try:
            with time_limit():
                opened += examine(path, rules)
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
        assert [item.name for item in folder.iterdir()] == [path.name], (
            f"seed {seed}: left-over file"
        )
    # Damage is meant to be survived, and not only refused; a cut rocprofv3 file cannot be used.
    assert opened >= len(seeds) // 20 or sample == SAMPLES["rocprof-gzip"]


@pytest.mark.parametrize("name", some(SAMPLES, 2))
def test_damaged_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_cases(SAMPLES[name], range(4), tmp_path, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("name", SAMPLES)
def test_damaged_file_at_length(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_cases(SAMPLES[name], range(4, 160), tmp_path, monkeypatch)


@pytest.mark.parametrize("file", ["profile.json", "events.parquet", "aggregates.parquet"])
def test_damaged_saved_profile(file: str, tmp_path: Path) -> None:
    whole = solscope.open(KINETO).save(tmp_path / "whole")
    rules = solscope.load_rules()
    folder = tmp_path / "saved"
    for seed in range(12):
        shutil.copytree(whole, folder, dirs_exist_ok=True)
        changed = mutate((whole / file).read_bytes(), random.Random(f"{file}{seed}"))
        (folder / file).write_bytes(changed)
        try:
            with time_limit():
                examine(folder, rules)
        except BaseException as error:
            raise AssertionError(f"seed {seed}: {type(error).__name__}: {error}") from error
