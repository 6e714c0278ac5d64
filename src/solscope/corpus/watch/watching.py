"""The latest profile of every group against the rules of a file."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import msgspec
import polars as pl

from solscope.corpus.queries.select import Selection, fact
from solscope.corpus.queries.trend import point_label
from solscope.corpus.runs import by_run
from solscope.corpus.store import Corpus
from solscope.corpus.watch.limits import Earlier, Limit, Tested, against_limits
from solscope.corpus.watch.metrics import NO_STEPS, Figures
from solscope.corpus.watch.rules import UNITS, Metric, Rule
from solscope.errors import InputError, UsageError

NOT_FINITE = "its value is not a finite number"
State = Literal["ok", "broken", "cannot_tell"]
_WORST_FIRST: dict[State, int] = {"broken": 0, "cannot_tell": 1, "ok": 2}


class WatchedProfile(msgspec.Struct, frozen=True):
    """The latest profile of a group."""

    id: str
    file: str
    """Of a run, the lowest rank's."""
    recorded: str
    """When, UTC."""


class WatchDiagnosis(msgspec.Struct, frozen=True):
    """What `solscope diagnose` says about a broken limit."""

    verdict: str | None
    """Null where a profile could not be opened."""
    sentence: str
    """The diagnosis, or why there is none."""
    cause: str | None
    confidence: float | None


class Watched(msgspec.Struct, frozen=True):
    """One rule on one group of profiles."""

    rule: str
    group: dict[str, str]
    metric: Metric
    unit: str
    phase: str | None
    """Phase of the steps; null where all count."""
    state: State
    latest: WatchedProfile
    value: float | None
    """Of the latest profile; of a run, the mean over its ranks."""
    earlier: Earlier | None
    change_pct: float | None
    """From the median of the earlier profiles."""
    z: float | None
    """Distance from their mean, in standard deviations of one more profile."""
    limits: list[Limit]
    reason: str | None
    """Why limits could not be tested."""
    compared_with: str | None
    """File of the earlier profile that is nearest to their median."""
    diagnose: str | None
    """Command that explains the difference."""
    diagnosis: WatchDiagnosis | None = None
    """With `--diagnose`, for broken limits."""


class Watch(msgspec.Struct, frozen=True):
    """All rules on all groups, the broken ones first."""

    store: str
    rules: int
    broken: int
    cannot_tell: int
    ok: int
    undated: int
    """Profiles without a date, which have no place in a series."""
    rows: list[Watched]


def watch(corpus: Corpus, rules: Sequence[Rule]) -> Watch:
    """Test every rule on the latest profile of every group."""
    figures = Figures(corpus)
    rows: list[Watched] = []
    undated: set[str] = set()
    for rule in rules:
        try:
            selection = figures.selection(rule)
            values = figures.values(rule)
        except (InputError, UsageError) as error:
            raise type(error)(f"rule {rule.title!r}: {error}") from None
        dated = selection.profiles.filter(pl.col("recorded_ns").is_not_null())
        undated |= {*selection.profiles["id"]} - {*dated["id"]}
        if dated.is_empty():
            raise InputError(f"rule {rule.title!r}: none of its profiles has a date")
        rows += _groups(rule, selection, dated, values)
    rows.sort(key=lambda row: _WORST_FIRST[row.state])
    states = [row.state for row in rows]
    return Watch(
        store=corpus.url,
        rules=len(rules),
        broken=states.count("broken"),
        cannot_tell=states.count("cannot_tell"),
        ok=states.count("ok"),
        undated=len(undated),
        rows=rows,
    )


def _groups(
    rule: Rule, selection: Selection, dated: pl.DataFrame, values: pl.DataFrame
) -> Iterator[Watched]:
    """One row per group, in the order of their names."""
    names = list(rule.group_by)
    facts = [fact(selection.profiles, name).alias(f"group:{name}") for name in names]
    keys = pl.DataFrame([selection.profiles["at"], *facts])
    profiles = dated.join(keys, on="at")
    columns = [series.name for series in facts]
    parts = profiles.partition_by(columns, as_dict=True) if columns else {(): profiles}
    for key in sorted(parts, key=lambda key: tuple(map(str, key))):
        group = dict(zip(names, map(str, key), strict=True))
        yield _watched(rule, group, parts[key], _of_group(parts[key], values))


def _of_group(profiles: pl.DataFrame, values: pl.DataFrame) -> pl.DataFrame:
    """Values of the profiles of a group, of the phase in which it spends most time."""
    own = values.join(profiles.select("at"), on="at", how="semi")
    spent = own.group_by("phase").agg(pl.col("spent_ns").sum()).sort("spent_ns", "phase")
    if spent.height > 1:
        own = own.filter(pl.col("phase") == spent["phase"][-1])
    return own


def _watched(
    rule: Rule, group: Mapping[str, str], profiles: pl.DataFrame, values: pl.DataFrame
) -> Watched:
    # Ranks of one run must not be compared with each other: they are one value.
    series = by_run(profiles.join(values, on="at", how="left")).sort("recorded_ns", "file", "id")
    latest = series.row(-1, named=True)
    before = series.head(-1).filter(pl.col("value").is_finite()).tail(rule.baseline)
    phases = values["phase"].drop_nulls()
    phase = phases[0] if phases.len() else rule.phase
    value = latest["value"]
    if value is None or not math.isfinite(value):
        reason = latest["reason"] or (_nothing(rule, phase) if value is None else NOT_FINITE)
        value = None
        tested = Tested(None, None, None, [], f"the latest profile: {reason}")
    else:
        tested = against_limits(rule, value, before["value"].to_list())
    typical = _typical(before, tested.earlier)
    command = ["solscope", "diagnose", typical or "", latest["file"]]
    return Watched(
        rule=rule.title,
        group=dict(group),
        metric=rule.metric,
        unit=UNITS[rule.metric],
        phase=phase,
        state=_state(tested),
        latest=WatchedProfile(latest["id"], latest["file"], point_label(latest, "date")),
        value=value,
        earlier=tested.earlier,
        change_pct=tested.change_pct,
        z=tested.z,
        limits=tested.limits,
        reason=tested.untested,
        compared_with=typical,
        diagnose=None if typical is None else shlex.join(command),
    )


def _state(tested: Tested) -> State:
    if any(limit.broken for limit in tested.limits):
        return "broken"
    return "cannot_tell" if tested.untested else "ok"


def _nothing(rule: Rule, phase: str | None) -> str:
    """Why a profile without any row has no value."""
    if rule.of is not None:
        return f"no {rule.of}"
    return NO_STEPS if phase is None else f"{NO_STEPS} in {phase}"


def _typical(before: pl.DataFrame, earlier: Earlier | None) -> str | None:
    """The file of the profile nearest to the median."""
    if earlier is None:
        return None
    apart = (pl.col("value") - earlier.median).abs()
    return str(before.sort(apart, maintain_order=True)["file"][0])
