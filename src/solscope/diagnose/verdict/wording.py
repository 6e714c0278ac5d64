"""The verdict in one sentence."""

from __future__ import annotations

from typing import NamedTuple

from solscope.diagnose.causes import UNKNOWN
from solscope.diagnose.evidence import host
from solscope.diagnose.findings.findings import Findings
from solscope.diagnose.verdict.latent import Latent
from solscope.diagnose.verdict.ranking import NamedCause
from solscope.text import as_percent, capitalized

PLACES = {
    "compute": "on the GPU's kernels",
    "comm": "in communication",
    "memcpy": "in copies",
    "host": "waiting for the host",
    "sync": "in synchronization",
    "alloc": "in memory allocation",
    "gc": "in garbage collection",
    "io": "in input and output",
    "launch_wait": "between launch and start",
    "unlinked": "in gaps of unknown origin",
}
"""Where time is lost, by family of components."""


class Reason(NamedTuple):
    """Why, in words."""

    text: str
    settled: bool
    """Whether it is a cause, or several together, that no other comes close to."""


def sentence_of(
    f: Findings,
    verdict: str,
    scope: str | None,
    causes: list[NamedCause],
    latent: list[Latent],
) -> str:
    """What it is: why, where that is settled, how much and where; else why comes last."""
    unit = " and ".join(s.phase or "" for s in f.units.common).strip()
    step = f"{unit} steps".strip()
    change = _change(f)
    if verdict == "no_change":
        hidden = "; hidden changes are listed" if latent else ""
        return f"{_noise(f, step, change)}{_unclear_tail(f)}{hidden}."
    if verdict == "cannot_compare":
        sizes = ", ".join(f"{s.normal.size}/{s.abnormal.size}" for s in f.units.common)
        return f"Cannot tell: too few {step} to test (n = {sizes}); they take {change}."
    if scope == "tail" and verdict != "workload_changed":
        return _tail(f, step, verdict, causes)
    tail = _other_way(f, step, verdict)
    if verdict == "improvement":
        return f"Improvement: {step} take {change}{_where(f)}{tail}{_unclear_tail(f)}."
    if verdict == "workload_changed":
        effect = f"{step} take {change}{_by_work(f, causes[0])}"
        if f.units.moved:
            effect = _mixed(f, step)
        return f"The workload changed: {_work(causes[0])}; {effect}{tail}."
    return told("Regression", f"{step} take {change}{_where(f)}", why(f, causes), tail)


def told(what: str, facts: str, reason: Reason, besides: str = "") -> str:
    """A settled cause comes first, then what it did; what nobody knows comes last."""
    if reason.settled:
        return f"{what}: {reason.text}. {capitalized(facts)}{besides}."
    return f"{what}: {facts}; {reason.text}{besides}."


def reason_of(f: Findings, verdict: str, causes: list[NamedCause]) -> Reason | None:
    """Why the abnormal run is slower or is not, or what work it did; null for other verdicts."""
    if verdict == "workload_changed":
        return Reason(_work(causes[0]), settled=True)
    if verdict == "no_change":
        return Reason(_no_reason(f), settled=True)
    return why(f, causes) if verdict == "regression" else None


def _work(first: NamedCause) -> str:
    """What changed in the work, with what shows it."""
    return f"{first.title} ({first.evidence[0]})" if first.evidence else first.title


def _by_work(f: Findings, first: NamedCause) -> str:
    """What the other work accounts for, where that is not most of a difference beyond the noise."""
    part = first.explains_pct
    if part is None or part >= 100 * f.limits.most:
        return ""
    if abs(f.outcome.ratio - 1) <= f.outcome.floor:
        return ""
    return f"; the change of work accounts for only {as_percent(part / 100)} of that"


def _tail(f: Findings, step: str, verdict: str, causes: list[NamedCause]) -> str:
    """Rare slow steps, with their number on both sides and what they cost."""
    before, after = f.tails.normal, f.tails.abnormal
    seen = _slow_steps(f, step)
    share = as_percent(max(before.excess_share, after.excess_share))
    steps = f"; the mean step takes {_change(f)}"
    if f.outcome.typical is not None:
        steps += f", the typical one ×{f.outcome.typical:.2f}"
    if verdict == "improvement":
        few = _too_few(f)
        return f"Improvement in the tail: {seen}, {share} of the normal run's time{few}{steps}."
    cost = f"{share} of the time{_too_few(f)}"
    return told("Regression in the tail", f"{seen}, {cost}{steps}", why(f, causes))


def _slow_steps(f: Findings, step: str) -> str:
    before, after = f.tails.normal, f.tails.abnormal
    return (
        f"{after.rows.size} of {after.steps} {step} are slow (normal: {before.rows.size} of "
        f"{before.steps})"
    )


def _too_few(f: Findings) -> str:
    """Why slow steps count although their number is not significant."""
    if f.tails.by_cause and f.tails.p is not None:
        return (
            f"; too few for a test of their number (p = {f.tails.p:.2f}), but all are longer in "
            "the same state of the GPU"
        )
    if not f.tails.by_size or f.tails.p is None:
        return ""
    slow, other = f.tails.abnormal, "normal"
    if f.tails.better:
        slow, other = f.tails.normal, "abnormal"
    which = "both" if slow.rows.size == 2 else "at least two"
    return (
        f"; too few for a test of their number (p = {f.tails.p:.2f}); {which} far beyond the "
        f"{other} run"
    )


def _other_way(f: Findings, step: str, verdict: str) -> str:
    """Slow steps that the verdict does not speak of: they moved the other way, or as well."""
    if verdict == "workload_changed" and f.tails.worse:
        return f"; besides, {_slow_steps(f, step)}{_too_few(f)}"
    other = f.tails.worse if verdict == "improvement" else f.tails.better
    if verdict == "workload_changed" or not other:
        return ""
    return f"; but {_slow_steps(f, step)}{_too_few(f)}"


def _unclear_tail(f: Findings) -> str:
    """Slow steps that are too few, or in too short a run, to be a change."""
    if not f.tails.unclear:
        return ""
    before, after = f.tails.normal, f.tails.abnormal
    return (
        f"; whether slow steps became more frequent cannot be told ({after.rows.size} of "
        f"{after.steps} against {before.rows.size} of {before.steps})"
    )


def _change(f: Findings) -> str:
    times = f"({f.parts.normal_ms:.2f} → {f.parts.abnormal_ms:.2f} ms)"
    return f"×{f.outcome.ratio:.2f}{_bounds(f)} {times}"


def _bounds(f: Findings) -> str:
    low, high = f.outcome.low, f.outcome.high
    return "" if low is None or high is None else f" [{low:.2f}, {high:.2f}]"


def _mixed(f: Findings, step: str) -> str:
    """The whole difference, the mix's part of it, and what is left like for like."""
    before, after = f.parts.normal_ms, f.parts.abnormal_ms
    by_mix = (
        f" ({as_percent(f.parts.mix_ms / f.delta_ms)} of that by the mix)" if f.delta_ms else ""
    )
    return (
        f"the mean step takes ×{after / before:.2f}, {before:.2f} → {after:.2f} ms{by_mix}; like "
        f"for like, {step} take ×{f.outcome.ratio:.2f}{_bounds(f)}"
    )


def _noise(f: Findings, step: str, change: str) -> str:
    """No change, and why a ratio is none."""
    if abs(f.host.paced_ratio - 1) <= f.outcome.floor:
        return f"No change: {step} take {change}, which is within the noise"
    way = "slower" if f.outcome.ratio > 1 else "faster"
    pace = f.host.pace
    if (pace > 1) != (f.outcome.ratio > 1):
        other = "longer" if pace > 1 else "less"
        return (
            f"No change: {step} take {change}, within what two recordings of one program differ "
            f"by; all host code takes {other}, ×{pace:.2f}"
        )
    return (
        f"No change beyond the host's pace: {step} are {way}, {change}, and so is all host code, "
        f"×{pace:.2f}{_undriven(f)}, as two recordings of one program can be"
    )


def _no_reason(f: Findings) -> str:
    """Why a ratio is no change, without the ratio."""
    pace = f.host.pace
    if abs(f.host.paced_ratio - 1) <= f.outcome.floor:
        return "the difference is within the noise"
    if (pace > 1) != (f.outcome.ratio > 1):
        return "two recordings of one program can differ as much"
    return (
        f"all host code of the slower run takes ×{max(pace, 1 / pace):.2f}{_undriven(f)}, as two "
        "recordings of one program can differ"
    )


def _undriven(f: Findings) -> str:
    """What would drive the pace and was measured not to; nothing where it was not measured."""
    clauses = []
    if host.same_clock(f):
        clauses.append("at the same clock")
    if host.waits_for_core(f).holds is False:
        clauses.append("without waiting for a core")
    return f", {' and '.join(clauses)}" if clauses else ""


def _where(f: Findings) -> str:
    """The family that holds most of the difference."""
    if f.delta_ms == 0:
        return ""
    shares = {family: f.share(family) for family in PLACES}
    family = max(shares, key=lambda name: shares[name])
    share = min(shares[family], 9.99)
    return f"; {as_percent(share)} of the difference is {PLACES[family]}{_others_shorter(share)}"


def _others_shorter(share: float) -> str:
    """How a part can be more than the whole, where that is more than rounding; else empty."""
    return ", while other parts got shorter" if share >= 1.05 else ""


def why(f: Findings, causes: list[NamedCause]) -> Reason:
    """The first cause, how sure it is, and what it leaves to others."""
    if not causes or causes[0].id == UNKNOWN:
        return Reason("no known cause fits the evidence", settled=False)
    if both := _together(f, causes):
        return Reason(both, settled=True)
    first, second = causes[0], causes[1] if len(causes) > 1 else None
    rest = _rest(f, causes)
    if second is not None and first.confidence - second.confidence < f.limits.margin:
        perhaps = f"perhaps {first.title} ({as_percent(first.confidence)}){rest}"
        either = f"{first.title}, or {second.title}; to decide: {first.confirm}"
        return Reason(perhaps if second.id == UNKNOWN else either, settled=False)
    sure = "" if first.confidence >= f.limits.sure else "probably "
    text = f"{sure}{first.title} ({as_percent(first.confidence)} confident){rest}"
    return Reason(text, settled=True)


def _together(f: Findings, causes: list[NamedCause]) -> str:
    """Causes that are all sure, and each hold a part of the difference; empty for fewer than two.

    Sure of one beside others is what it has over `unknown`: they do not rule each other out.
    """
    left = next((cause.confidence for cause in causes if cause.id == UNKNOWN), 0.0)
    sure = [
        cause
        for cause in causes
        if cause.part_pct is not None
        and cause.part_pct >= 100 * f.limits.part
        and cause.confidence >= f.limits.sure * (cause.confidence + left)
    ]
    if len(sure) < 2 or sure[0].id != causes[0].id:
        return ""
    sure.sort(key=lambda cause: -(cause.part_pct or 0.0))
    parts = [(cause.title, (cause.part_pct or 0.0) / 100) for cause in sure]
    named = [f"{title} ({as_percent(part)} of the difference)" for title, part in parts]
    known = sum(part for _, part in parts)
    unexplained = "" if known >= f.limits.accounted else "; the rest is unexplained"
    rest = _others_shorter(known) + unexplained
    return f"several causes: {', '.join(named[:-1])} and {named[-1]}{rest}"


def _rest(f: Findings, causes: list[NamedCause]) -> str:
    """What the first cause does not account for; unexplained if no other cause is listed."""
    share = causes[0].explains_pct
    if share is None or share >= 100 * f.limits.accounted:
        return ""
    others = any(cause.id != UNKNOWN for cause in causes[1:])
    rest = "" if others else ", the rest is unexplained"
    return f"; it can account for {as_percent(share / 100)} of the difference{rest}"
