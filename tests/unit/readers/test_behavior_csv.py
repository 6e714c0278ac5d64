from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import polars as pl
import pytest

import solscope
from solscope import cli
from solscope.errors import DamagedFileError
from solscope.events import CYCLE_SCHEMA
from solscope.profile import Profile
from solscope.readers.base import Head, ReadOptions
from solscope.readers.behavior_csv import READER

DATA = Path(__file__).parents[2] / "data" / "behavior"
HEADER = (
    "cycle,pid,beta_pct,function_name,metric_name,device,func_type,mu_pct,sigma_pct,duration,"
    "anchor_name,anchor_dur_us,cycle_start_ts,instances_count\n"
)
GOOD = (
    "1,7,50.0,gemm,gpu_usage,GPU 3,gpu_compute,97.5,0.5,500.25,step,1000.5,1763013921174589.5,4\n"
)
COUNTERS = "counter_name,timestamp,value,hostname\ncpu_frequency,1763013921174589.25,900.0,\n"


def read(tmp_path: Path, text: str, name: str = "x.behavior.csv") -> Profile:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return READER.read(path, ReadOptions())


def cycles(profile: Profile) -> pl.DataFrame:
    assert profile.cycles is not None
    return profile.cycles


def codes(profile: Profile) -> list[str]:
    return [warning.code for warning in profile.warnings]


def test_a_row(tmp_path: Path) -> None:
    profile = read(tmp_path, HEADER + GOOD)
    assert cycles(profile).schema == CYCLE_SCHEMA
    assert cycles(profile).rows(named=True) == [
        {
            "cycle": 1,
            "pid": 7,
            "anchor": "step",
            "anchor_ns": 1_000_500,
            "start_ns": 1_763_013_921_174_589_500,
            "name": "gemm",
            "resource": "gpu_compute",
            "device": 3,
            "dur_ns": 500_250,
            "calls": 4,
            "beta_pct": 50.0,
            "metric": "gpu_usage",
            "mu": 97.5,
            "sigma": 0.5,
            "estimated": None,
        }
    ]
    assert codes(profile) == []


def test_a_metric_that_was_not_read_is_null_and_counted(tmp_path: Path) -> None:
    without = "1,7,25.0,oncpu,N/A,Host,oncpu,,,250.125,step,1000.5,1763013921174589.5,9\n"
    profile = read(tmp_path, HEADER + GOOD + without)
    assert cycles(profile)["metric"].to_list() == ["gpu_usage", None]
    assert cycles(profile)["device"].to_list() == [3, None]
    assert codes(profile) == ["no_reading"]
    assert profile.warnings[0].message.startswith("1 of 2 behavior rows (50 %)")


def test_rows_of_one_function_that_differ_in_the_metric_count_once(tmp_path: Path) -> None:
    profile = read(tmp_path, HEADER + GOOD + GOOD.replace("gpu_usage", "gpu_sm_frequency"))
    assert cycles(profile).height == 2
    assert profile.aggregates.select("kind", "name", "calls", "total_ns").rows() == [
        ("kernel", "gemm", 4, 500_250)
    ]


def test_host_functions_are_no_kernels(tmp_path: Path) -> None:
    host = "1,7,25.0,oncpu,N/A,Host,oncpu,,,250.125,step,1000.5,1763013921174589.5,9\n"
    profile = read(tmp_path, HEADER + host)
    assert profile.aggregates.is_empty()
    assert cycles(profile).height == 1


def test_copies_and_fills_are_told_apart(tmp_path: Path) -> None:
    copy = GOOD.replace("gemm", "Memcpy HtoD (Pinned -> Device)").replace("compute", "memcpy_h2d")
    fill = GOOD.replace("gemm", "Memset (Device)")
    profile = read(tmp_path, HEADER + GOOD + copy + fill)
    assert profile.aggregates["kind"].to_list() == ["kernel", "memcpy", "memset"]


def test_columns_in_another_order(tmp_path: Path) -> None:
    text = "function_name,anchor_name,anchor_dur_us,extra,cycle,beta_pct\ngemm,step,1000,?,2,12.5\n"
    profile = read(tmp_path, text)
    row = cycles(profile).row(0, named=True)
    assert (row["cycle"], row["beta_pct"], row["dur_ns"]) == (2, 12.5, 125_000)
    assert (row["calls"], row["device"], row["start_ns"]) == (None, None, None)


def test_a_quoted_name_keeps_its_commas(tmp_path: Path) -> None:
    profile = read(tmp_path, HEADER + GOOD.replace("gemm", '"void f<1, 2>(int, int)"'))
    assert cycles(profile)["name"].to_list() == ["void f<1, 2>(int, int)"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1000.5", "-1"),
        ("1000.5", "nan"),
        ("1000.5", "1e30"),
        ("500.25", "-500.25"),
        ("gemm", ""),
        ("1,7", "one,7"),
        (",4\n", ",-4\n"),
        ("50.0,gemm", "-3,gemm"),
    ],
)
def test_a_damaged_row_is_skipped_and_counted(tmp_path: Path, old: str, new: str) -> None:
    profile = read(tmp_path, HEADER + GOOD + GOOD.replace(old, new, 1))
    assert cycles(profile).height == 1
    assert codes(profile) == ["damaged_rows"]


def test_a_stray_quote_costs_one_row(tmp_path: Path) -> None:
    profile = read(tmp_path, HEADER + GOOD + GOOD.replace("gemm", '"gemm') + GOOD + GOOD)
    assert cycles(profile).height == 3
    assert codes(profile) == ["damaged_rows"]


def test_nothing_usable_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DamagedFileError, match="none of 1 rows is one of a cycle"):
        read(tmp_path, HEADER + "a,b\n")


def test_counters_beside_it_become_metrics(tmp_path: Path) -> None:
    (tmp_path / "x.counters.csv").write_text(COUNTERS, encoding="utf-8")
    profile = read(tmp_path, HEADER + GOOD)
    assert profile.metrics is not None
    assert profile.metrics.rows() == [(1_763_013_921_174_589_250, "cpu_frequency", None, 900.0)]
    assert profile.metadata.events_in_file == 2


def test_damaged_counters_leave_the_cycles_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "a_counters_data.csv").write_text("what is this\n", encoding="utf-8")
    profile = read(tmp_path, HEADER + GOOD, "a_perf_data.csv")
    assert profile.metrics is None
    assert codes(profile) == ["metrics_damaged"]


def test_counters_alone_are_a_profile_without_events(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text(COUNTERS + "broken,row\n", encoding="utf-8")
    profile = solscope.open(path)
    assert profile.format == "behavior_csv"
    assert profile.cycles is None
    assert codes(profile) == ["metrics_only", "damaged_rows"]


def test_several_sorts_of_cycles_and_processes_are_said(tmp_path: Path) -> None:
    other = GOOD.replace("step", "layer").replace("1,7", "1,8")
    assert codes(read(tmp_path, HEADER + GOOD + other)) == ["several_anchors", "several_processes"]


def test_compressed(tmp_path: Path) -> None:
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress((HEADER + GOOD).encode()))
    assert cycles(solscope.open(path)).height == 1


@pytest.mark.parametrize("text", ["", "cycle,pid\n1,2\n", "t_ns,metric,device,value\n"])
def test_other_text_is_not_claimed(text: str) -> None:
    assert not READER.sniff(Head(Path("x.csv"), text.encode()))


def test_a_folder_stands_for_its_cycles_not_for_the_counters() -> None:
    names = [Path(path).name for path in solscope.find_profiles([DATA])]
    assert names == ["abnormal_perf_data.csv", "layers_perf_data.csv", "normal_perf_data.csv"]


def test_saving_keeps_the_cycles(tmp_path: Path) -> None:
    profile = solscope.open(DATA / "normal_perf_data.csv")
    again = solscope.open(profile.save(tmp_path / "saved"))
    assert cycles(again).equals(cycles(profile))


def test_kernels_of_the_sample() -> None:
    profile = solscope.open(DATA / "normal_perf_data.csv")
    table = solscope.kernels(solscope.attribute(profile))
    assert [(row.name, row.calls) for row in table.kernels][:1] == [("gemm_bf16_64x64_tn", 6 * 64)]
    # 20,000 us in each of six cycles, and 10 us more for every unit of cycle number modulo four.
    assert table.kernels[0].total_ns == (6 * 20_000 + 10 * (1 + 2 + 3 + 0 + 1 + 2)) * 1000


def test_the_copy_in_another_folder_finds_its_counters(tmp_path: Path) -> None:
    for name in ("normal_perf_data.csv", "normal_counters_data.csv"):
        shutil.copy(DATA / name, tmp_path / name)
    profile = solscope.open(tmp_path / "normal_perf_data.csv")
    assert profile.metrics is not None
    assert profile.metrics.height == 24


def test_cycles_are_the_steps_of_the_summary() -> None:
    profile = solscope.open(DATA / "normal_perf_data.csv")
    steps = solscope.summarize(solscope.attribute(profile)).steps
    assert (steps.count, steps.cut, steps.found_by) == (6, 0, "anchor Scheduler.run_batch")
    (phase,) = steps.phases
    assert phase.p50_ms == pytest.approx(100.25)
    assert phase.gap_p50_ms == pytest.approx(0.25025)
    assert phase.basis.measured == "stated"
    assert (phase.basis.steps, phase.basis.of) == (6, 6)


def test_show_does_not_claim_that_no_step_follows(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["show", str(DATA / "normal_perf_data.csv")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "step time as the file states it" in shown
    assert "no step follows" not in shown
