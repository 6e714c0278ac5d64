"""How well a diagnosis finds known causes, compared with baselines in the same harness.

Pairs with a fault whose step time moved beyond the noise of pairs without one are scored by the
place of the right cause. Those that did not move are *latent*: there is nothing to explain, and the
right answer is the cause as such or in the list of hidden changes; they are reported apart. Pairs
without a fault, recorded as such or two normal runs of the same loop, count false alarms. Halves
are never mixed: thresholds may have been chosen with `tune`, and `test` was recorded after they
were committed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from solscope.diagnose.causes import causes
from solscope.diagnose.thresholds import THRESHOLDS
from solscope.errors import InputError, UsageError
from solscope.lab.answers import (
    OURS,
    QUIET,
    Answered,
    Diagnose,
    answer_all,
    band_key,
    noise_bands,
)
from solscope.lab.pack import SUFFIX
from solscope.lab.pairs import MACHINE, PAIRS, RECORDINGS, Pair, normal_pairs, read_pairs
from solscope.lab.processes import on_all_cores
from solscope.lab.rankers import RANKERS, nameable
from solscope.lab.strip import Part, stripped
from solscope.readers.packed import Observations, load

SURE = THRESHOLDS.sure
SLOW = 1.3
"""From this slowdown on a pair counts as one that an engineer would be called for."""
TOP = 3
"""Causes of an answer that count as named."""
MANY = 12
"""Fewest pairs that are worth diagnosing in several processes."""
RESULTS = "results/lab"
"""Where the repository keeps its own recordings."""


class Rate(msgspec.Struct, frozen=True):
    """A share, with the 95 % interval of Wilson."""

    hits: int
    n: int
    rate: float | None
    """Null when there was nothing to count."""
    low: float | None
    high: float | None


class GroupScore(msgspec.Struct, frozen=True):
    """One ranker on some pairs."""

    ranker: str
    half: str
    group: str
    """`moved`, `slow`, `slow_timed`, `slow_any`, `mode:...`, `strength:...`, `fault:...`."""
    pairs: int
    top1: Rate
    top3: Rate
    mrr: float | None
    """Mean of 1 / place of the right cause, 0 where it is not named."""
    family: Rate
    """How often the first cause is of the right family (host, gpu, software, ...)."""
    nameable: int
    """Pairs whose cause this ranker has a word for."""


class ControlScore(msgspec.Struct, frozen=True):
    """One ranker on pairs without a fault, and on latent ones."""

    ranker: str
    half: str
    false_alarms: Rate
    false_changes: Rate
    """Also those it takes for faster, or refuses to compare."""
    latent_right: Rate
    """Latent pairs whose cause is named, or is in the list of hidden changes, or of which it says
    that nothing changed."""
    latent_named: Rate
    """The same without those of which it only says that nothing changed."""


class Confusion(msgspec.Struct, frozen=True):
    """How often our diagnosis named one cause first when another was right."""

    half: str
    expected: str
    named: str
    pairs: int


class PairScore(msgspec.Struct, frozen=True):
    """One pair, as scored."""

    id: str
    half: str
    fault: str
    mode: str
    strength: int
    ratio: float
    timed_ratio: float | None
    state: str
    """`moved`, `latent` or `control`."""
    verdict: Annotated[
        str | None,
        msgspec.Meta(description="The verdict of the diagnosis of this pair; null for a baseline."),
    ]
    named: list[str]
    """The first three causes of our diagnosis."""
    ranks: dict[str, int | None]
    """Place of the right cause, by ranker."""


class LabScore(msgspec.Struct, frozen=True):
    """Everything."""

    folders: list[str]
    machine: dict[str, str]
    """GPU, versions and date, as recorded."""
    noise_pct: dict[str, float]
    """By half and mode (`test eager`): what the step times of pairs without a fault differ by."""
    pairs: list[PairScore]
    groups: list[GroupScore]
    controls: list[ControlScore]
    confusion: list[Confusion]
    brier: dict[str, float | None]
    """By half: mean squared distance between the confidence of the first cause and the truth."""
    answering: dict[str, Rate]
    """By half: how often the first cause is right where one is named at all."""
    left_out: dict[str, Rate]
    """By half: how often, with the right cause left out of the table of causes, our diagnosis does
    not name a wrong one with confidence."""
    closure_pct: float | None
    """Largest distance of the parts of a difference from adding up to it."""


def wilson(hits: int, n: int) -> Rate:
    """A share and its 95 % interval."""
    if not n:
        return Rate(0, 0, None, None, None)
    z = 1.959963984540054
    p, spread = hits / n, z * z / n
    center = (p + spread / 2) / (1 + spread)
    half = z * math.sqrt(p * (1 - p) / n + spread / (4 * n)) / (1 + spread)
    return Rate(hits, n, p, max(0.0, center - half), min(1.0, center + half))


def score(
    folders: Sequence[Path],
    diagnose: Diagnose | None = None,
    *,
    without: Sequence[Part] = (),
    progress: Callable[[str], None] | None = None,
) -> LabScore:
    """Score our diagnosis and the baselines on all pairs of packed folders.

    `without` takes a part of the observations away first, which shows what it is worth. Pairs are
    diagnosed on all cores; `diagnose`, when given, must be a function of a module.
    """
    jobs = [
        (folder, pair, tuple(without), diagnose)
        for folder in folders
        for recorded in [read_pairs(folder)]
        for pair in (*recorded, *normal_pairs(recorded))
    ]
    answered = []
    for item in on_all_cores(_answer, jobs, least=MANY):
        answered.append(item)
        if progress is not None:
            progress(f"{len(answered)} of {len(jobs)}: {item.pair.id}")
    return score_answers(answered, [str(folder) for folder in folders], _machine(folders[0]))


def _answer(job: tuple[Path, Pair, Sequence[Part], Diagnose | None]) -> Answered:
    from solscope.lab.ours import answer

    folder, pair, without, diagnose = job
    normal, abnormal = (
        stripped(_recording(folder, name), without) for name in (pair.normal, pair.abnormal)
    )
    return answer_all(pair, normal, abnormal, diagnose or answer)


def packed(folders: Iterable[Path]) -> list[Path]:
    """Folders of packed pairs: those given, or where one has none itself, those below it."""
    return [
        recordings
        for folder in folders
        for recordings in ([] if (folder / PAIRS).exists() else _below(folder)) or [folder]
    ]


def _below(folder: Path) -> list[Path]:
    return sorted(file.parent for file in folder.rglob(PAIRS))


def committed(start: Path) -> list[Path]:
    """Folders of packed pairs in `results/lab` of the repository that contains `start`."""
    for folder in (start, *start.parents):
        if recordings := _below(folder / RESULTS):
            return recordings
    raise UsageError(
        f"no {RESULTS} with {PAIRS} here; name a folder that `solscope lab pack` wrote"
    )


def _recording(folder: Path, name: str) -> Observations:
    file = folder / RECORDINGS / f"{name}{SUFFIX}"
    if not file.is_file():
        raise InputError(f"{file} is missing; pack the recordings again (`solscope lab pack`)")
    return load(file)


def score_answers(
    answered: list[Answered],
    folders: list[str] | None = None,
    machine: dict[str, str] | None = None,
) -> LabScore:
    """Score answers that were given."""
    bands = noise_bands(answered)
    by_half = {half: [i for i in answered if i.pair.half == half] for half in _halves(answered)}
    moved = {
        half: [i for i in items if _state(i, bands) == "moved"] for half, items in by_half.items()
    }
    closures = [
        c for i in answered if (c := i.answers[OURS].closure_pct) is not None and math.isfinite(c)
    ]
    return LabScore(
        folders=folders or [],
        machine=machine or {},
        noise_pct={key: 100 * math.expm1(band) for key, band in bands.items()},
        pairs=[_pair(item, _state(item, bands)) for item in answered],
        groups=[
            _group(ranker, half, group, items)
            for half in by_half
            for ranker in (OURS, *RANKERS)
            for group, items in _groups(moved[half], by_half[half]).items()
        ],
        controls=[
            _control(ranker, half, items, bands)
            for half, items in by_half.items()
            for ranker in (OURS, *RANKERS)
        ],
        confusion=[row for half in by_half for row in _confusion(half, moved[half])],
        brier={half: _brier(items) for half, items in moved.items()},
        answering={half: _answering(items) for half, items in moved.items()},
        left_out={half: _left_out(items) for half, items in moved.items()},
        closure_pct=max(closures, default=None),
    )


def _halves(answered: Iterable[Answered]) -> list[str]:
    return sorted({item.pair.half for item in answered}, key=lambda half: (half != "tune", half))


def _state(item: Answered, bands: dict[str, float]) -> str:
    if item.pair.is_control:
        return "control"
    moved = math.isfinite(item.ratio) and abs(math.log(item.ratio)) > bands[band_key(item.pair)]
    return "moved" if moved else "latent"


def _groups(moved: list[Answered], half: list[Answered]) -> dict[str, list[Answered]]:
    faults = [i for i in half if not i.pair.is_control]
    groups = {
        "moved": moved,
        "slow_any": [i for i in faults if math.isfinite(i.ratio) and i.ratio >= SLOW],
        "slow": [i for i in moved if i.ratio >= SLOW],
        "slow_timed": [i for i in moved if (i.pair.timed_ratio or 0.0) >= SLOW],
    }
    for item in moved:
        pair = item.pair
        for key in (f"mode:{pair.mode}", f"strength:{pair.strength}", f"fault:{pair.fault}"):
            groups.setdefault(key, []).append(item)
    return groups


def _group(ranker: str, half: str, group: str, items: list[Answered]) -> GroupScore:
    ranks = [item.answers[ranker].rank(item.pair.expected) for item in items]
    words = None if ranker == OURS else nameable(ranker)
    return GroupScore(
        ranker=ranker,
        half=half,
        group=group,
        pairs=len(items),
        top1=wilson(sum(rank == 1 for rank in ranks), len(ranks)),
        top3=wilson(sum(rank is not None and rank <= TOP for rank in ranks), len(ranks)),
        mrr=sum(1 / rank for rank in ranks if rank) / len(ranks) if ranks else None,
        family=wilson(sum(_right_family(item, ranker) for item in items), len(items)),
        nameable=sum(words is None or not words.isdisjoint(i.pair.expected) for i in items),
    )


def _control(
    ranker: str, half: str, items: list[Answered], bands: dict[str, float]
) -> ControlScore:
    controls = [i for i in items if _state(i, bands) == "control"]
    latent = [i for i in items if _state(i, bands) == "latent"]
    named = [_names_latent(item, ranker) for item in latent]
    right = [hit or not item.answers[ranker].alarm for hit, item in zip(named, latent, strict=True)]
    return ControlScore(
        ranker=ranker,
        half=half,
        false_alarms=wilson(sum(i.answers[ranker].alarm for i in controls), len(controls)),
        false_changes=wilson(sum(_sees_change(i, ranker) for i in controls), len(controls)),
        latent_right=wilson(sum(right), len(right)),
        latent_named=wilson(sum(named), len(named)),
    )


def _sees_change(item: Answered, ranker: str) -> bool:
    answer = item.answers[ranker]
    return answer.alarm or answer.verdict not in ("no_change", None)


def _names_latent(item: Answered, ranker: str) -> bool:
    answer = item.answers[ranker]
    return bool({*answer.causes[:TOP], *answer.latent} & set(item.pair.expected))


def _confusion(half: str, moved: list[Answered]) -> list[Confusion]:
    counts: dict[tuple[str, str], int] = {}
    for item in moved:
        first = item.answers[OURS].causes[:1] or ["(nothing)"]
        expected = first[0] if first[0] in item.pair.expected else item.pair.expected[0]
        counts[expected, first[0]] = counts.get((expected, first[0]), 0) + 1
    return [Confusion(half, *key, count) for key, count in sorted(counts.items())]


def _brier(moved: list[Answered]) -> float | None:
    judged = [
        (answer.confidences[0], answer.rank(item.pair.expected) == 1)
        for item in moved
        if (answer := item.answers[OURS]).confidences
    ]
    if not judged:
        return None
    return sum((confidence - right) ** 2 for confidence, right in judged) / len(judged)


def _answering(moved: list[Answered]) -> Rate:
    """Of the pairs for which a cause is named, how many are right."""
    named = [i for i in moved if i.answers[OURS].causes and i.answers[OURS].causes[0] not in QUIET]
    return wilson(sum(i.answers[OURS].rank(i.pair.expected) == 1 for i in named), len(named))


def _left_out(moved: list[Answered]) -> Rate:
    judged = [i for i in moved if i.answers[OURS].confidences]
    firsts = [i.answers[OURS].without(i.pair.expected) for i in judged]
    modest = [cause in QUIET or confidence < SURE for cause, confidence in firsts]
    return wilson(sum(modest), len(modest))


def _right_family(item: Answered, ranker: str) -> bool:
    families = {cause.id: cause.family for cause in causes()}
    first = item.answers[ranker].causes[:1]
    right = {families.get(cause) for cause in item.pair.expected} - {None}
    return bool(first) and families.get(first[0]) in right


def _pair(item: Answered, state: str) -> PairScore:
    ours = item.answers[OURS]
    return PairScore(
        id=item.pair.id,
        half=item.pair.half,
        fault=item.pair.fault,
        mode=item.pair.mode,
        strength=item.pair.strength,
        ratio=item.ratio,
        timed_ratio=item.pair.timed_ratio,
        state=state,
        verdict=ours.verdict,
        named=ours.causes[:TOP],
        ranks={name: answer.rank(item.pair.expected) for name, answer in item.answers.items()},
    )


def _machine(folder: Path) -> dict[str, str]:
    """Short facts of the first recording session."""
    file = folder / MACHINE
    if not file.is_file():
        return {}
    machine = msgspec.json.decode(file.read_bytes())
    facts = machine[0] if isinstance(machine, list) else machine
    wanted = ("date", "gpu", "cpu", "torch", "cuda", "driver", "solscope")
    return {key: str(facts[key]) for key in wanted if facts.get(key)}
