"""The same work under another name: kernels of two profiles, matched.

An upgrade, a compiler or another GPU renames kernels, fuses some and splits others. What they do
stays: it has a role in the layer, an operator that launched it, a place between other kernels.
Kernels are matched by the strongest of these that both sides have, each pass among what is left:

    order       the same place in the order of kernels, where most of both steps agree in it
    name        the same name in the same role
    family      the same name but for numbers and hashes, e.g. of Triton or of tile sizes
    operator    launched by the same operator with the same shapes
    role        the same role in the layer: first the same category, then whatever is left there
    launch      the same grid, block and calls per step, where roles are not known
    position    between the same two matched kernels

    before  rms_norm  gemm_64x64  silu_mul   gemm_32
    after   rms_norm  gemm_128x64_silu       gemm_32
            name      family: gemm_64x64 -> gemm_128x64_silu, and silu_mul, whose word the new name
                      has, was fused into it     name
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from solscope.names import short_name

MatchedBy = Literal["order", "name", "family", "operator", "role", "launch", "position"]
Side = Literal[0, 1]
Context = tuple[int | None, int | None]
"""The rows that the kernels before and after belong to, null at the ends of a step."""

_VARIABLE = re.compile(r"[0-9a-f]{6,}|\d+")
"""What differs between builds of one kernel: hashes, counters, tile sizes."""
_WORD = re.compile(r"[A-Za-z][a-z]+|[A-Z]+")
_WORDS_OF_ALL = frozenset(
    {
        *("void", "kernel", "cuda", "hip", "native", "impl", "fused", "triton", "poi", "red"),
        *("per", "const", "half"),
        *("device", "vectorized", "elementwise", "unrolled", "forward", "fwd", "bfloat", "float"),
        *("template", "functor", "invoke", "launch"),
    }
)
"""Words that say nothing about what a kernel computes."""
MIN_WORD = 3
"""Shorter words are types and abbreviations that many kernels share."""


def family_of(name: str) -> str:
    """A kernel's name without what varies between builds."""
    return _VARIABLE.sub("#", short_name(name))


@dataclass(frozen=True)
class Item:
    """All activities of one side with the same role and name."""

    side: Side
    kind: str
    """A kernel, a copy or a fill; items of different kinds are never the same work."""
    name: str
    group: str | None
    role: str | None
    category: str
    operator: str | None
    """Operator of the catalog."""
    launched_by: tuple[str, str | None] | None
    """The framework's operator and its input shapes, if all activities agree."""
    launch: tuple[str, str | None] | None
    """Grid and block, if all activities agree."""
    calls: int
    calls_per_step: float
    total_ns: int

    @property
    def family(self) -> str:
        """The name without what varies between builds."""
        return family_of(self.name)


@dataclass
class Match:
    """Items of both sides that do the same work; one side is empty for what is new or gone."""

    matched_by: MatchedBy | None
    before: list[Item] = field(default_factory=list)
    after: list[Item] = field(default_factory=list)
    absorbed: list[Item] = field(default_factory=list)
    """Those of `before` or `after` that were recognized by words of the other side's names."""

    @property
    def items(self) -> list[Item]:
        """Both sides."""
        return self.before + self.after

    @property
    def same_names(self) -> bool:
        """Whether nothing but the time can differ."""
        return {item.name for item in self.before} == {item.name for item in self.after}


def match_items(
    items: Sequence[Item],
    contexts: Callable[[dict[Item, int]], dict[Item, Context]],
    aligned: Mapping[tuple[Item, Item], int],
) -> list[Match]:
    """Match the items of two sides.

    `contexts` finds the neighbors of items, given the rows so far. `aligned` says how often two
    items have the same place in a step; empty when steps do not agree in their order.
    """
    matcher = _Matcher(items)
    matcher.match_aligned(aligned)
    matcher.match("name", lambda item: (item.group, item.role, item.name))
    matcher.match("name", lambda item: item.name, unless=_both_have_roles)
    matcher.match("family", _with_role(lambda item: item.family))
    matcher.match("operator", _launched, unless=_roles_differ)
    matcher.match("role", _with_role(lambda item: item.operator))
    matcher.match("role", _with_role(lambda item: item.category))
    matcher.match("role", _with_role(lambda _: "any"))
    matcher.match("family", lambda item: item.family, unless=_both_have_roles)
    matcher.match("launch", _launch, unless=_both_have_roles)
    # A match gives its neighbors a context, so that one more pass can find more.
    for _ in range(2):
        slot = partial(_slot, contexts(matcher.rows()))
        matcher.match("position", slot, unless=_position_says_little)
    return _absorb(matcher, contexts(matcher.rows()))


class _Matcher:
    def __init__(self, items: Sequence[Item]) -> None:
        self.matches: list[Match] = []
        self.left: list[Item] = list(items)

    def rows(self) -> dict[Item, int]:
        """The number of the match of every matched item."""
        return {item: row for row, match in enumerate(self.matches) for item in match.items}

    def match(
        self,
        by: MatchedBy,
        key: Callable[[Item], Hashable],
        *,
        unless: Callable[[Sequence[Item], Sequence[Item]], bool] | None = None,
    ) -> None:
        """Match what is left by a key; a key of null matches nothing."""
        sides: dict[Hashable, tuple[list[Item], list[Item]]] = defaultdict(lambda: ([], []))
        for item in self.left:
            value = key(item)
            if value is not None:
                sides[item.kind, value][item.side].append(item)
        taken: set[Item] = set()
        for before, after in sides.values():
            if before and after and not (unless is not None and unless(before, after)):
                for match in _pairs(by, before, after):
                    self.matches.append(match)
                    taken.update(match.items)
        self.left = [item for item in self.left if item not in taken]

    def match_aligned(self, aligned: Mapping[tuple[Item, Item], int]) -> None:
        """Match each item with the one of the other side that has its place most of the time.

        A kernel of which only one side knows the roles is one item there and several here: all
        that lead to the same item are one match.
        """
        match_of: dict[Item, Match] = {}
        for before, after in _partners(aligned):
            match = match_of.get(before) or match_of.get(after) or Match("order")
            for item, own in ((before, match.before), (after, match.after)):
                other = match_of.get(item)
                if other is None:
                    own.append(item)
                elif other is not match:
                    match.before += other.before
                    match.after += other.after
                    match_of.update(dict.fromkeys(other.items, match))
                match_of[item] = match
        for match in {id(match): match for match in match_of.values()}.values():
            if match.same_names:
                match.matched_by = "name"
            self.matches.append(match)
        self.left = [item for item in self.left if item not in match_of]


def _partners(aligned: Mapping[tuple[Item, Item], int]) -> list[tuple[Item, Item]]:
    """Pairs that at least one of the two has its place with more often than with all others."""
    counts: Counter[Item] = Counter()
    for pair, count in aligned.items():
        for item in pair:
            counts[item] += count
    return [
        pair for pair, count in aligned.items() if any(2 * count > counts[item] for item in pair)
    ]


def _pairs(by: MatchedBy, before: list[Item], after: list[Item]) -> list[Match]:
    """One match for each pair if the sides agree in calls per step one by one, else one for all."""
    if len(before) == len(after) > 1:
        sides = [sorted(side, key=lambda item: item.calls_per_step) for side in (before, after)]
        counts = [[item.calls_per_step for item in side] for side in sides]
        if counts[0] == counts[1] and len(set(counts[0])) == len(before):
            return [Match(by, [earlier], [later]) for earlier, later in zip(*sides, strict=True)]
    return [Match(by, before, after)]


def _with_role(what: Callable[[Item], Hashable]) -> Callable[[Item], Hashable]:
    def key(item: Item) -> Hashable:
        value = what(item)
        return None if item.role is None or value is None else (item.group, item.role, value)

    return key


def _launched(item: Item) -> Hashable:
    if item.launched_by is None or item.launched_by[1] is None:
        return None
    return (item.launched_by, item.category)


def _launch(item: Item) -> Hashable:
    return None if item.launch is None else (item.launch, item.calls_per_step)


def _slot(places: dict[Item, Context], item: Item) -> Hashable:
    context = places.get(item)
    return None if context is None or context == (None, None) else context


def _both_have_roles(before: Sequence[Item], after: Sequence[Item]) -> bool:
    """Known roles that differ are different work, whatever the name."""
    return all(item.role is not None for item in (*before, *after))


def _position_says_little(before: Sequence[Item], after: Sequence[Item]) -> bool:
    """Several kernels of both sides in one gap: which is which is not known."""
    return min(len(before), len(after)) > 1 or _both_have_roles(before, after)


def _roles_differ(before: Sequence[Item], after: Sequence[Item]) -> bool:
    roles = [{(item.group, item.role) for item in side if item.role} for side in (before, after)]
    return bool(roles[0] and roles[1]) and roles[0] != roles[1]


def _absorb(matcher: _Matcher, places: dict[Item, Context]) -> list[Match]:
    """Add what is on one side only to the renamed neighbor whose new name has its words.

    Without such a word it is not known where the work went, and the kernel is new or gone.
    """
    matches = list(matcher.matches)
    for item in matcher.left:
        target = next(
            (
                matches[row]
                for row in places.get(item, (None, None))
                if row is not None and _took_over(matches[row], item)
            ),
            None,
        )
        if target is None:
            matches.append(
                Match(None, [item] if item.side == 0 else [], [item] if item.side else [])
            )
        else:
            (target.after if item.side else target.before).append(item)
            target.absorbed.append(item)
    return matches


def _took_over(match: Match, item: Item) -> bool:
    """Whether the other side's kernels have a word of the item that their counterparts lack."""
    if match.same_names or match.matched_by is None:
        return False
    own, other = (match.before, match.after) if item.side == 0 else (match.after, match.before)
    gained = _words(other) - _words(peer for peer in own if peer not in match.absorbed)
    return bool(gained & _words([item]))


def _words(items: Iterable[Item]) -> set[str]:
    """What names and operators say about the computation."""
    texts = [text for item in items for text in (short_name(item.name), item.operator or "")]
    words = {word.lower() for text in texts for word in _WORD.findall(text)}
    return {word for word in words if len(word) >= MIN_WORD and word not in _WORDS_OF_ALL}
