"""The classic report against figures computed independently, with SciPy, from the CSV as text."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest

import solscope
from solscope.diagnose.classic import Classic, ClassicRow, classic, compare_cycles, scored_rows
from solscope.diagnose.classic.processes import paired_processes
from solscope.errors import UsageError
from solscope.events import CYCLE_SCHEMA
from solscope.report.results.diagnose.classic import markdown_classic
from tests.recordings import attributed_recording

DATA = Path(__file__).parents[2] / "data" / "behavior"
RUNS = Path(__file__).parents[4] / "shared/data/h200/runs"
Key = tuple[str, str, str]


def compared(normal: str, abnormal: str) -> Classic:
    tables = []
    for name in (normal, abnormal):
        cycles = solscope.open(DATA / f"{name}_perf_data.csv").cycles
        assert cycles is not None
        tables.append(cycles)
    return compare_cycles(tables[0], tables[1], (normal, abnormal))


@pytest.fixture(scope="module")
def result() -> Classic:
    return compared("normal", "abnormal")


def by_hand(name: str) -> dict[Key, tuple[list[float], list[float]]]:
    """Shares and readings by row, read without anything of solscope."""
    found: dict[Key, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    with (DATA / f"{name}_perf_data.csv").open(newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            if line["metric_name"] != "N/A":
                key = (line["function_name"], line["metric_name"], line["device"])
                found[key][0].append(float(line["beta_pct"]))
                found[key][1].append(float(line["mu_pct"]))
    return found


def rows(result: Classic) -> dict[Key, ClassicRow]:
    return {(row.function, row.metric, row.device): row for row in result.rows}


def test_every_row_is_there_once(result: Classic) -> None:
    assert set(rows(result)) == set(by_hand("normal")) | set(by_hand("abnormal"))
    assert len(result.rows) == len(rows(result)) == 9


def test_the_score_holds_on_every_row(result: Classic) -> None:
    for row in result.rows:
        expected = abs(row.delta_beta_pct) * (abs(row.z_beta) + abs(row.z_log_mu))
        assert row.suspicion_score == pytest.approx(expected, rel=1e-12)
    scores = [row.suspicion_score for row in result.rows]
    assert scores == sorted(scores, reverse=True)


def test_every_figure_is_what_numpy_and_scipy_say(result: Classic) -> None:
    stats = pytest.importorskip("scipy.stats")
    normal, abnormal = by_hand("normal"), by_hand("abnormal")
    for key, row in rows(result).items():
        a, b = (tuple(np.array(v) for v in side.get(key, ([], []))) for side in (normal, abnormal))
        assert (row.n_normal, row.n_abnormal) == (a[0].size, b[0].size)
        checks = (
            (a[0], b[0], row.z_beta, row.p_beta, row.u_p_beta),
            (a[1], b[1], row.z_mu, row.p_mu, row.u_p_mu),
            (np.log1p(a[1]), np.log1p(b[1]), row.z_log_mu, None, None),
        )
        for x, y, z, p, u in checks:
            means = [v.mean() if v.size else 0.0 for v in (x, y)]
            std = x.std(ddof=1) if x.size > 1 else 0.0
            expected = (means[1] - means[0]) / std if std > 1e-9 else 0.0
            assert z == pytest.approx(expected, rel=1e-9, abs=1e-12), key
            if u is None:
                continue
            if min(x.size, y.size) <= 1:
                assert (p, u) == (1.0, 1.0)
                continue
            assert u == pytest.approx(stats.mannwhitneyu(x, y).pvalue, rel=1e-9)
            with np.errstate(all="ignore"):
                truth = stats.ttest_ind_from_stats(
                    *(x.mean(), x.std(ddof=1), x.size, y.mean(), y.std(ddof=1), y.size),
                    equal_var=False,
                ).pvalue
            assert p == pytest.approx(truth, rel=1e-6) if p is not None else math.isnan(truth)


def test_a_row_worked_out_by_hand(result: Classic) -> None:
    """`write` / `disk_usage`: cycles 1, 3, 5 of the normal run have a reading of 61 each."""
    row = rows(result)["write", "disk_usage", "Host"]
    assert (row.n_normal, row.n_abnormal) == (3, 5)
    assert (row.beta_normal_pct, row.beta_abnormal_pct) == (25.0, 26.0)
    assert row.mu_abnormal == pytest.approx(60.6)
    # Constant in the normal run: Z is 0 by definition, and with it the score.
    assert (row.z_beta, row.z_mu, row.suspicion_score) == (0.0, 0.0, 0.0)


def test_a_missing_side_is_zero_and_said(result: Classic) -> None:
    row = rows(result)["Memset (Device)", "gpu_usage", "GPU 0"]
    assert (row.n_normal, row.n_abnormal, row.mu_abnormal, row.tested) == (3, 0, 0.0, False)
    assert "missing_is_zero" in {w.code for w in result.warnings}


def test_one_cycle_is_not_tested(result: Classic) -> None:
    name = "void attention::DecodeKernel<64u, true>(Params, int)"
    row = rows(result)[name, "gpu_usage", "GPU 0"]
    assert (row.n_abnormal, row.p_beta, row.u_p_beta, row.tested) == (1, 1.0, 1.0, False)


def test_constant_and_equal_is_nan(result: Classic) -> None:
    row = rows(result)["gemm_bf16_64x64_tn", "gpu_mem_frequency", "GPU 0"]
    assert row.p_mu is None
    assert row.u_p_mu == 1.0


def test_the_summary(result: Classic) -> None:
    assert (result.normal.cycles, result.abnormal.cycles) == (6, 5)
    assert result.normal.mean_us == pytest.approx(601_000.25 / 6)
    assert result.abnormal.mean_us == 351_500.0
    assert result.change_pct == pytest.approx(100 * (351_500 * 6 / 601_000.25 - 1))
    assert result.normal.durations_us[0] == 102_000.0


def test_findings_are_the_first_three_functions_above_ten(result: Classic) -> None:
    assert [(f.function, f.device) for f in result.findings][:2] == [
        ("oncpu", "Host"),
        ("gemm_bf16_64x64_tn", "GPU 0"),
    ]
    assert len(result.findings) == 3
    assert all(row.suspicion_score > 10 for f in result.findings for row in f.rows)


def test_warnings_name_what_the_score_hides(result: Classic) -> None:
    texts = {w.code: w.message for w in result.warnings}
    assert "read 0.0152 -> 1.71 % of the cycle" in texts["rows_without_reading"]
    assert texts["rows_without_reading"].startswith("4 of 52 normal and 10 of 44 abnormal rows")
    assert "312.7 -> 312.7 us" in texts["share_not_time"]
    assert texts["not_tested"].startswith("in 2 of 9 rows")
    assert "unlike_cycles" not in texts


def test_a_mean_that_one_long_cycle_decides_is_said(result: Classic) -> None:
    assert "mean_not_typical" not in {w.code for w in result.warnings}
    table = solscope.open(DATA / "normal_perf_data.csv").cycles
    assert table is not None
    first = pl.col("cycle") == 1
    longer = pl.when(first).then(pl.col("anchor_ns") * 9).otherwise("anchor_ns").alias("anchor_ns")
    (warning,) = [
        w
        for w in compare_cycles(table, table.with_columns(longer)).warnings
        if w.code == "mean_not_typical"
    ]
    assert warning.message.startswith("abnormal: the mean cycle takes 233,500 us")


def test_unlike_units_have_no_total_change() -> None:
    result = compared("normal", "layers")
    assert not result.like_units
    assert (result.delta_us, result.change_pct) == (None, None)
    assert result.warnings[0].code == "unlike_cycles"
    text = markdown_classic(result)
    summary = text.partition("## 2.")[0]
    assert summary.count("not comparable") == 2
    assert "%  |" not in text.partition("## 2.")[2].partition("## 3.")[0]


def test_the_layout_is_that_of_the_report(result: Classic) -> None:
    text = markdown_classic(result)
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings == [
        "# Cross Performance Comparison: normal vs abnormal",
        "## 1. High-Level Performance Summary",
        "## 2. Cycle Duration Distribution Comparison",
        "## 3. In-depth Core Metric Comparison",
        "### Overview",
        "### Key Findings:",
        "### Detailed comparison table",
        "## 4. Formulas",
        "## 5. Legend",
    ]
    (heads,) = [line for line in text.splitlines() if line.startswith("| Function Name")]
    assert [cell.strip() for cell in heads.strip("|").split("|")] == [
        *("Function Name", "Metric Name", "Device", "Suspicion Score", "β_normal(%)"),
        *("β_abnormal(%)", "Δβ(%)", "Z-Score(β)", "p-value(β)", "U-test p(β)", "μ_normal"),
        *("μ_abnormal", "Δμ", "Z-Score(μ)", "Z-Score(log_μ)", "p-value(μ)", "U-test p(μ)", "n"),
    ]
    assert "1 (not tested)" in text


def test_top_limits_the_long_tables(result: Classic) -> None:
    text = markdown_classic(result, top=2)
    assert "4 more ranks: --json has all." in text
    assert "7 more rows: --json has all." in text


def test_names_cannot_break_the_table() -> None:
    table = solscope.open(DATA / "normal_perf_data.csv").cycles
    assert table is not None
    evil = table.with_columns(pl.lit("a|b`\x1b[31m\nc").cast(pl.Categorical).alias("name"))
    text = markdown_classic(compare_cycles(evil, evil), full_names=True)
    assert "\x1b" not in text
    detail = text.partition("### Detailed")[2].partition("## 4.")[0]
    lines = [line for line in detail.splitlines() if line.startswith("| a")]
    assert len(lines) > 3
    assert all(line.replace("\\|", "").count("|") == 19 for line in lines)


def test_the_result_is_plain_json(result: Classic) -> None:
    assert msgspec.json.decode(msgspec.json.encode(result), type=Classic) == result


def test_profiles_of_cycles_are_compared_as_they_are(result: Classic) -> None:
    sides = [
        solscope.attribute(solscope.open(DATA / f"{name}_perf_data.csv"))
        for name in ("normal", "abnormal")
    ]
    assert classic(sides[0], sides[1]) == result


def test_scores_alone_are_those_of_the_report(result: Classic) -> None:
    tables = [
        solscope.open(DATA / f"{name}_perf_data.csv").cycles for name in ("normal", "abnormal")
    ]
    assert tables[0] is not None
    assert tables[1] is not None
    assert scored_rows(tables[0], tables[1]) == [
        (row.function, row.metric, row.device, row.suspicion_score, row.z_log_mu)
        for row in result.rows
    ]


def test_nothing_to_compare_is_an_error(result: Classic) -> None:
    table = solscope.open(DATA / "normal_perf_data.csv").cycles
    assert table is not None
    with pytest.raises(UsageError, match="no complete cycle"):
        compare_cycles(table, CYCLE_SCHEMA.to_frame())


@pytest.mark.skipif(not RUNS.is_dir(), reason="the shared profiles are not here")
def test_two_traces() -> None:
    normal, abnormal = (
        attributed_recording(RUNS / f"{name}.trace.json.gz")
        for name in ("normal", "cpu_contention")
    )
    result = classic(normal, abnormal)
    assert result.like_units
    assert (result.normal.cycles, result.abnormal.cycles) == (19, 19)
    assert result.change_pct is not None
    assert 150 < result.change_pct < 250
    # Waiting for a core went up from nothing: here the old score does find it.
    assert result.rows[0].function == "runq"
    for row in result.rows:
        expected = abs(row.delta_beta_pct) * (abs(row.z_beta) + abs(row.z_log_mu))
        assert row.suspicion_score == pytest.approx(expected, rel=1e-12)


# --- Processes


def two_processes(first: int, second: int, slower: float) -> pl.DataFrame:
    """The cycles of the normal run, and once more in a process whose cycles take longer."""
    cycles = solscope.open(DATA / "normal_perf_data.csv").cycles
    assert cycles is not None
    other = cycles.with_columns(
        pl.lit(second, pl.Int64).alias("pid"),
        pl.col("beta_pct") / 2,
        (pl.col("anchor_ns") * slower).cast(pl.Int64),
    )
    # Fewer cycles, so that it is clear which process comes first.
    other = other.filter(pl.col("cycle") != pl.col("cycle").max())
    return pl.concat([cycles.with_columns(pl.lit(first, pl.Int64).alias("pid")), other])


def test_each_process_has_a_report_of_its_own() -> None:
    found = compare_cycles(two_processes(10, 11, 2.0), two_processes(77, 78, 3.0))
    alone = compared("normal", "normal")
    assert found.processes == [10, 77]
    assert [other.processes for other in found.others] == [[11, 78]]
    assert rows(found) == rows(alone)
    assert found.normal.mean_us == alone.normal.mean_us
    (other,) = found.others
    assert other.normal.cycles == found.normal.cycles - 1
    assert other.change_pct == pytest.approx(50.0)
    text = markdown_classic(found)
    assert "# Cross Performance Comparison: normal, process 11 vs abnormal, process 78" in text


def test_a_process_without_a_counterpart_is_named() -> None:
    both = two_processes(10, 11, 2.0)
    found = compare_cycles(both, both.filter(pl.col("pid") == 10))
    assert found.others == []
    assert [w.message for w in found.warnings if w.code == "unmatched_processes"] == [
        "compared with nothing, because the other run has no such process: 11 of normal"
    ]


def processes(*given: tuple[int, str, int]) -> pl.DataFrame:
    """Cycles of processes: id, unit and how many."""
    rows = [
        {"pid": pid, "anchor": unit, "cycle": cycle, "start_ns": 1000 * cycle}
        for pid, unit, count in given
        for cycle in range(count)
    ]
    return pl.DataFrame(rows)


@pytest.mark.parametrize(
    ("normal", "abnormal", "pairs", "alone"),
    [
        pytest.param(
            [(1, "a", 9), (2, "b", 50)],
            [(7, "a", 9), (8, "c", 50)],
            [(2, 8), (1, 7)],
            ([], []),
            id="the rest by the number of cycles",
        ),
        pytest.param(
            [(1, "a", 9), (2, "b", 20), (3, "d", 50)],
            [(7, "a", 9), (8, "c", 50)],
            [(3, 8), (1, 7)],
            ([2], []),
            id="one more on one side",
        ),
        pytest.param(
            [(7, "a", 9)],
            [(3, "a", 9), (7, "a", 9)],
            [(7, 3)],
            ([], [7]),
            id="an id that both sides have",
        ),
    ],
)
def test_what_is_left_is_paired_or_named(
    normal: list[tuple[int, str, int]],
    abnormal: list[tuple[int, str, int]],
    pairs: list[tuple[int, int]],
    alone: tuple[list[int], list[int]],
) -> None:
    assert paired_processes(processes(*normal), processes(*abnormal)) == (pairs, alone)


def test_processes_are_paired_by_their_cycle() -> None:
    """Ids alone say nothing: the second process of one run may be the first of the other."""
    both = two_processes(10, 11, 2.0)
    named = both.with_columns(
        pl.when(pl.col("pid") == 10).then(pl.lit("step")).otherwise(pl.lit("layer")).alias("anchor")
    )
    swapped = named.with_columns((21 - pl.col("pid")).alias("pid"))
    found = compare_cycles(named, swapped)
    assert [found.processes, *(other.processes for other in found.others)] == [[10, 11], [11, 10]]
