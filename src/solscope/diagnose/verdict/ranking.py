"""Rank the causes: gates first, then evidence, then how much of the difference each explains.

A cause is named only when all its required checks hold, none of its forbidden ones does, and it
can explain enough of the difference. Its score is its strength, plus what its supporting checks
are worth (half of it against when one is answered no; 0 without a sensor for it), plus the part
of the difference it explains. Confidence is the softmax of the scores, `unknown` included.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from solscope.diagnose.causes import NONE, UNKNOWN, catalog, causes
from solscope.diagnose.causes.base import Cause
from solscope.diagnose.evidence.base import SEPARATOR, Answer
from solscope.diagnose.findings.findings import Findings
from solscope.text import as_percent


class NamedCause(msgspec.Struct, frozen=True):
    """A cause with the evidence for and against it."""

    id: str
    family: str
    title: str
    confidence: float
    """0 to 1; the confidences of all causes named, `unknown` included, sum to 1."""
    evidence: list[str]
    against: list[str]
    explains_pct: float | None
    """Part of the difference that it can account for."""
    confirm: str
    """What to run next to confirm it."""
    part_pct: float | None = None
    """Part of the difference in states of the GPU that no other cause named here fills; null when
    it cannot be told from that of another one."""


class Excluded(msgspec.Struct, frozen=True):
    """A cause that was considered and is not named: ruled out, or not judged for lack of data."""

    id: str
    reason: str
    ruled_out: bool = True
    """Something that was recorded speaks against it; false when what it needs was not recorded."""


@dataclass(frozen=True)
class Ranking:
    """Causes in order, those that are there but explain nothing, and those not named."""

    causes: list[NamedCause]
    hidden: list[NamedCause]
    excluded: list[Excluded]
    missing: list[str]
    """What was not recorded and would tell the causes named apart, or prove one if none is, in the
    words of the checks."""
    failed: list[str]
    """Causes that could not be judged, and why."""
    first: NamedCause = field(init=False)
    """The most likely one: there is always at least the unknown cause."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", self.causes[0])


@dataclass(frozen=True)
class _Judged:
    cause: Cause
    detail: str
    """What is added to the title."""
    score: float
    share: float
    evidence: list[str]
    against: list[str]


def rank(findings: Findings, among: Sequence[Cause] | None = None) -> Ranking:
    """Judge causes (all that are known, unless others are given) against the findings."""
    named: list[_Judged] = []
    hidden: list[_Judged] = []
    excluded: list[Excluded] = []
    failed = list(catalog().failed) if among is None else []
    for cause in causes() if among is None else among:
        try:
            judged = _considered(findings, cause)
        except Exception as error:  # noqa: BLE001 - one cause must not take the others with it
            failed.append(f"cause {cause.id!r} was skipped: {type(error).__name__}: {error}")
            continue
        if isinstance(judged, Excluded):
            excluded.append(judged)
        elif judged is not None and _explains_enough(findings, judged):
            named.append(judged)
        elif judged is not None and cause.can_hide:
            hidden.append(judged)
    ordered = sorted(named, key=lambda judged: -judged.score)
    return Ranking(
        _with_confidence(findings, ordered),
        [_named(judged, 0.0) for judged in sorted(hidden, key=lambda judged: -judged.score)],
        excluded,
        _missing(findings, ordered) if ordered else _would_prove(findings, excluded, among),
        failed,
    )


def _unanswered(findings: Findings, cause: Cause) -> list[str]:
    """What would rule the cause out or prove it, and was not recorded."""
    limit = findings.limits.telling_weight
    telling = [*cause.forbidden, *(s.check for s in cause.supporting if s.weight >= limit)]
    answers = [check(findings) for check in telling]
    return list(dict.fromkeys(answer.text for answer in answers if answer.holds is None))


def _missing(findings: Findings, named: list[_Judged]) -> list[str]:
    texts = [text for judged in named for text in _unanswered(findings, judged.cause)]
    return list(dict.fromkeys(texts))


def _would_prove(
    findings: Findings, excluded: Sequence[Excluded], among: Sequence[Cause] | None
) -> list[str]:
    """What was not recorded and could prove a cause that nothing speaks against."""
    known = {cause.id: cause for cause in (causes() if among is None else among)}
    texts = []
    for cause in (known[item.id] for item in excluded if not item.ruled_out):
        required = [check(findings) for check in cause.required]
        unknown = [answer.text for answer in required if answer.holds is None]
        texts += [text for joined in unknown for text in joined.split(SEPARATOR)]
    return list(dict.fromkeys(texts))


def _explains_enough(findings: Findings, judged: _Judged) -> bool:
    return findings.delta_ms > 0 and judged.share >= findings.limits.part


def _considered(findings: Findings, cause: Cause) -> _Judged | Excluded | None:
    """The cause with its evidence, why it is not named, or null when nothing of it is seen."""
    required = [check(findings) for check in cause.required]
    if not any(answer.holds for answer in required) and required:
        return None
    refuted = [answer for answer in required if answer.holds is False]
    forbidden = [answer for check in cause.forbidden if (answer := check(findings)).holds]
    unknown = [answer for answer in required if answer.holds is None]
    if refuted or forbidden:
        return Excluded(cause.id, [*refuted, *forbidden][0].text)
    if unknown:
        return Excluded(cause.id, unknown[0].text, ruled_out=False)
    return _judge(findings, cause, required)


def _judge(findings: Findings, cause: Cause, required: list[Answer]) -> _Judged:
    share = min(1.0, max(0.0, cause.explains(findings)))
    evidence = [answer.text for answer in required]
    against: list[str] = []
    score = cause.strength + findings.limits.explained_weight * share
    for weight, check in cause.supporting:
        answer = check(findings)
        if answer.holds:
            score += weight
            evidence.append(answer.text)
        elif answer.holds is False:
            score -= weight / 2
            against.append(answer.text)
    score -= findings.limits.doubt * len(_unanswered(findings, cause))
    if share < findings.limits.most:
        against.append(f"it can account for {as_percent(share)} of the difference only")
    detail = cause.detail(findings) if cause.detail is not None else ""
    return _Judged(cause, detail, score, share, _once(evidence), _once(against))


def _once(texts: list[str]) -> list[str]:
    """Each text once; one that is a part of another says nothing new."""
    distinct: list[str] = []
    for text in dict.fromkeys(texts):
        said = {claim for other in distinct for claim in other.split(SEPARATOR)}
        if not set(text.split(SEPARATOR)) <= said:
            distinct.append(text)
    return distinct


MOST_NAMED = 6
"""Causes that are named at most, besides `unknown`."""


def _with_confidence(findings: Findings, ordered: list[_Judged]) -> list[NamedCause]:
    scores = [judged.score for judged in ordered[:MOST_NAMED]]
    weights = [math.exp(score) for score in (*scores, findings.limits.unknown_score)]
    shares = [weight / sum(weights) for weight in weights]
    parts = _own_parts(findings, ordered[:MOST_NAMED])
    named = [
        msgspec.structs.replace(_named(judged, share), part_pct=part)
        for judged, share, part in zip(ordered[:MOST_NAMED], shares, parts, strict=False)
    ]
    return sorted([*named, unknown(shares[-1])], key=lambda cause: -cause.confidence)


def _own_parts(findings: Findings, ordered: list[_Judged]) -> list[float | None]:
    """What each cause holds of the difference by itself, percent; null where two cannot be told."""
    owned = Counter(family for judged in ordered for family in set(judged.cause.own))
    apart = all(judged.cause.own for judged in ordered) and all(n == 1 for n in owned.values())
    if not apart or findings.delta_ms <= 0:
        return [None] * len(ordered)
    return [100 * max(0.0, findings.share(*judged.cause.own)) for judged in ordered]


def _named(judged: _Judged, confidence: float) -> NamedCause:
    cause = judged.cause
    return NamedCause(
        id=cause.id,
        family=cause.family,
        title=cause.title + judged.detail,
        confidence=confidence,
        evidence=judged.evidence,
        against=judged.against,
        explains_pct=100 * judged.share,
        confirm=cause.confirm,
    )


def unknown(confidence: float, evidence: list[str] | None = None) -> NamedCause:
    """The answer when nothing fits."""
    return NamedCause(
        id=UNKNOWN,
        family=UNKNOWN,
        title="no cause known to solscope fits",
        confidence=confidence,
        evidence=evidence or [],
        against=[],
        explains_pct=None,
        confirm="record both runs again with `solscope capture`, so that all sensors are sampled; "
        "annotate the sections of the program",
    )


def nothing(evidence: list[str], confidence: float) -> NamedCause:
    """The answer when nothing changed."""
    return NamedCause(
        id=NONE,
        family=NONE,
        title="nothing changed beyond the noise",
        confidence=confidence,
        evidence=evidence,
        against=[],
        explains_pct=None,
        confirm="",
    )
