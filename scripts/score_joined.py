"""How well two models that run in one pass are kept apart.

    python scripts/score_joined.py DIR... [--cache FOLDER]

Recorded passes are joined as programs run them. A vision tower before a decoder that prefills is
one pass, whose layers are numbered on. Passes of a draft model before one of its target are passes
of their own: two passes of a small model, or three of its last layer alone, as heads that draft
are. There a kernel in the wrong pass has the wrong layer. Printed are means over all pairs: the
share whose passes are found exactly, and in percent of GPU time layer and role right where one is
claimed, a place claimed, wrong at a confidence of 0.95 or more, sure. The package's own table of
confidences is used; both models of a pair have been seen alone.

Before that: how often the passes of three turns are said to draft and to verify, by the order of
kernels alone, and how often passes that do neither.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path

from architecture_passes import Kernel, RecordedPass, judge
from architectures import DECODERS, HELD_OUT_DECODERS
from calibrate_layers import SURE, Recordings, distinct, read

from solscope.attribution.confidence import UNSEEN, measured
from solscope.attribution.pass_starts import form_of, pass_starts
from solscope.attribution.speculation import Pass, find_turns

TOWERS = ("vit", "siglip", "dinov2", "dinov3", "beit", "deit")
DRAFTS = ("qwen2", "mistral", "smollm3")


def joined(passes: Sequence[RecordedPass]) -> RecordedPass:
    """Passes one after another as one; what lies between their layers has no place."""
    kernels: list[Kernel] = []
    kinds: dict[int, tuple[str, str]] = {}
    for number, given in enumerate(passes):
        ends = ("epilogue" if number < len(passes) - 1 else "", "prologue" if number else "")
        seen = False
        for kernel in given.kernels:
            seen = seen or kernel.layer is not None
            inside = kernel.layer is not None
            side = "epilogue" if seen else "prologue"
            moved = kernel._replace(
                layer=None if kernel.layer is None else kernel.layer + len(kinds)
            )
            if kernel.place is not None and not inside and side in ends:
                moved = moved._replace(place="between", role=None)
            kernels.append(moved)
        kinds |= {len(kinds) + layer: kind for layer, kind in sorted(given.kinds.items())}
    return RecordedPass(tuple(kernels), cut=False, kinds=kinds)


def head_of(given: RecordedPass, layers: int = 1) -> RecordedPass:
    """The same pass with its last layers alone: a head that drafts, or a smaller model."""
    numbers = {layer: new for new, layer in enumerate(sorted(given.kinds)[-layers:])}
    kernels = tuple(
        kernel if kernel.layer is None else kernel._replace(layer=numbers[kernel.layer])
        for kernel in given.kernels
        if kernel.layer is None or kernel.layer in numbers
    )
    kinds = {new: given.kinds[layer] for layer, new in numbers.items()}
    return RecordedPass(kernels, cut=False, kinds=kinds)


def pairs(recordings: Recordings) -> Iterator[tuple[str, list[RecordedPass]]]:
    """All towers with all decoders, and all drafts with all decoders of another kind."""
    passes = {
        name.partition("-")[0]: distinct(variants["stripped"])
        for name, variants in recordings.items()
    }
    decoders = [name for name in (*DECODERS, *HELD_OUT_DECODERS) if name in passes]
    for decoder in decoders:
        decode, prefill = passes[decoder][0], passes[decoder][-1]
        for tower in TOWERS:
            if tower in passes:
                yield "tower and decoder", [joined((passes[tower][0], prefill))]
        for draft in DRAFTS:
            if draft in passes and draft != decoder:
                first = passes[draft][0]
                yield "drafts and target", [first, first, decode]
                head = head_of(first)
                yield "heads and target", [head, head, head, decode]


def cut(passes: Sequence[RecordedPass]) -> tuple[list[RecordedPass], bool]:
    """What is taken for passes when these run one after another, and whether they are these.

    A kernel of another pass than most of its pass has a layer and a place that nothing can name.
    """
    ends = list(accumulate(len(given.kernels) for given in passes))
    kernels = [(number, k) for number, given in enumerate(passes) for k in given.kernels]
    starts = pass_starts("".join(kernel.letter for _, kernel in kernels))
    out = []
    for start, end in pairwise((*starts, len(kernels))):
        time: Counter[int] = Counter()
        for number, kernel in kernels[start:end]:
            time[number] += kernel.time
        main = time.most_common(1)[0][0]
        own = tuple(
            kernel if number == main else kernel._replace(layer=-1, place="elsewhere")
            for number, kernel in kernels[start:end]
        )
        kinds = passes[main].kinds | {-1: ("", "")}
        out.append(RecordedPass(own, cut=True, kinds=kinds))
    return out, list(starts) == [0, *ends[:-1]]


def score(passes: Sequence[RecordedPass]) -> tuple[float, ...]:
    """Passes found; shares: layer and role right, with a place, wrong when sure, sure."""
    table = measured()
    time: Counter[str] = Counter()
    found, exact = cut(passes)
    for given in found:
        for said, spent in judge(given).items():
            about = said.about("layer", "role")
            for claim in about:
                time[claim.subject] += spent
                time[f"{claim.subject} right"] += spent * claim.right
            if min((table[c.subject].get(c.evidence, UNSEEN) for c in about), default=0) >= SURE:
                time["sure"] += spent
                time["wrong"] += spent * (not all(claim.right for claim in about))
    rates = [time[f"{subject} right"] / max(time[subject], 1) for subject in ("layer", "role")]
    whole = sum(given.time for given in passes)
    return (exact, *rates, *(time[key] / whole for key in ("layer", "wrong", "sure")))


TURNS = 3


def sequences(recordings: Recordings) -> Iterator[tuple[str, list[RecordedPass], str]]:
    """Passes that run one after another, and the phases that may be claimed, `-` for none."""
    passes = {
        name.partition("-")[0]: distinct(variants["stripped"])
        for name, variants in recordings.items()
    }
    decoders = [name for name in (*DECODERS, *HELD_OUT_DECODERS) if name in passes]
    for decoder in decoders:
        decode, prefill = passes[decoder][0], passes[decoder][-1]
        yield "tokens of one model", [decode] * 9, "-"
        yield "a prompt, then two tokens", [prefill, decode, decode] * TURNS, "-"
        for draft in DRAFTS:
            if draft in passes and draft != decoder:
                first = passes[draft][0]
                yield "heads and target", [*[head_of(first)] * 3, decode] * TURNS, "dddv"
                yield "one head and target", [head_of(first), decode] * TURNS, "dv"
                small = head_of(first, 2)
                yield "two small drafts and target", [small, small, decode] * TURNS, "ddv"
                yield "two drafts as deep", [first, first, decode] * TURNS, "-"
                yield "two models in turns", [first, decode] * TURNS, "-"


def claimed(passes: Sequence[RecordedPass]) -> str:
    """The phases that are claimed where these passes run one after another, `-` for none."""
    known = []
    for number, given in enumerate(cut(passes)[0]):
        form = form_of("".join(kernel.letter for kernel in given.kernels))
        time = sum(kernel.time for kernel in given.kernels)
        known.append(Pass(number, form.text, form.layers, time, None, None, form.whole))
    found = find_turns(known).phases
    return "".join(found.get(own.number, "-")[0] for own in known)


def score_phases(recordings: Recordings) -> Iterator[str]:
    """Markdown: how often drafts and their verification are claimed, rightly and wrongly."""
    counts: dict[str, Counter[str]] = {}
    for sort, passes, truth in sequences(recordings):
        phases = claimed(passes)
        right = phases == truth * TURNS
        verdict = "none" if not phases.strip("-") else "right" if right else "wrong"
        counts.setdefault(sort, Counter())[verdict] += 1
    for sort, found in counts.items():
        cells = " | ".join(str(found[verdict]) for verdict in ("right", "none", "wrong"))
        yield f"| {sort} | {found.total()} | {cells} |"


def main() -> None:
    """Score all pairs; print the means."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--cache", type=Path)
    args = parser.parse_args()
    recordings = read(args.folders, args.cache)
    print("\n".join(score_phases(recordings)))
    rows: dict[str, list[tuple[float, ...]]] = {}
    for sort, given in pairs(recordings):
        rows.setdefault(sort, []).append(score(given))
    for sort, scores in rows.items():
        means = (sum(values) / len(values) for values in zip(*scores, strict=True))
        print(f"| {sort} | {len(scores)} | {' | '.join(f'{100 * x:.1f}' for x in means)} |")


if __name__ == "__main__":
    main()
