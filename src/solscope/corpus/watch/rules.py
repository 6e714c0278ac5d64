"""A rule file: which figure of which profiles must stay within which limits.

    [[rule]]
    metric = "step_p99_ms"
    phase = "decode"
    where = { job = "nightly" }
    group_by = ["model", "gpu"]
    max_increase_pct = 10

Each group is judged on its own: its latest profile against fixed limits (`max`, `min`), or against
the profiles before it (`max_increase_pct`, `max_decrease_pct`, `max_z`, `min_z`).
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from solscope.attribution.phases import PHASES
from solscope.compiled import parse_toml
from solscope.corpus.queries.select import PHASE
from solscope.errors import InputError

StepMetric = Literal[
    "step_ms", "step_mean_ms", "step_p90_ms", "step_p99_ms", "gpu_time_pct", "tokens_per_s"
]
PartMetric = Literal["call_us", "part_step_us", "part_share_pct"]
Metric = Literal[StepMetric, PartMetric]
UNITS: dict[Metric, str] = {
    "step_ms": "ms",
    "step_mean_ms": "ms",
    "step_p90_ms": "ms",
    "step_p99_ms": "ms",
    "gpu_time_pct": "%",
    "tokens_per_s": "tokens/s",
    "call_us": "µs",
    "part_step_us": "µs",
    "part_share_pct": "%",
}
LimitName = Literal["max", "min", "max_increase_pct", "max_decrease_pct", "max_z", "min_z"]
LIMITS: tuple[LimitName, ...] = get_args(LimitName)
FEWEST = 5
"""Earlier profiles that limits on a change or on z need; as many as `diagnose --baseline` needs."""
MOST = 100_000
"""Earlier profiles that a rule may ask for."""


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One figure with its limits."""

    metric: Metric
    name: str = ""
    """How alerts call it; by default the metric, with its phase and what it is of."""
    of: str | None = None
    """Operator or category that `call_us`, `part_step_us` and `part_share_pct` are of."""
    phase: str | None = None
    """Phase of the steps; by default the one in which a group spends most time."""
    where: dict[str, str | int] = {}
    """Only profiles with this metadata or these tags."""
    group_by: tuple[str, ...] = ("model", "gpu")
    """Metadata and tags; profiles that agree in all of them are one series."""
    baseline: int = 30
    """At most so many profiles before the latest are what it is compared with."""
    max: float | None = None
    min: float | None = None
    max_increase_pct: float | None = None
    """Compared with the median of the earlier profiles."""
    max_decrease_pct: float | None = None
    max_z: float | None = None
    """Standard deviations above the mean of the earlier profiles."""
    min_z: float | None = None
    """The same below it: a negative number."""

    @property
    def title(self) -> str:
        """How alerts call it."""
        parts = (self.metric, self.of and f"of {self.of}", self.phase and f"in {self.phase}")
        return self.name or " ".join(word for word in parts if word)

    @property
    def selected(self) -> dict[str, str]:
        """Which profiles it is about, as other questions to a store take it."""
        return {key: str(value) for key, value in self.where.items()}


class RuleFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All rules."""

    rule: list[Rule]


def load_rules(path: str | Path) -> list[Rule]:
    """Read a rule file; `InputError` names the rule and what is wrong with it."""
    file = Path(path)
    try:
        document = parse_toml(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: not a rule file: {error}") from None
    try:
        rules = msgspec.convert(document, RuleFile).rule
    except msgspec.ValidationError as error:
        raise InputError(f"{file}: {_unknown_metric(document) or error}") from None
    if not rules:
        raise InputError(f"{file}: no [[rule]] in this file")
    for number, rule in enumerate(rules, start=1):
        if wrong := _wrong(rule):
            raise InputError(f"{file}: rule {number} ({rule.title}): {wrong}")
    return rules


def _unknown_metric(document: Any) -> str | None:
    """The first rule with a metric that there is not, and those that there are."""
    rules = document.get("rule")
    for number, rule in enumerate(rules if isinstance(rules, list) else [], start=1):
        metric = rule.get("metric") if isinstance(rule, dict) else None
        if isinstance(metric, str) and metric not in UNITS:
            return f"rule {number}: {metric!r} is no metric; there are {', '.join(UNITS)}"
    return None


def _wrong(rule: Rule) -> str | None:
    """What is wrong with a rule that has the right fields."""
    of_part = rule.metric in get_args(PartMetric)
    if of_part and not rule.of:
        return f'{rule.metric} needs of = "OPERATOR" or of = "CATEGORY"'
    if rule.of and not of_part:
        return f"{rule.metric} is of whole steps; leave out `of`"
    if PHASE in rule.where or PHASE in rule.group_by:
        return "write phase as a key of the rule, not in `where` or `group_by`"
    if rule.phase is not None and rule.phase not in PHASES:
        return f"{rule.phase!r} is no phase; there are {', '.join(PHASES)}"
    if twice := [name for name, n in Counter(rule.group_by).items() if n > 1]:
        return f"`group_by` has {twice[0]!r} more than once"
    if all(getattr(rule, name) is None for name in LIMITS):
        return f"it has no limit ({', '.join(LIMITS)})"
    for name in LIMITS:
        value = getattr(rule, name)
        if value is not None and not math.isfinite(value):
            return f"{name} must be a finite number, not {value:g}"
    if not FEWEST <= rule.baseline <= MOST:
        return f"baseline must be {FEWEST} to {MOST:,} profiles, not {rule.baseline}"
    for name in ("max_increase_pct", "max_decrease_pct", "max_z"):
        value = getattr(rule, name)
        if value is not None and value < 0:
            return f"{name} must be at least 0, not {value:g}"
    if rule.min_z is not None and rule.min_z > 0:
        return f"min_z must be at most 0, not {rule.min_z:g}"
    return None
