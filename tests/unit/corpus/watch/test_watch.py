"""Limits on the latest profiles of a store."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

from solscope.cli import run
from solscope.corpus.ingest.extract import ExtractOptions, extract
from solscope.corpus.rows import Extract
from solscope.corpus.store import Corpus, create_corpus
from solscope.corpus.watch.limits import against_limits
from solscope.corpus.watch.metrics import Figures
from solscope.corpus.watch.rules import Rule, load_rules
from solscope.corpus.watch.watching import Watched, watch
from solscope.errors import InputError, UsageError
from tests.unit.corpus.traces import write_trace

DAYS = 8
Command = Callable[..., "Ran"]


def on_day(read: Extract, model: str, day: int, gemm_us: float) -> Extract:
    """A profile as it was read, of another day and with other times of its two products."""
    product = pl.col("operator") == "dense_gemm"
    more_ns = round(2e3 * gemm_us) - int(read.times.filter(product)["time_ns"].sum())
    times = read.times.with_columns(
        pl.col(name) + pl.when(product).then(more_ns).otherwise(0)
        for name in ("time_ns", "call_ns")
    )
    steps = read.steps.with_columns(pl.col("dur_ns", "gpu_ns") + more_ns)
    profile = {
        **read.profile,
        "id": f"{model}-{day}",
        "file": str(Path(read.profile["file"]).with_name(f"{model}-{day}.json")),
        "model": model,
        "recorded_ns": read.profile["recorded_ns"] + day * 86_400 * 10**9,
    }
    return replace(read, profile=profile, times=times, steps=steps)


def on_rank(read: Extract, rank: int, world_size: int) -> Extract:
    """The same as one rank of a run, which starts a second after the rank before."""
    day = read.profile["id"].rpartition("-")[2]
    folder = Path(read.profile["file"]).parent
    profile = {
        **read.profile,
        "id": f"{read.profile['id']}-{rank}",
        "file": str(folder / f"day{day}" / f"rank{rank}.json"),
        "rank": rank,
        "world_size": world_size,
        "recorded_ns": read.profile["recorded_ns"] + rank * 10**9,
    }
    return replace(read, profile=profile)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Two models over eight days; on the last, products of `slow` take half as long again."""
    folder = tmp_path_factory.mktemp("watch")
    made = create_corpus(folder / "store")
    read = extract(str(write_trace(folder / "slow-3.json", gemm_us=20.03)), ExtractOptions())
    write_trace(folder / "slow-7.json", gemm_us=30.0)
    steady = [on_day(read, "steady", day, 20 + day / 100) for day in range(DAYS)]
    slow = [on_day(read, "slow", day, 20 + day / 100) for day in range(DAYS - 1)]
    made.append([*steady, on_day(read, "slow", DAYS - 1, 30.0), *slow])
    return made


def rows(corpus: Corpus, **fields: Any) -> dict[str, Watched]:
    found = watch(corpus, [Rule(**fields)])
    return {row.group["model"]: row for row in found.rows}


def test_a_limit_on_change_is_broken_by_the_model_that_got_slower(corpus: Corpus) -> None:
    found = rows(corpus, metric="call_us", of="dense_gemm", max_increase_pct=20)
    assert {model: row.state for model, row in found.items()} == {"slow": "broken", "steady": "ok"}
    row = found["slow"]
    assert row.value == pytest.approx(30.0)
    assert row.change_pct == pytest.approx(100 * (30 / 20.03 - 1))
    assert row.earlier is not None
    assert row.earlier.profiles == DAYS - 1
    # The profile nearest to the median of the seven before is the fourth.
    assert row.diagnose is not None
    assert [Path(word).name for word in row.diagnose.split()[2:]] == ["slow-3.json", "slow-7.json"]
    assert list(found) == ["slow", "steady"]


@pytest.mark.parametrize(
    ("limits", "state"),
    [
        ({"max": 29.9}, "broken"),
        ({"max": 30.1}, "ok"),
        ({"min": 30.1}, "broken"),
        ({"min": 29.9}, "ok"),
        ({"max_increase_pct": 60}, "ok"),
        ({"max_z": 4}, "broken"),
        ({"min_z": -4}, "ok"),
        ({"max_decrease_pct": 1}, "ok"),
        ({"max": 40, "max_increase_pct": 5}, "broken"),
    ],
)
def test_each_kind_of_limit(corpus: Corpus, limits: dict[str, float], state: str) -> None:
    assert rows(corpus, metric="call_us", of="dense_gemm", **limits)["slow"].state == state


def test_z_is_the_distance_in_deviations_of_a_further_value() -> None:
    before = [9.0, 10.0, 10.0, 10.0, 11.0]
    tested = against_limits(Rule(metric="step_ms", max_z=3), 13.0, before)
    # mean 10, standard deviation sqrt(2 / 4), and the mean is uncertain by a fifth of the variance.
    assert tested.z == pytest.approx(3 / (0.5 * 1.2) ** 0.5)
    assert [limit.broken for limit in tested.limits] == [True]
    assert tested.untested is None


def test_few_or_equal_earlier_profiles_tell_nothing() -> None:
    rule = Rule(metric="step_ms", max_increase_pct=5, max_z=3, max=20)
    few = against_limits(rule, 13.0, [10.0] * 4)
    assert few.untested == "max_increase_pct, max_z: 4 earlier profiles, 5 are needed"
    assert [limit.found for limit in few.limits] == [13.0, None, None]
    equal = against_limits(rule, 10.2, [10.0] * 5)
    assert equal.untested == "max_z: all earlier profiles have the same value"
    assert equal.change_pct == pytest.approx(2.0)


def test_there_is_no_percentage_of_a_median_of_zero() -> None:
    rule = Rule(metric="step_ms", max_increase_pct=5, max_z=3)
    spread = against_limits(rule, 1.0, [0.0, 0.0, 0.0, 0.0, 1.0])
    assert spread.untested == "max_increase_pct: the median before is 0"
    equal = against_limits(rule, 1.0, [0.0] * 5)
    assert equal.untested == (
        "max_increase_pct: the median before is 0; max_z: all earlier profiles have the same value"
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_not_finite_cannot_be_told(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    values = Figures.values
    monkeypatch.setattr(
        Figures, "values", lambda *args: values(*args).with_columns(pl.lit(value).alias("value"))
    )
    row = rows(corpus, metric="step_ms", max=1)["slow"]
    assert (row.state, row.value) == ("cannot_tell", None)
    assert row.reason == "the latest profile: its value is not a finite number"


def test_a_baseline_is_the_profiles_right_before(corpus: Corpus) -> None:
    found = rows(corpus, metric="call_us", of="dense_gemm", max_increase_pct=1, baseline=5)
    assert found["slow"].earlier is not None
    assert (found["slow"].earlier.profiles, found["slow"].earlier.median) == (5, 20.04)


def test_ranks_of_a_run_are_one_profile(tmp_path: Path) -> None:
    made = create_corpus(tmp_path / "store")
    read = extract(str(write_trace(tmp_path / "rank0.json", rank=0)), ExtractOptions())
    ranks = 8
    for day in range(7):
        gemm_us = 60.0 if day == 6 else 20 + day / 100
        made.append(
            [on_rank(on_day(read, "m", day, gemm_us), rank, ranks) for rank in range(ranks)]
        )
    row = rows(made, metric="call_us", of="dense_gemm", max_increase_pct=10, baseline=5)["m"]
    # With one value per rank, the five before the latest would be ranks of the same slow run.
    assert row.state == "broken"
    assert row.value == pytest.approx(60.0)
    assert row.earlier is not None
    assert row.earlier.profiles == 5
    assert row.earlier.median == pytest.approx(20.03)
    assert row.diagnose is not None
    assert row.diagnose.endswith("day6/rank0.json")


def test_steps_in_figures(corpus: Corpus) -> None:
    row = rows(corpus, metric="step_ms", max=1)["steady"]
    # 2 x (20.07 + 2 + 3) with 10 us after each of the six but the last.
    assert row.value == pytest.approx((2 * 25.07 + 50) / 1e3)
    assert row.phase == "(unknown)"
    busy = rows(corpus, metric="gpu_time_pct", min=10)["steady"]
    assert busy.value == pytest.approx(100 * 50.14 / 100.14)


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        ("step_p99_ms", "the latest profile: 1 steps; step_p99_ms needs 100"),
        ("tokens_per_s", "the latest profile: tokens per step are not recorded"),
    ],
)
def test_what_a_profile_does_not_show_cannot_be_told(
    corpus: Corpus, metric: str, reason: str
) -> None:
    row = rows(corpus, metric=metric, max=1)["slow"]
    assert (row.state, row.value, row.reason) == ("cannot_tell", None, reason)


def test_profiles_can_be_one_series(corpus: Corpus) -> None:
    found = watch(corpus, [Rule(metric="step_ms", max=1, group_by=())])
    assert [(row.group, row.state) for row in found.rows] == [({}, "ok")]


def test_a_rule_about_nothing_is_named(corpus: Corpus) -> None:
    with pytest.raises(InputError, match=r"rule 'step_ms': .*no profile with model=none"):
        watch(corpus, [Rule(metric="step_ms", max=1, where={"model": "none"})])
    with pytest.raises(UsageError, match="rule 'call_us of nope': no operator or category 'nope'"):
        watch(corpus, [Rule(metric="call_us", of="nope", max=1)])


# --- Rule files


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("metric = ", "not a rule file"),
        ("baseline = " + "9" * 5000, "not a rule file"),
        (
            '[[rule]]\nmetric = "step_ms"\nmax = 1\nbaseline = 99999999999999999999',
            "must be 5 to 100,000",
        ),
        ("", "missing required field `rule`"),
        ("rule = []", r"no \[\[rule\]\]"),
        (
            '[[rule]]\nmetric = "speed"\nmax = 1',
            "rule 1: 'speed' is no metric; there are step_ms, step_mean_ms, ",
        ),
        ("[[rule]]\nmetric = 3\nmax = 1", r"Expected `str`, got `int` - at .*rule\[0\].metric"),
        (
            '[[rule]]\nmetric = "step_ms"\nphase = "decoed"\nmax = 1',
            "'decoed' is no phase; there are prefill, decode, mixed, ",
        ),
        (
            '[[rule]]\nmetric = "step_ms"\nmax = 1\ngroup_by = ["gpu", "model", "gpu"]',
            "`group_by` has 'gpu' more than once",
        ),
        ('[[rule]]\nmetric = "step_ms"\nmaximum = 1', "unknown field `maximum`"),
        ('[[rule]]\nmetric = "step_ms"', r"rule 1 \(step_ms\): it has no limit"),
        ('[[rule]]\nmetric = "call_us"\nmax = 1', "call_us needs of"),
        ('[[rule]]\nmetric = "step_ms"\nof = "gemm"\nmax = 1', "leave out `of`"),
        ('[[rule]]\nmetric = "step_ms"\nmax = 1\nbaseline = 4', "must be 5 to 100,000"),
        ('[[rule]]\nmetric = "step_ms"\nmax_z = -1', "max_z must be at least 0, not -1"),
        ('[[rule]]\nmetric = "step_ms"\nmax = nan', "max must be a finite number, not nan"),
        ('[[rule]]\nmetric = "step_ms"\nmax_z = inf', "max_z must be a finite number, not inf"),
        ('[[rule]]\nmetric = "step_ms"\nmin_z = 1', "min_z must be at most 0, not 1"),
        ('[[rule]]\nmetric = "step_ms"\nmax = 1\nwhere = {phase = "decode"}', "key of the rule"),
    ],
)
def test_a_bad_rule_file_is_one_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message) as error:
        load_rules(file)
    assert "\n" not in str(error.value)


def test_numbers_in_where_are_those_of_the_store(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text('[[rule]]\nmetric = "step_ms"\nwhere = {tp = 8}\nmax = 1', encoding="utf-8")
    assert load_rules(file)[0].selected == {"tp": "8"}


# --- The command

RULES = """
[[rule]]
name = "products"
metric = "call_us"
of = "dense_gemm"
max_increase_pct = 20

[[rule]]
metric = "tokens_per_s"
min = 1000
"""


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def command(corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    def called(*options: str, rules: str = RULES, store: str = corpus.url) -> Ran:
        file = tmp_path / "rules.toml"
        file.write_text(rules, encoding="utf-8")
        code = run(["corpus", "watch", store, str(file), *options])
        return Ran(code, *capsys.readouterr())

    return called


def test_the_command_exits_with_1_and_writes_an_alert(command: Command) -> None:
    code, text, _ = command("--markdown")
    assert code == 1
    assert "1 limit is broken (2 rules, 4 series, 2 cannot be told)" in text
    assert "| broken | products | slow, H200 | 30 µs | 20.03 µs |" in text
    assert "why: solscope diagnose" in text


def test_json_has_every_row_broken_first(command: Command) -> None:
    document = json.loads(command("--json").out)
    states = [row["state"] for row in document["rows"]]
    assert states == ["broken", "cannot_tell", "cannot_tell", "ok"]
    assert (document["broken"], document["cannot_tell"], document["ok"]) == (1, 2, 1)


def test_strict_fails_when_nothing_can_be_told(command: Command) -> None:
    rules = '[[rule]]\nmetric = "tokens_per_s"\nmin = 1'
    assert command(rules=rules).code == 0
    assert command("--strict", rules=rules).code == 1


def test_a_diagnosis_comes_with_the_alert(command: Command) -> None:
    document = json.loads(command("--diagnose", "--json").out)
    found = document["rows"][0]["diagnosis"]
    assert found["verdict"] == "cannot_compare"  # One step each is too few to test.
    assert found["sentence"]
    assert document["rows"][1]["diagnosis"] is None


def test_a_profile_that_is_gone_leaves_the_alert_without_a_diagnosis(command: Command) -> None:
    rules = RULES.replace("max_increase_pct = 20", "max = 20")
    document = json.loads(command("--diagnose", "--json", rules=rules).out)
    found = {row["group"]["model"]: row["diagnosis"] for row in document["rows"][:2]}
    assert found["steady"]["verdict"] is None
    assert found["steady"]["sentence"].startswith("no diagnosis: ")


def test_the_other_order_of_arguments_is_explained(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(RULES, encoding="utf-8")
    assert run(["corpus", "watch", str(file), corpus.url]) == 2
    assert "the store comes first" in capsys.readouterr().err
