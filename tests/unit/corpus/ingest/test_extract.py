from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from solscope.corpus.ingest.describe import parse_date, parse_tag
from solscope.corpus.ingest.extract import ExtractOptions, content_id, extract
from solscope.corpus.rows import rows_hash
from solscope.errors import InputError
from solscope.operators.from_config import load_model
from tests.making import event, profile
from tests.unit.corpus.traces import ADD, BASE_NS, GEMM, MYSTERY, write_trace

DATA = Path(__file__).parents[3] / "data"


def test_rows_close_to_the_nanosecond_and_carry_operator_axes_and_bound(tmp_path: Path) -> None:
    found = extract(str(write_trace(tmp_path / "a.json", calls=3)))

    assert found.profile["gpu_ns"] == 3 * 25_000 == found.times["time_ns"].sum()
    assert found.profile["activities"] == 9 == found.times["launches"].sum()
    by_kernel = {row["kernel"]: row for row in found.times.iter_rows(named=True)}
    gemm = by_kernel[GEMM]
    assert (gemm["operator"], gemm["calls"], gemm["call_ns"]) == ("dense_gemm", 3, 60_000)
    assert json.loads(gemm["axes"]) == {"m": 64, "n": 4096, "k": 4096, "dtype": "bf16"}
    assert (gemm["source"], gemm["category"]) == ("recorded", "gemm")
    # 34.6 MB fit the L2 of an H200, so its bandwidth sets the bound; it is well below 20 us.
    assert 0 < gemm["bound_ns"] < 3 * 20_000
    assert (gemm["durations_ns"], gemm["durations_calls"]) == ([20_096], [3])
    assert by_kernel[ADD]["operator"] == "elementwise"
    mystery = by_kernel[MYSTERY]
    assert (mystery["operator"], mystery["axes"], mystery["bound_ns"]) == (None, None, None)
    assert found.profile["times_sha256"] == rows_hash(found.times)


def test_a_call_is_counted_once_in_the_row_of_its_longest_kernel(tmp_path: Path) -> None:
    shapes = {
        "input_dims": "[[64,4096],[4096,4096]]",
        "input_types": '["c10::BFloat16","c10::BFloat16"]',
    }
    made = profile(
        event("cpu_op", "aten::mm", 0, 90, external_id=1, **shapes),
        event("runtime", "cudaLaunchKernel", 10, 5, correlation=1, external_id=1),
        event("runtime", "cudaLaunchKernel", 20, 5, correlation=2, external_id=1),
        event("kernel", "cublasLt::splitKreduce_kernel", 3000, 500, correlation=2, external_id=1),
        event("kernel", GEMM, 100, 2000, correlation=1, external_id=1),
    )
    saved = str(made.save(tmp_path / "saved"))
    rows = {r["kernel"]: r for r in extract(saved).times.iter_rows(named=True)}
    assert (rows[GEMM]["time_ns"], rows[GEMM]["calls"], rows[GEMM]["call_ns"]) == (2000, 1, 2500)
    helper = rows["cublasLt::splitKreduce_kernel"]
    assert (helper["time_ns"], helper["calls"], helper["call_ns"]) == (500, 0, 0)
    assert helper["operator"] == rows[GEMM]["operator"] == "dense_gemm"
    assert helper["durations_ns"] == []


def test_a_summary_keeps_sums_and_no_durations() -> None:
    found = extract(str(DATA / "nsys_decode_kern_sum.csv"))
    assert found.times["time_ns"].sum() == found.profile["gpu_ns"] > 0
    assert found.times["durations_ns"].list.len().sum() == 0
    assert found.times["bound_ns"].null_count() == found.times.height


@pytest.mark.parametrize(
    "name", ["kineto_b200.json.gz", "nsys_h100.sqlite", "nsys_kern_sum.txt", "rocprofv3.json.gz"]
)
def test_every_format_closes(name: str) -> None:
    found = extract(str(DATA / name))
    assert found.times["time_ns"].sum() == found.profile["gpu_ns"]
    assert found.times["launches"].sum() == found.profile["activities"]
    assert found.times.select(pl.col("time_ns").min()).item() >= 0


def test_the_same_file_gives_the_same_rows(tmp_path: Path) -> None:
    path = str(write_trace(tmp_path / "a.json"))
    first, second = extract(path), extract(path)
    assert first.profile == second.profile
    assert first.times.equals(second.times)


def test_events_are_kept_on_demand(tmp_path: Path) -> None:
    path = str(write_trace(tmp_path / "a.json"))
    assert extract(path).events is None
    found = extract(path, ExtractOptions(keep_events=True))
    assert found.events is not None
    assert found.events.height == found.profile["kept_events"] == 16


def test_a_config_gives_axes_to_roles_without_shapes() -> None:
    shared = Path(__file__).parents[5] / "shared" / "data"
    if not shared.is_dir():
        pytest.skip("real profiles are not here: ../shared")
    path = str(shared / "traces" / "vllm_decode_full_exec.json.gz")
    config = load_model(shared / "configs" / "gpt-oss-20b.json")
    plain, sized = extract(path), extract(path, ExtractOptions(model=config))
    assert "config" not in plain.times["source"].to_list()
    assert "config" in sized.times["source"].to_list()
    assert sized.times["time_ns"].sum() == sized.profile["gpu_ns"] == plain.profile["gpu_ns"]
    assert sized.profile["model"] == config.name


# --- What is told about a profile


def test_the_trace_tells_gpu_and_date(tmp_path: Path) -> None:
    told = extract(str(write_trace(tmp_path / "a.json"))).profile
    assert (told["gpu"], told["hardware"]) == ("H200", "H200")
    assert told["recorded_ns"] == BASE_NS + 1_000_000
    assert (told["model"], told["tp"], told["tags"]) == (None, None, "{}")


def test_a_sidecar_tells_more_and_tags_win(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "a.trace.json")
    sidecar = {"model": "Qwen3", "tp": 8, "version": "0.9.1", "team": "search", "weight": 2.5}
    (tmp_path / "a.solscope.json").write_text(json.dumps(sidecar))
    options = ExtractOptions(tags=(("model", "Llama"), ("date", "2026-11-15")))

    told = extract(str(path), options).profile

    assert (told["model"], told["tp"], told["version"]) == ("Llama", 8, "0.9.1")
    assert json.loads(told["tags"]) == {"team": "search", "weight": "2.5"}
    assert told["recorded_ns"] == 1_794_700_800_000_000_000


def test_a_tagged_gpu_gives_bounds_to_a_profile_that_names_none() -> None:
    path = str(DATA / "nsys_h100.sqlite")
    assert extract(path).profile["hardware"] is None
    told = extract(path, ExtractOptions(tags=(("gpu", "H100"),))).profile
    assert (told["gpu"], told["hardware"]) == ("H100", "H100")
    told = extract(path, ExtractOptions(tags=(("gpu", "B9000"),))).profile
    assert (told["gpu"], told["hardware"]) == ("B9000", None)


@pytest.mark.parametrize(
    "text",
    ['["a"]', '{"a": {"b": 1}}', "{", '{"tp": "many"}', '{"bad key!": "x"}', '{"date": "soon"}'],
)
def test_a_bad_sidecar_is_one_clear_error(tmp_path: Path, text: str) -> None:
    path = write_trace(tmp_path / "a.json")
    (tmp_path / "a.json.solscope.json").write_text(text)
    with pytest.raises(InputError):
        extract(str(path))


@pytest.mark.parametrize(
    "text", ["novalue", "=x", "a b=c", "tp=0", "tp=x", "date=yesterday", "phase=x"]
)
def test_bad_tags_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse_tag(text)


def test_tags_may_hold_anything() -> None:
    hostile = "'; DROP TABLE profiles; --\x1b[31m"
    assert parse_tag(f"note={hostile}") == ("note", hostile)
    assert parse_date("2026-11-15T00:00:00Z") == parse_date("2026-11-15")


def test_content_decides_the_id_not_the_name(tmp_path: Path) -> None:
    one, other = write_trace(tmp_path / "a.json"), write_trace(tmp_path / "b.json")
    changed = write_trace(tmp_path / "c.json", m=65)
    assert content_id(str(one)) == content_id(str(other)) != content_id(str(changed))
