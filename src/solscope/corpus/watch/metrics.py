"""The figures that a rule can be about: one value per profile, or why a profile has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import polars as pl

from solscope.corpus.queries.select import PHASE, select
from solscope.corpus.queries.trend import TrendMetric, part_values, step_rows
from solscope.corpus.watch.rules import Metric, PartMetric

if TYPE_CHECKING:
    from solscope.corpus.queries.select import Selection
    from solscope.corpus.store import Corpus
    from solscope.corpus.watch.rules import Rule

_OF_PART: dict[Metric, TrendMetric] = {
    "call_us": "call",
    "part_step_us": "step",
    "part_share_pct": "share",
}
LEAST_STEPS: dict[Metric, int] = {"step_p90_ms": 10, "step_p99_ms": 100}
"""With fewer steps, such a quantile is no more than the slowest one."""
NO_STEPS = "no complete steps"


class Figures:
    """Values of all rules over one store; what several rules need is read once."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus.snapshot()
        self._selections: dict[tuple[tuple[str, str], ...], Selection] = {}
        self._steps: dict[tuple[tuple[str, str], ...], pl.DataFrame] = {}

    def selection(self, rule: Rule) -> Selection:
        """The profiles that a rule is about, of all phases."""
        key = _key(rule)
        if key not in self._selections:
            self._selections[key] = select(self._corpus, rule.selected)
        return self._selections[key]

    def values(self, rule: Rule) -> pl.DataFrame:
        """`at`, `phase`, `spent_ns`, `value` and `reason` (null where there is a value).

        A profile has one row per phase where the rule names none: what is asked of a group is the
        phase in which it spends most.
        """
        if rule.metric in get_args(PartMetric):
            return self._of_part(rule)
        sums = self._step_sums(rule)
        if rule.phase is not None:
            sums = sums.filter(pl.col("phase") == rule.phase)
        value, reason = _step_value(rule.metric)
        return sums.select("at", "phase", "spent_ns", value.alias("value"), reason.alias("reason"))

    def _of_part(self, rule: Rule) -> pl.DataFrame:
        assert rule.of is not None
        phase = {} if rule.phase is None else {PHASE: rule.phase}
        selection = select(self._corpus, {**rule.selected, **phase})
        values = part_values(selection, rule.of, _OF_PART[rule.metric], rule.phase)
        spent, none = pl.lit(0, pl.Int64), pl.lit(None, pl.String)
        return values.select(
            "at",
            pl.lit(rule.phase, pl.String).alias("phase"),
            spent.alias("spent_ns"),
            "value",
            none.alias("reason"),
        )

    def _step_sums(self, rule: Rule) -> pl.DataFrame:
        key = _key(rule)
        if key not in self._steps:
            self._steps[key] = _step_sums(self.selection(rule))
        return self._steps[key]


def _key(rule: Rule) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(rule.selected.items()))


def _step_sums(selection: Selection) -> pl.DataFrame:
    """One row per profile and phase: its complete steps in figures."""
    dur_ms = pl.col("dur_ns") / 1e6
    counted = pl.col("tokens").is_not_null()
    whole = step_rows(selection, "gpu_ns", "tokens").filter(~pl.col("cut") & (pl.col("dur_ns") > 0))
    return whole.group_by("at", "phase").agg(
        pl.len().alias("steps"),
        pl.col("dur_ns").sum().alias("spent_ns"),
        dur_ms.median().alias("step_ms"),
        dur_ms.mean().alias("step_mean_ms"),
        dur_ms.quantile(0.9, "linear").alias("step_p90_ms"),
        dur_ms.quantile(0.99, "linear").alias("step_p99_ms"),
        (100 * pl.col("gpu_ns").sum() / pl.col("dur_ns").sum()).alias("gpu_time_pct"),
        (1e9 * pl.col("tokens").sum() / pl.col("dur_ns").filter(counted).sum()).alias(
            "tokens_per_s"
        ),
    )


def _step_value(metric: Metric) -> tuple[pl.Expr, pl.Expr]:
    """The value of a metric of steps, and why it has none."""
    if metric == "tokens_per_s":
        usable = pl.col(metric).is_finite()
        reason = pl.lit("tokens per step are not recorded")
    else:
        least = LEAST_STEPS.get(metric, 1)
        usable = pl.col("steps") >= least
        reason = pl.format("{} steps; {} needs {}", "steps", pl.lit(metric), pl.lit(least))
    return pl.when(usable).then(pl.col(metric)), pl.when(~usable).then(reason)
