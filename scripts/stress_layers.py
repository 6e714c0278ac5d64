"""Passes of recorded architectures, changed as other architectures and engines differ.

    python scripts/stress_layers.py DIR... [--cache FOLDER] [--each]

Rules that were written with the recordings at hand are right about them. What they say about models
that nobody has seen is measured here: each pass is changed in the ways below, its truth along with
it, and judged again. Prints, per change, the share of time that is wrong at a confidence of 0.95 or
more, and the share that is called sure, as means over architectures. `calibrate_layers.py` weighs
the same passes.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from architecture_passes import Kernel, RecordedPass, judge, kept
from architecture_truth import names_in

from solscope.attribution.confidence import UNSEEN, measured
from solscope.attribution.sequence import CHOICES, EXPERT_KERNELS, MIXERS, Letter

SURE = 0.95
Kernels = list[Kernel]
Change = Callable[[RecordedPass], RecordedPass | None]
"""The changed pass; None where a pass has nothing to change."""


def _is(kernel: Kernel, *roles: str) -> bool:
    """The kernel has one of these roles, for certain."""
    return kernel.role is not None and kernel.role <= frozenset(roles)


def _by_layer(given: RecordedPass) -> Iterator[tuple[int | None, Kernels]]:
    """Kernels by layer, in order; what stands outside of layers with None."""
    for layer, kernels in groupby(given.kernels, key=lambda kernel: kernel.layer):
        yield layer, list(kernels)


def _in_layers(change: Callable[[Kernels], Kernels]) -> Change:
    """Change every layer in the same way."""

    def changed(given: RecordedPass) -> RecordedPass | None:
        out: Kernels = []
        for layer, kernels in _by_layer(given):
            out += kernels if layer is None else change(kernels)
        same = len(out) == len(given.kernels) and tuple(out) == given.kernels
        return None if same else given._replace(kernels=tuple(out))

    return changed


def _without(*roles: str) -> Change:
    return _in_layers(lambda kernels: [k for k in kernels if not _is(k, *roles)])


def _unknown(chosen: Callable[[Kernel], bool], letter: str = Letter.UNKNOWN) -> Change:
    """Kernels of names that no rule knows, everywhere in a pass."""

    def changed(given: RecordedPass) -> RecordedPass | None:
        if not any(chosen(kernel) for kernel in given.kernels):
            return None
        return given._replace(
            kernels=tuple(
                k._replace(letter=str(letter), product=None) if chosen(k) else k
                for k in given.kernels
            )
        )

    return changed


def _unknown_as_one(*roles: str) -> Change:
    """Neighboring kernels of these roles fused into one of a name that no rule knows."""

    def fuse(kernels: Kernels) -> Kernels:
        out: Kernels = []
        for fused, group in groupby(kernels, key=lambda kernel: _is(kernel, *roles)):
            members = list(group)
            if fused:
                time = sum(member.time for member in members)
                members = [members[0]._replace(letter=str(Letter.UNKNOWN), product=None, time=time)]
            out += members
        return out

    return _in_layers(fuse)


def _made(letter: str, like: Kernel, *roles: str) -> Kernel:
    """A kernel that the recording does not have, in the layer of another."""
    accepted = frozenset(roles) if roles else None
    return Kernel(letter, None, like.time, letter == "G", like.layer, like.place, accepted)


def _block(letters: str, like: Kernel, *roles: str) -> Kernels:
    return [_made(letter, like, *roles) for letter in letters]


def _last(kernels: Kernels, *roles: str) -> int:
    """Index of the last kernel of these roles; -1 without any."""
    return max((at for at, kernel in enumerate(kernels) if _is(kernel, *roles)), default=-1)


def _first(kernels: Kernels, *roles: str) -> int:
    return next((at for at, kernel in enumerate(kernels) if _is(kernel, *roles)), -1)


def _insert(letters: str, where: str, *roles: str, of: str) -> Change:
    """Put kernels before the first, or behind the last kernel of a role, in every layer."""

    def put(kernels: Kernels) -> Kernels:
        at = _first(kernels, of) if where == "before" else _last(kernels, of)
        if at < 0:
            return kernels
        place = at if where == "before" else at + 1
        return [*kernels[:place], *_block(letters, kernels[at], *roles), *kernels[place:]]

    return _in_layers(put)


def _both(first: Change, second: Change) -> Change:
    def changed(given: RecordedPass) -> RecordedPass | None:
        made = first(given)
        return None if made is None else second(made)

    return changed


_FEEDING = ("post_norm", "router", "topk", "dispatch", "up_gate", "activation", "down", "combine")


def _halves(kernels: Kernels) -> tuple[Kernels, Kernels] | None:
    """The mixing part with its residual, and the feed-forward part; None where there is none."""
    output = _last(kernels, "o_proj")
    if output < 0 or _last(kernels, "down") < output:
        return None
    at = output + 1
    while at < len(kernels) and not _is(kernels[at], *_FEEDING, "shared_expert"):
        at += 1
    return (kernels[:at], kernels[at:]) if at < len(kernels) else None


def _with_halves(join: Callable[[Kernels, Kernels], Kernels]) -> Change:
    def change(kernels: Kernels) -> Kernels:
        halves = _halves(kernels)
        return kernels if halves is None else join(*halves)

    return _in_layers(change)


def _parallel(mixing: Kernels, feeding: Kernels) -> Kernels:
    """Attention and feed-forward part on the same input, both added at the end."""
    added = [k for k in mixing[_last(mixing, "o_proj") :] if _is(k, "residual")]
    rest = [k for k in mixing if k not in added]
    return [*rest, *(k for k in feeding if not _is(k, "post_norm")), *added]


def _norm_behind(kernels: Kernels) -> Kernels:
    """BERT: the input norm of the next layer is the last of this one."""
    norm = [k for k in kernels if _is(k, "input_norm")]
    rest = [k for k in kernels if not _is(k, "input_norm")]
    accepted = frozenset(("post_norm", "residual", "other"))
    return [*rest, *(k._replace(role=accepted) for k in norm)]


def _only_first(*roles: str) -> Change:
    """Several products of a role fused into one."""

    def fuse(kernels: Kernels) -> Kernels:
        out: Kernels = []
        seen = set()
        for kernel in kernels:
            role = next((r for r in roles if _is(kernel, r) and kernel.letter == "G"), None)
            if role is None or role not in seen:
                out.append(kernel._replace(product=None) if role else kernel)
            seen.add(role)
        return out

    return _in_layers(fuse)


def _split(*roles: str, into: int) -> Change:
    """One product of a role as several."""

    def split(kernels: Kernels) -> Kernels:
        out: Kernels = []
        for kernel in kernels:
            whole = kernel.letter == "G" and _is(kernel, *roles)
            out += [kernel._replace(product=None)] * into if whole else [kernel]
        return out

    return _in_layers(split)


def _in_pairs(given: RecordedPass) -> RecordedPass | None:
    """Two attentions and two feed-forward parts per layer, the second one simpler (LongCat)."""
    if len(given.kinds) % 2 or len(given.kinds) < 4 or len(set(given.kinds.values())) > 1:
        return None
    out: Kernels = []
    for layer, kernels in _by_layer(given):
        if layer is None:
            out += kernels
            continue
        dropped = _first(kernels, "up_gate") if layer % 2 else -1
        shared = _first(kernels, "shared_expert") if layer % 2 else -1
        rest = [k for at, k in enumerate(kernels) if at not in (dropped, shared)]
        out += [k._replace(layer=layer // 2) for k in rest]
    kinds = {n // 2: kind for n, kind in given.kinds.items()}
    return given._replace(kernels=tuple(out), kinds=kinds)


def _encoder(given: RecordedPass) -> RecordedPass | None:
    """No cache and no sampling: what an encoder with rotary embeddings shows."""
    rest = [
        k
        for k in given.kernels
        if not _is(k, "kv_write") and k.letter not in (Letter.KV_WRITE, Letter.SAMPLING)
    ]
    return None if len(rest) == len(given.kernels) else given._replace(kernels=tuple(rest))


def _first_layer(given: RecordedPass) -> RecordedPass | None:
    """A first layer that computes something for all others."""
    at = next((i for i, k in enumerate(given.kernels) if k.layer == 0 and _is(k, "qkv")), -1)
    if at < 0:
        return None
    made = _block("nIeGS", given.kernels[at])
    return given._replace(kernels=(*given.kernels[:at], *made, *given.kernels[at:]))


def _prologue(given: RecordedPass) -> RecordedPass | None:
    """Work before the layers that looks like some of theirs: a projector, an input network."""
    at = next((i for i, k in enumerate(given.kernels) if k.layer == 0), -1)
    if at < 0:
        return None
    like = given.kernels[at]._replace(layer=None, place="prologue")
    made = _block("NGSGN", like)
    return given._replace(kernels=(*given.kernels[:at], *made, *given.kernels[at:]))


def _experts_only(kernel: Kernel) -> bool:
    feeds = kernel.role is not None and not kernel.role.isdisjoint(_FEEDING)
    return kernel.letter in EXPERT_KERNELS or (feeds and kernel.letter in CHOICES)


ACTS = (Letter.ACTIVATION, Letter.GATE)
CHANGES: dict[str, Change] = {
    "input norm missing": _without("input_norm"),
    "norm before the feed-forward part missing": _without("post_norm"),
    "all norms missing": _without("input_norm", "post_norm", "qk_norm"),
    "norms around both parts": _both(
        _insert("N", "behind", "post_norm", of="o_proj"),
        _insert("N", "behind", "post_norm", "residual", "other", of="down"),
    ),
    "norm before o_proj": _insert("N", "before", "qk_norm", "gating", of="o_proj"),
    "norm before down": _insert("N", "before", "activation", "post_norm", of="down"),
    "norms of queries and keys": _insert("NN", "behind", "qk_norm", of="qkv"),
    "norm behind the addition": _in_layers(_norm_behind),
    "activation of unknown name": _unknown(lambda k: k.letter in ACTS),
    "activation read as elementwise": _unknown(lambda k: k.letter in ACTS, Letter.ELEMENTWISE),
    "norms of unknown name": _unknown_as_one("input_norm", "post_norm", "qk_norm", "final_norm"),
    "rope of unknown name": _unknown_as_one("rope"),
    "cache of unknown name": _unknown_as_one("kv_write"),
    "attention of unknown name": _unknown(lambda k: k.letter in MIXERS),
    "products of unknown name": _unknown(lambda k: k.letter == Letter.GEMM),
    "every second product of unknown name": _unknown(
        lambda k: k.letter == Letter.GEMM and _is(k, "o_proj", "up_gate")
    ),
    "experts of unknown name": _unknown(_experts_only),
    "small kernels of unknown name": _unknown(lambda k: k.letter in "ceujiIprn"),
    "two halves per layer": _in_pairs,
    "two attentions per layer": _with_halves(lambda mixing, feeding: [*mixing, *mixing, *feeding]),
    "two feed-forward parts per layer": _with_halves(
        lambda mixing, feeding: [*mixing, *feeding, *feeding]
    ),
    "feed-forward part before and behind": _with_halves(
        lambda mixing, feeding: [*feeding, *mixing, *feeding]
    ),
    "feed-forward part first": _with_halves(lambda mixing, feeding: [*feeding, *mixing]),
    "attention beside feed-forward": _with_halves(_parallel),
    "encoder": _encoder,
    "router missing": _without("router", "topk"),
    "qkv fused": _only_first("qkv"),
    "up and gate fused": _only_first("up_gate"),
    "qkv split": _split("qkv", into=3),
    "up and gate split": _split("up_gate", into=2),
    "o_proj split": _split("o_proj", into=2),
    "additions fused": _without("residual"),
    "low-rank block beside attention": _insert("GGN", "before", of="qkv"),
    "adapter behind the feed-forward part": _insert("GSGi", "behind", of="down"),
    "adapter behind attention": _insert("GSGi", "behind", of="o_proj"),
    "residual streams mixed": _both(
        _insert("NGGu", "before", of="input_norm"), _insert("GGur", "behind", of="down")
    ),
    "gate on attention": _both(
        _insert("G", "behind", "qkv", "gating", of="qkv"),
        _insert("su", "before", "gating", "attention", of="o_proj"),
    ),
    "gate on attention computed late": _insert("Gsu", "before", of="o_proj"),
    "tensor parallel": _both(
        _insert("C", "behind", "all_reduce", of="o_proj"),
        _insert("C", "behind", "all_reduce", of="down"),
    ),
    "first layer differs": _first_layer,
    "network before the layers": _prologue,
}
"""By name, what differs."""


def stressed(passes: Sequence[RecordedPass]) -> Iterator[tuple[str, RecordedPass]]:
    """Changed passes, with the name of the change."""
    for name, change in CHANGES.items():
        for given in passes:
            made = change(given)
            if made is not None:
                yield name, made


def sure_and_wrong(given: RecordedPass) -> tuple[float, float]:
    """Shares of time that are called sure, and that are wrong although called sure."""
    table = measured()
    sure = {
        said: time
        for said, time in judge(given).items()
        if min(table[c.subject].get(c.evidence, UNSEEN) for c in said.about("layer", "role"))
        >= SURE
    }
    wrong = sum(
        t for said, t in sure.items() if not all(c.right for c in said.about("layer", "role"))
    )
    return sum(sure.values()) / given.time, wrong / given.time


def main() -> None:
    """Judge all recordings in all changes; print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--each", action="store_true", help="a line per architecture that is wrong")
    args = parser.parse_args()
    found: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for folder in args.folders:
        for name in names_in(folder):
            for passes in kept(folder, name, args.cache).values():
                for change, given in stressed(passes):
                    found[change][name].append(sure_and_wrong(given))
    for change, by_name in found.items():
        means = {n: tuple(map(_mean, zip(*rows, strict=True))) for n, rows in by_name.items()}
        sure, wrong = (_mean([m[i] for m in means.values()]) for i in (0, 1))
        print(f"| {change} | {len(means)} | {100 * sure:.1f} | {100 * wrong:.1f} |")
        if args.each:
            for name, (_, bad) in sorted(means.items(), key=lambda item: -item[1][1])[:4]:
                if bad > 0.005:
                    print(f"    {name}: {100 * bad:.1f}")


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


if __name__ == "__main__":
    main()
