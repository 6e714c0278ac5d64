"""Passes of recorded architectures: kernels in order, with the truth about each.

What finds layers and roles sees a pass as letters and shapes of products. Here is the same with the
truth beside it, so that a pass can be judged again, and changed (`stress_layers.py`), without
reading the recording again.
"""

from __future__ import annotations

import pickle
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from architecture_truth import (
    Truth,
    activities,
    load,
    recording_of,
    source_of_replays,
    without_stacks,
)

import solscope
from solscope.attribution import places
from solscope.attribution.confidence import same_kind
from solscope.attribution.products import Product

HEAVY = ("gemm", "attention", "moe", "linear_attention")


class Kernel(NamedTuple):
    """One activity of a pass and the truth about it."""

    letter: str
    product: Product | None
    time: int
    heavy: bool
    """A matrix product, attention or experts."""
    layer: int | None
    place: str | None
    """Where it may stand; None where nothing is known of it."""
    role: frozenset[str] | None
    """Roles that are accepted; None where nothing can be said."""


class RecordedPass(NamedTuple):
    """A run through a model."""

    kernels: tuple[Kernel, ...]
    cut: bool
    kinds: dict[int, tuple[str, str]]
    """By layer: its mixers and its feed-forward part."""

    @property
    def time(self) -> int:
        """Time of the activities of which something is known."""
        return sum(kernel.time for kernel in self.kernels if kernel.place is not None)


class Claim(NamedTuple):
    """What is said about one subject of one activity."""

    subject: str
    evidence: str
    right: bool


class Claims(NamedTuple):
    """All claims about one activity; many activities have the same."""

    claims: tuple[Claim, ...]
    heavy: bool
    agrees: bool
    """The layers of the pass are those that a config would state."""

    def about(self, *subjects: str) -> list[Claim]:
        """The claims about these subjects."""
        return [claim for claim in self.claims if claim.subject in subjects]


class _Watched:
    """Takes what `places` reads of a profile on its way."""

    def __init__(self) -> None:
        self.read: list[tuple[list[int], str, Sequence[Product | None], bool]] = []

    def __enter__(self) -> _Watched:
        self.originals = {name: vars(places)[name] for name in ("_passes", "_place_pass")}
        rows: list[tuple[list[int], str]] = []

        def passes(*given: Any) -> Any:
            found = self.originals["_passes"](*given)
            rows.extend((at.tolist(), "".join(text)) for at, text in found)
            return found

        def place_pass(text: Any, products: Any, *, cut: bool) -> Any:
            self.read.append((*rows[len(self.read)], products, cut))
            return self.originals["_place_pass"](text, products, cut=cut)

        vars(places).update(_passes=passes, _place_pass=place_pass)
        return self

    def __exit__(self, *_: object) -> None:
        vars(places).update(self.originals)


def read_passes(
    profile: solscope.Profile, truth: Truth, source: Sequence[int | None]
) -> list[RecordedPass]:
    """The passes of a profile; `source` has the position of each activity in the truth."""
    with _Watched() as watched:
        made = solscope.attribute(profile).activities
    times = made["dur_ns"].to_list()
    categories = made["category"].cast(str).to_list()
    out = []
    for rows, text, products, cut in watched.read:
        kernels = []
        for row, letter, product in zip(rows, text, products, strict=True):
            at = source[row]
            known = (None, None, None)
            if at is not None:
                known = truth.layer[at], truth.place[at], truth.role[at]
            kernels.append(Kernel(letter, product, times[row], categories[row] in HEAVY, *known))
        out.append(RecordedPass(tuple(kernels), cut, truth.kind))
    return out


def recorded(folder: Path, name: str) -> dict[str, list[RecordedPass]]:
    """Passes of a recording without its stacks, and of its replay, where there is one."""
    document = load(_file(folder, name, "stack"))
    truth = Truth(activities(document))
    with tempfile.TemporaryDirectory() as work:
        bare = solscope.open(without_stacks(document, Path(work) / f"{name}.json.gz"))
        out = {"stripped": read_passes(bare, truth, range(len(truth.recorded)))}
    graph = recording_of(folder, name, "graph")
    if graph is not None:
        twin = Truth(activities(load(_file(folder, name, "twin"))))
        source = source_of_replays(load(graph), twin)
        out["graph"] = read_passes(solscope.open(graph), twin, source)
    return out


def _file(folder: Path, name: str, variant: str) -> Path:
    file = recording_of(folder, name, variant)
    if file is None:
        raise LookupError(f"{folder} has no {name}.{variant}")
    return file


def kept(folder: Path, name: str, cache: Path | None) -> dict[str, list[RecordedPass]]:
    """The same, from `cache` where it was read before."""
    if cache is None:
        return recorded(folder, name)
    file = cache / f"{name}.pickle"
    if not file.exists():
        cache.mkdir(parents=True, exist_ok=True)
        file.write_bytes(pickle.dumps(recorded(folder, name)))
    return pickle.loads(file.read_bytes())  # type: ignore[no-any-return]  # noqa: S301 - our own


def judge(given: RecordedPass) -> Counter[Claims]:
    """Time by what is claimed about the activities of a pass, and whether that is right.

    Roles and kinds are those of the evidence: what is wrong too often is measured, not claimed.
    """
    out: Counter[Claims] = Counter()
    letters = tuple(kernel.letter for kernel in given.kernels)
    products = tuple(kernel.product for kernel in given.kernels)
    # Not from the cache: which patterns are known, and how layers are cut, changes between calls.
    found = vars(places)["_place_pass"].__wrapped__(letters, products, cut=given.cut)
    if found is None:
        return out
    at = [None if code < 0 else found.labels[code] for code in found.code.tolist()]
    layers = [None if layer < 0 else layer for layer in found.layer.tolist()]
    agrees = _agrees(given, layers, at)
    for kernel, layer, label in zip(given.kernels, layers, at, strict=True):
        if label is not None and kernel.place is not None:
            made = tuple(_claims(kernel, given, layer, label))
            out[Claims(made, kernel.heavy, agrees)] += kernel.time
    return out


def _claims(kernel: Kernel, given: RecordedPass, layer: int | None, label: Any) -> Iterator[Claim]:
    if layer is not None:
        yield Claim("layer", label.layer_evidence, layer == kernel.layer)
    else:
        fits = label.place in str(kernel.place).split()
        yield Claim("layer", label.layer_evidence, fits)
    role = label.role_evidence.split()[0]
    if role != "other" and kernel.role is not None:
        yield Claim("role", label.role_evidence, role in kernel.role)
    if label.kind_evidence and kernel.layer is not None:
        *mixers, feed = label.kind_evidence.split()[0].split("+")
        mixed, fed = given.kinds[kernel.layer]
        right = set(mixers) <= set(mixed.split("+")) and feed == fed
        yield Claim("kind", label.kind_evidence, right)


def _agrees(given: RecordedPass, layers: list[int | None], labels: list[Any]) -> bool:
    """Number and kinds of the layers are those that a config would state."""
    found = {
        layer: label.layer_kind
        for layer, label in zip(layers, labels, strict=True)
        if layer is not None
    }
    expected = ["+".join(given.kinds[number]) for number in sorted(given.kinds)]
    return sorted(found) == list(range(len(expected))) and all(
        found[number] is None or same_kind(found[number], kind)
        for number, kind in enumerate(expected)
    )
