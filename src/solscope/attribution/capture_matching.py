"""Replays and the captures that their graphs come from, node by node.

A replay runs the nodes of its graph in the order of their capture (on one stream; several streams
are interleaved anew), so the launch call at the same place names the operator and the inputs of a
kernel. That a replay belongs to a capture is checked, not assumed:

* a step of several graphs has as many captures, in the same order (piecewise graphs);
* its batch size is the least that holds the tokens of the step, where both are known;
* names are the same, where launch calls name their kernels (ROCm); else the number of nodes is, and
  kernels belong to the families of the operators at their places (CUDA).
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars as pl

from solscope.attribution.replays import (
    MIN_LENGTH,
    Counterparts,
    Refusal,
    by_reason,
    find_in,
    least_size,
    positions_table,
    replays,
)
from solscope.intervals import Int64s
from solscope.names import short_name

MIN_COVERED = 0.95
"""Share of a capture that a replay must run: profilers lose the end of long graphs."""
MIN_FAMILY = 0.9
"""Share of kernels whose family is that of the operator at their place. In 25 eager recordings 95
to 100 % are of the operator that launched them, and 10 to 37 % of the one before."""
MIN_JUDGED = 8
"""Kernels whose family and operator's family must both be known to compare them."""
_UNNAMED, _COPY, _FILL = -1, -2, -3
_NOT_SURE = -1
"""In place of the node of a kernel that may be another's."""
_CODES = {"memcpy": _COPY, "memset": _FILL}


class Matching(NamedTuple):
    """Replays with the nodes of their captures, and those without."""

    counterparts: Counterparts
    refused: list[Refusal]
    several_batches: list[Refusal]
    """Replays that captures of several batch sizes fit: inputs are lent where these agree."""


class _Series(NamedTuple):
    """Graphs that belong together: those of a step, or those captured for one batch size."""

    rows: Int64s
    """Positions of all kernels or nodes, graph after graph."""
    sizes: tuple[int, ...]
    """How many of them each graph has."""
    tokens: int | None
    """Of the step; of captures, what they were made for."""

    def apart(self) -> list[_Series]:
        """Each graph by itself."""
        ends = np.cumsum(self.sizes).tolist()
        return [
            _Series(self.rows[end - size : end], (size,), self.tokens)
            for size, end in zip(self.sizes, ends, strict=True)
        ]


Fits = list[tuple["int | None", Int64s]]
"""Captures that fit: what each was made for, and the node of every kernel."""


def match_captures(own: pl.DataFrame, nodes: pl.DataFrame) -> Matching:
    """Every replay in `own` with the captures in `nodes` that pass the checks."""
    texts, captures = _Texts(own, nodes), _captures(nodes)
    groups: dict[tuple[object, ...], list[_Series]] = defaultdict(list)
    for step in _steps(own):
        groups[texts.key(step.rows), step.sizes, step.tokens].append(step)
    members: list[tuple[int, Int64s]] = []
    places: list[tuple[int, Int64s]] = []
    refused, several = [], []
    for group in groups.values():
        for graphs, outcome in _match(group[0], captures, texts):
            count = len(group) * len(graphs)
            if isinstance(outcome, Refusal):
                refused.append(outcome._replace(replays=count))
                continue
            number = len(members)
            kernels = slice(sum(group[0].sizes[: graphs.start]), sum(group[0].sizes[: graphs.stop]))
            members += [(number, step.rows[kernels]) for step in group]
            places += [(number, fit) for _, fit in outcome]
            if len({size for size, _ in outcome}) > 1:
                several.append(Refusal(_several(outcome), count, 1))
    lending = positions_table(places, "other").filter(pl.col("other") != _NOT_SURE)
    return Matching(
        Counterparts(positions_table(members, "at"), lending),
        by_reason(refused),
        by_reason(several),
    )


def _captures(nodes: pl.DataFrame) -> list[_Series]:
    """The captures of one recording for one batch size, in order."""
    rows = nodes.select("source", "batch", "capture", at=pl.int_range(pl.len(), dtype=pl.Int64))
    return [
        _Series(
            of_batch["at"].to_numpy(),
            tuple(of_batch.group_by("capture", maintain_order=True).len()["len"].to_list()),
            of_batch["batch"][0],
        )
        for of_batch in rows.partition_by("source", "batch")
    ]


def _steps(own: pl.DataFrame) -> list[_Series]:
    """The replays of each step; those outside of steps one by one."""
    alone = -1 - pl.int_range(pl.len())
    rows = replays(own).with_columns(pl.coalesce(pl.col("step").cast(pl.Int64), alone))
    return [
        _Series(
            np.array(step_rows["at"].explode().to_list(), np.int64),
            tuple(step_rows["at"].list.len().to_list()),
            step_rows["tokens"][0],
        )
        for step_rows in rows.partition_by("step")
    ]


def _match(
    step: _Series, captures: list[_Series], texts: _Texts
) -> Iterator[tuple[range, Fits | Refusal]]:
    """Which graphs of a step fit which captures, or why none does.

    First all graphs of the step with all captures for one batch size, then each by itself.
    """
    count = len(step.sizes)
    if isinstance(wanted := _of_size(step.tokens, captures), Refusal):
        yield range(count), wanted
        return
    if count > 1:
        series = _fitting(step, [c for c in wanted if c.sizes == step.sizes], texts)
        if not isinstance(series, Refusal):
            yield range(count), series
            return
    single = [graph for each in wanted for graph in each.apart()]
    for graph_index, graph in enumerate(step.apart()):
        short = Refusal(f"graphs of fewer than {MIN_LENGTH} kernels may match by chance", 0, 0)
        lacks = graph.rows.size < MIN_LENGTH
        yield (
            range(graph_index, graph_index + 1),
            short if lacks else _fitting(graph, single, texts),
        )


def _of_size(tokens: int | None, captures: list[_Series]) -> list[_Series] | Refusal:
    """Captures for the least batch size that holds a step, and those for an unknown one.

    One size alone is used for its own steps only: others may have been captured elsewhere.
    """
    sizes = sorted({c.tokens for c in captures if c.tokens is not None})
    if tokens is None or not sizes:
        return captures
    least = least_size(tokens, sizes)
    if least is None or (len(sizes) == 1 and least != tokens):
        listed = ", ".join(map(str, sizes))
        given = f"the captures given are for batch size {listed}"
        return Refusal(f"a step has {tokens} tokens; {given}", 0, 0)
    return [c for c in captures if c.tokens in (least, None)]


def _fitting(replay: _Series, captures: list[_Series], texts: _Texts) -> Fits | Refusal:
    tried = [(c.tokens, texts.fit(replay.rows, c.rows)) for c in captures]
    fits = [(size, fit) for size, fit in tried if not isinstance(fit, Refusal)]
    refusals = [fit for _, fit in tried if isinstance(fit, Refusal)]
    none = Refusal("nothing was captured", 0, 0)
    return fits or max(refusals, key=lambda refusal: refusal.closeness, default=none)


def _several(fits: Fits) -> str:
    listed = ", ".join(map(str, sorted({size for size, _ in fits if size is not None})))
    return f"captures of batch sizes {listed} fit, and no step says how many tokens it has"


class _Texts:
    """Replays and captures as sequences of numbers, the same where names are the same."""

    def __init__(self, own: pl.DataFrame, nodes: pl.DataFrame) -> None:
        self._names = pl.concat([own["name"].cast(pl.String), nodes["name"].cast(pl.String)])
        self._height = own.height
        codes = self._names.cast(pl.Categorical).to_physical().cast(pl.Int64).fill_null(_UNNAMED)
        every = codes.to_numpy().copy()
        for code, where in _copies(own, nodes):
            every[where] = code
        self._ours, self._theirs = every[: own.height], every[own.height :]
        self._streams = own["stream"].fill_null(-1).to_numpy()
        self._calls = nodes.select("signature", "call_turn").fill_null(-1).to_numpy()
        both = [table["category"].cast(pl.String).to_numpy() for table in (own, nodes)]
        self._families, self._of_operators = both

    def key(self, rows: Int64s) -> bytes:
        """The same for replays that match the same captures."""
        return self._ours[rows].tobytes() + self._streams[rows].tobytes()

    def fit(self, rows: Int64s, nodes: Int64s) -> Int64s | Refusal:
        """The node of each kernel of a replay, or why this capture is not that of the replay."""
        if (self._theirs[nodes] == _UNNAMED).any():
            return self._by_family(rows, nodes)
        places = find_in(self._theirs[nodes], self._ours[rows])
        if places and rows.size >= MIN_COVERED * nodes.size:
            return nodes[places[0] : places[0] + rows.size]
        queues = self._queues(rows)
        if len(queues) > 1 and rows.size <= nodes.size:
            merged = _interleaved(queues, self._ours, self._theirs[nodes])
            if merged is not None:
                return nodes[[merged[position] for position in rows.tolist()]]
        return self._first_difference(rows, nodes)

    def _queues(self, rows: Int64s) -> list[list[int]]:
        queues: dict[int, list[int]] = defaultdict(list)
        for position, stream in zip(rows.tolist(), self._streams[rows].tolist(), strict=True):
            queues[stream].append(position)
        return list(queues.values())

    def _by_family(self, rows: Int64s, nodes: Int64s) -> Int64s | Refusal:
        """Launch calls that do not name their kernel: in order, if families agree."""
        if rows.size != nodes.size:
            share = min(rows.size, nodes.size) / max(rows.size, nodes.size)
            return Refusal(_sizes(rows.size, nodes.size), 0, share / 2)
        wanted = np.minimum(self._theirs[nodes], 0)
        agreed, judged = self._agreement(rows, nodes)
        if (np.where(self._ours[rows] < _UNNAMED, self._ours[rows], _UNNAMED) != wanted).any():
            return Refusal("copies and fills are at other places of the graph", 0, 0.5)
        if judged < MIN_JUDGED:
            return Refusal(f"the families of only {judged} kernels can be compared", 0, 0.5)
        if agreed < MIN_FAMILY * judged:
            few = f"only {agreed} of {judged} kernels are of the family"
            reason = f"{few} of the operator captured at their place"
            return Refusal(reason, 0, 0.5 + agreed / judged / 2)
        return np.where(self._usual(rows, nodes), nodes, _NOT_SURE)

    def _usual(self, rows: Int64s, nodes: Int64s) -> np.ndarray:
        """Where a call runs the kernel that most equal calls run.

        On several streams kernels can start in another order than they were launched in.
        """
        calls = list(map(tuple, self._calls[nodes].tolist()))
        names = self._ours[rows].tolist()
        equal, same = Counter(calls), Counter(zip(calls, names, strict=True))
        pairs = zip(calls, names, strict=True)
        return np.array([2 * same[call, name] >= equal[call] for call, name in pairs], bool)

    def _agreement(self, rows: Int64s, nodes: Int64s) -> tuple[int, int]:
        """Kernels of the family of their node's operator, of those where both are known."""
        ours, theirs = self._families[rows], self._of_operators[nodes]
        both = (ours != "other") & (theirs != "other")
        return int((both & (ours == theirs)).sum()), int(both.sum())

    def _first_difference(self, rows: Int64s, nodes: Int64s) -> Refusal:
        ours, theirs = self._ours[rows], self._theirs[nodes]
        length = min(ours.size, theirs.size)
        other = np.flatnonzero(ours[:length] != theirs[:length])
        if not other.size:
            return Refusal(_sizes(rows.size, nodes.size), 0, length / max(ours.size, theirs.size))
        first = int(other[0])
        here, there = (
            short_name(str(self._names[int(place)]))
            for place in (rows[first], self._height + nodes[first])
        )
        reason = f"kernel {first + 1} of {rows.size} is {here}; the capture has {there} there"
        return Refusal(reason, 0, first / ours.size)


def _sizes(kernels: int, nodes: int) -> str:
    return f"a replay has {kernels} kernels; the closest capture has {nodes}"


def _copies(own: pl.DataFrame, nodes: pl.DataFrame) -> list[tuple[int, Int64s]]:
    """Where copies and fills are, whatever their names; ROCm runs some of them as kernels."""
    kinds = pl.concat([own["kind"].cast(pl.String), nodes["kind"].cast(pl.String)])
    names = pl.concat([own["name"].cast(pl.String), nodes["name"].cast(pl.String)])
    by_kernel = {"memcpy": "copyBuffer", "memset": "fillBuffer"}
    return [
        (
            _CODES[kind],
            np.flatnonzero((kinds == kind) | names.str.contains(word).fill_null(value=False)),
        )
        for kind, word in by_kernel.items()
    ]


def _interleaved(
    queues: list[list[int]], ours: np.ndarray, nodes: np.ndarray
) -> dict[int, int] | None:
    """The node of each kernel, where streams keep their order and may overlap in any way.

    A node that fits the next kernel of several streams goes to the one that can go on longest.
    """
    waiting = [deque(queue) for queue in queues]
    matched: dict[int, int] = {}
    places = [place for queue in queues for place in queue]
    own = dict(zip(places, ours[places].tolist(), strict=True))
    codes = nodes.tolist()
    for position, code in enumerate(codes):
        ready = [q for q in waiting if q and own[q[0]] == code]
        if ready:
            best = (
                max(ready, key=lambda q: _run(q, own, codes, position)) if ready[1:] else ready[0]
            )
            matched[best.popleft()] = position
    return None if any(waiting) else matched


def _run(queue: deque[int], ours: dict[int, int], nodes: list[int], start: int) -> int:
    """How many nodes from `at` on are the next kernels of one stream."""
    for length, position in enumerate(queue):
        if start + length == len(nodes) or ours[position] != nodes[start + length]:
            return length
    return len(queue)
