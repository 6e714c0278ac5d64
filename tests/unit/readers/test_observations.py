"""Packed recordings open like any profile, and are diagnosed as the traces were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
import zstandard

import solscope
from solscope.cli import run
from solscope.diagnose.observe import observe
from solscope.errors import DamagedFileError
from solscope.readers.packed import CLOCK_NS, load, save
from solscope.redact import redact

DATA = Path(__file__).parents[2] / "data"
COUNTER = {"name": "x", "device": 0, "grows": False, "clock": 0, "values": [1.0], "n": 1}
STEPS = 24
KERNEL = {"category": "gemm", "name": "k", "dtype": None} | {
    "calls": [1] * STEPS,
    "ns": [5] * STEPS,
    "exposed_ns": [5] * STEPS,
    "p50_ns": 5,
    "grids": {},
    "bytes": 0,
}
NORMAL, SLOW = (DATA / f"cpu_quota-{name}.observations.json.zst" for name in ("normal", "slow"))


def written(tmp_path: Path, **changes: Any) -> Path:
    """The normal recording as plain JSON, with some members changed."""
    data = zstandard.ZstdDecompressor().decompressobj().decompress(NORMAL.read_bytes())
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(json.loads(data) | changes), encoding="utf-8")
    return path


def test_kernels_are_the_sums_of_their_classes() -> None:
    packed, profile = load(SLOW), solscope.open(SLOW)
    assert profile.aggregates["total_ns"].sum() == sum(sum(k.ns) for k in packed.kernels)
    assert profile.aggregates["calls"].sum() == sum(sum(k.calls) for k in packed.kernels)
    assert profile.is_aggregate


def test_categories_are_those_of_the_trace() -> None:
    packed = load(SLOW)
    was: dict[str, int] = {}
    for kernel in packed.kernels:
        was[kernel.category] = was.get(kernel.category, 0) + sum(kernel.ns)
    summary = solscope.summarize(solscope.attribute(solscope.open(SLOW)))
    found = {row.category: round(row.time_ms * 1e6) for row in summary.categories}
    assert found == {category: ns for category, ns in was.items() if ns}


def test_steps_are_those_of_the_trace() -> None:
    packed = load(SLOW)
    summary = solscope.summarize(solscope.attribute(solscope.open(SLOW)))
    assert summary.steps.count == len(packed.steps)
    assert summary.steps.cut == sum(not step.whole for step in packed.steps)
    decode = pl.Series(s.wall_ns for s in packed.steps if s.whole and s.phase == "decode")
    (phase,) = (phase for phase in summary.steps.phases if phase.phase == "decode")
    assert phase.p50_ms == pytest.approx(float(str(decode.median())) / 1e6)
    assert phase.gap_p50_ms is None
    assert summary.gpu_span_ms is None


def test_every_sample_is_there() -> None:
    packed, metrics = load(SLOW), solscope.open(SLOW).metrics
    assert metrics is not None
    assert metrics.height == sum(counter.n for counter in packed.counters)
    (runq,) = (c for c in packed.counters if c.name == "runq_ns")
    rows = metrics.filter(pl.col("metric") == "runq_ns")
    assert rows["value"].to_list() == (runq.values * runq.n)[: runq.n]
    assert packed.run.unix_ns is not None
    assert rows["t_ns"][0] == packed.run.unix_ns + CLOCK_NS * packed.clocks[runq.clock][0]


def test_it_is_observed_without_loss(tmp_path: Path) -> None:
    profile = solscope.open(SLOW)
    assert observe(solscope.attribute(profile)) == load(SLOW)
    again = solscope.open(profile.save(tmp_path / "saved"))
    assert observe(solscope.attribute(again)) == load(SLOW)


@pytest.mark.parametrize("name", ["a.json", "b.json.zst"])
def test_the_name_of_the_file_does_not_matter(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = save(load(SLOW), tmp_path / name)
    assert run(["diagnose", str(NORMAL), str(slow), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["causes"][0]["id"] == "cpu_quota"


def test_a_bundled_recording_is_diagnosed(capsys: pytest.CaptureFixture[str]) -> None:
    folder = "demo:lab/recordings"
    pair = [f"{folder}/tune-graph-pcie-{name}.json.zst" for name in ("normal", "s3")]
    assert run(["diagnose", *pair, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["causes"][0]["id"] == "pcie"
    assert run(["show", folder, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["profiles"]) == 8


def test_a_redacted_copy_has_tables_only() -> None:
    profile, _ = redact(solscope.open(SLOW))
    assert profile.observations is None
    assert profile.aggregates.height == solscope.open(SLOW).aggregates.height


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"solscope_observations": 2}, "version 2"),
        ({"kernels": []}, "no kernel ran"),
        ({"kernels": 3}, "damaged packed recording"),
        ({"clocks": []}, "damaged samples of the sensor"),
        ({"kernels": [KERNEL | {"ns": [-5] * STEPS}]}, "damaged numbers of the kernel 'k'"),
        ({"kernels": [{"category": "gemm", "name": "k"}]}, "missing required field `dtype`"),
        ({"steps": [[0, 0, -5, None, None, None, 1, True]]}, "damaged packed recording"),
        ({"counters": [COUNTER | {"n": 2_000_000_000}]}, "damaged samples of the sensor 'x'"),
        ({"counters": [COUNTER | {"n": 1 << 70}]}, "damaged packed recording"),
        ({"counters": [COUNTER | {"device": 99_999_999_999}]}, "damaged packed recording"),
        (
            {"clocks": [[0] * 5000], "counters": [COUNTER | {"n": 5000}] * 1000},
            "5,000,000 samples; at most 4,194,304",
        ),
        ({"clocks": [[1 << 63]]}, "damaged packed recording"),
        ({"steps": [["x"]]}, "damaged packed recording"),
        ({"steps": [[0, (1 << 63) - 1, 5, None, None, None, 1, True]]}, "damaged packed recording"),
        ({"steps": [[0, 0, 5, None, 1 << 64, None, 1, True]]}, "damaged packed recording"),
    ],
)
def test_damage_is_one_clear_error(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DamagedFileError, match=message):
        solscope.open(written(tmp_path, **changes))


def test_samples_without_a_clock_are_refused_even_if_no_time_is_known(tmp_path: Path) -> None:
    """Without a wall clock no metric table is made, but a diagnosis would write them out."""
    run_ = json.loads(json.dumps(msgspec.to_builtins(load(NORMAL).run))) | {"unix_ns": None}
    path = written(tmp_path, run=run_, counters=[COUNTER | {"n": 2_000_000_000}])
    with pytest.raises(DamagedFileError, match="damaged samples"):
        solscope.open(path)
    with pytest.raises(DamagedFileError, match="damaged samples"):
        load(path)


def test_damaged_steps_of_a_saved_profile_are_one_clear_error(tmp_path: Path) -> None:
    saved = solscope.open(SLOW).save(tmp_path / "saved")
    packed = saved / "observations.json"
    changed = json.loads(packed.read_bytes()) | {"steps": [[0, 1 << 63, 5, None, 1, 1, 1, True]]}
    packed.write_text(json.dumps(changed), encoding="utf-8")
    with pytest.raises(DamagedFileError, match="damaged packed recording"):
        solscope.summarize(solscope.attribute(solscope.open(saved)))


@pytest.mark.parametrize("part", ["tiles", "kernels", "host_calls", "sections"])
def test_lists_that_miss_a_step_are_refused(tmp_path: Path, part: str) -> None:
    """A list that was one value short ended `diagnose` with an index out of range."""
    rows = msgspec.to_builtins(getattr(load(NORMAL), part))
    rows[0]["ns"] = rows[0]["ns"][:-1]
    path = written(tmp_path, **{part: rows})
    with pytest.raises(DamagedFileError, match="steps"):
        load(path)
    assert run(["diagnose", str(NORMAL), str(path)]) == 2


def test_a_stall_outside_the_steps_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, stalls=[[999, 0, 5, "host:decode"]])
    with pytest.raises(DamagedFileError, match="stall"):
        load(path)
