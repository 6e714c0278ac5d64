"""How well two models that run in one pass are kept apart.

    python scripts/score_joined.py DIR... [--cache FOLDER]

Recorded passes are joined as programs run them: a vision tower before a decoder that prefills, and
two passes of a draft model before one of its target. Layers are numbered on. Printed are means over
all pairs in percent of GPU time: layer and role right where one is claimed, a place claimed, wrong
at a confidence of 0.95 or more, sure. The package's own table of confidences is used; both models
of a pair have been seen alone.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from architecture_passes import Kernel, RecordedPass, judge
from architectures import DECODERS, HELD_OUT_DECODERS
from calibrate_layers import SURE, Recordings, distinct, read

from solscope.attribution.confidence import UNSEEN, measured

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


def pairs(recordings: Recordings) -> Iterator[tuple[str, RecordedPass]]:
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
                yield "tower and decoder", joined((passes[tower][0], prefill))
        for draft in DRAFTS:
            if draft in passes and draft != decoder:
                first = passes[draft][0]
                yield "drafts and target", joined((first, first, decode))


def score(given: RecordedPass) -> tuple[float, ...]:
    """Shares of time: layer right, role right, with a place, wrong when sure, sure."""
    table = measured()
    time: Counter[str] = Counter()
    for said, spent in judge(given).items():
        about = said.about("layer", "role")
        for claim in about:
            time[claim.subject] += spent
            time[f"{claim.subject} right"] += spent * claim.right
        if min((table[c.subject].get(c.evidence, UNSEEN) for c in about), default=0) >= SURE:
            time["sure"] += spent
            time["wrong"] += spent * (not all(claim.right for claim in about))
    rates = [time[f"{subject} right"] / max(time[subject], 1) for subject in ("layer", "role")]
    return (*rates, *(time[key] / given.time for key in ("layer", "wrong", "sure")))


def main() -> None:
    """Score all pairs; print the means."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--cache", type=Path)
    args = parser.parse_args()
    rows: dict[str, list[tuple[float, ...]]] = {}
    for sort, given in pairs(read(args.folders, args.cache)):
        rows.setdefault(sort, []).append(score(given))
    for sort, scores in rows.items():
        means = (sum(values) / len(values) for values in zip(*scores, strict=True))
        print(f"| {sort} | {len(scores)} | {' | '.join(f'{100 * x:.1f}' for x in means)} |")


if __name__ == "__main__":
    main()
