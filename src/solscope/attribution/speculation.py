"""Speculation: which passes draft tokens and which verify them, where no name says so.

A small model, or a head of one layer, guesses some tokens one by one; the large model looks at all
of them in one pass. So two models take turns, over and over:

    d d d V  d d d V  d d d V

Two models that take turns can also serve two users, or be parts of one: the small one may predict
the codebooks of an audio frame one by one. What is claimed must be earned: by the queries of the
large pass, one for each draft and one more, where shapes tell them; else by a draft of a single
layer, which is no model of its own. A large pass with one query per request verifies nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from solscope.attribution.phases import MOST_QUERIES, Query

TURNS = 2
"""Fewest turns where the draft is a single layer or queries tell."""
DEEP = 4
"""Fewest layers of a target whose drafts come from a single one."""


class Pass(NamedTuple):
    """What is known of one pass."""

    number: int
    form: str
    """The same for all passes of a model."""
    layers: int
    time: int
    query: Query | None
    """Its queries, where all calls of attention agree."""
    phase: str | None
    """As a name states it."""
    whole: bool = True
    """It is not known to hold more than one."""


class Turns(NamedTuple):
    """Passes that draft and verify."""

    phases: dict[int, str]
    """`draft` or `verify`, by the number of the pass."""
    starts: list[int]
    """The pass with which each turn begins, its first draft, and passes that are of no turn."""


NONE = Turns({}, [])


def find_turns(passes: Sequence[Pass]) -> Turns:
    """Passes that draft and verify, of all passes in order; none where that is not earned."""
    generating = [own for own in passes if _generates(own)]
    models = _draft_and_target(generating)
    if models is None:
        return NONE
    draft, target = models
    letters = "".join(
        "-" if not _generates(own) else "d" if own.form == draft.form else "V" for own in passes
    )
    turns = list(re.finditer(r"d+V", letters))
    whole = all(own.whole for own in generating)
    if not whole or "VV" in letters or not _earned(passes, turns, draft, target):
        return NONE
    # The recording can begin or end within a turn.
    spoken = re.finditer(r"V?(?:d+V)+d*", letters)
    inside = [at for match in spoken for at in range(*match.span())]
    phases = {passes[at].number: "draft" if letters[at] == "d" else "verify" for at in inside}
    starts = [passes[turn.start()].number for turn in re.finditer(r"d+V?|-", letters)]
    return Turns(phases, starts)


def _generates(own: Pass) -> bool:
    """False for a pass that reads a prompt, as far as that is known."""
    if own.phase in ("prefill", "mixed"):
        return False
    return own.query is None or own.query.length <= MOST_QUERIES


class _Model(NamedTuple):
    form: str
    layers: int


def _draft_and_target(passes: Sequence[Pass]) -> tuple[_Model, _Model] | None:
    """The smaller and the larger one of two models; None where there are not two such."""
    layers = {own.form: own.layers for own in passes}
    if len(layers) != 2:
        return None
    time: defaultdict[str, list[int]] = defaultdict(list)
    for own in passes:
        time[own.form].append(own.time)
    draft, target = sorted(layers, key=lambda form: sum(time[form]) / len(time[form]))
    if layers[draft] > layers[target]:
        return None
    return _Model(draft, layers[draft]), _Model(target, layers[target])


def _earned(
    passes: Sequence[Pass], turns: Sequence[re.Match[str]], draft: _Model, target: _Model
) -> bool:
    asked = [(len(t.group()) - 1, passes[t.end() - 1].query) for t in turns]
    if not asked or any(query is not None and query.length == 1 for _, query in asked):
        return False
    drafts = [number for number, _ in asked]
    told = all(query is not None and query.length == number + 1 for number, query in asked)
    if told:
        return len(asked) >= TURNS or min(drafts) > 1
    # Of whole models in turns only queries tell: a small one also fills in what a frame of a large
    # one consists of (codebooks of audio), as often in each turn.
    return draft.layers == 1 and target.layers >= DEEP and len(asked) >= TURNS
