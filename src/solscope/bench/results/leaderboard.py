"""Solutions side by side: over all operators, and on each."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from solscope.bench.base import FAILURES, ShapeResult
from solscope.bench.results.score import ResultSet, Score, best_per_shape, score, select


class Entry(msgspec.Struct, frozen=True):
    """One solution."""

    solution: str
    weighted_s: float | None
    """Over the whole suite, or the operators that were asked for, with 0 for what it did not pass.
    """
    s_covered: float | None
    """Over what it passed."""
    covered: float
    """Share of the suite's time, or of that of the operators that were asked for, in the shapes
    that it passed."""
    shapes_passed: int
    shapes_failed: int
    shapes_unsupported: int
    """Shapes that it does not take, or whose package is missing."""
    declined: int
    """Extra cases without an answer, over its operators."""
    wins: int
    """Shapes on which it is the fastest that passed."""
    operators: dict[str, float | None]
    """S by operator."""


class Leaderboard(ResultSet, frozen=True):
    """All solutions of some results files, the best first, and the best of all per shape."""

    best: Score
    entries: list[Entry]

    def ranked(self, operator: str) -> list[tuple[str, float]]:
        """The solutions with an S above 0 on an operator, the highest first."""
        reached = ((entry.solution, entry.operators.get(operator)) for entry in self.entries)
        return sorted(((name, s) for name, s in reached if s), key=lambda pair: -pair[1])


def leaderboard(
    results: Sequence[ShapeResult],
    device: str | None = None,
    method: str | None = None,
    suite: str | None = None,
    operators: Sequence[str] = (),
) -> Leaderboard:
    """Rank the solutions by S over the whole suite, or over some operators."""
    chosen = select(results, None, device, method, suite, operators)
    best = score(results, None, device, method, suite, operators)
    winners: dict[str, int] = {}
    for name in {r.operator for r in chosen}:
        for result in best_per_shape(chosen, name):
            winners[result.solution] = winners.get(result.solution, 0) + 1
    entries = []
    for name in best.solutions:
        own = score(results, name, device, method, suite, operators)
        lines = [r for r in chosen if r.solution == name]
        entries.append(
            Entry(
                solution=name,
                weighted_s=own.weighted_s,
                s_covered=own.s_covered,
                covered=own.covered,
                shapes_passed=sum(r.status == "passed" for r in lines),
                shapes_failed=sum(r.status in FAILURES for r in lines),
                shapes_unsupported=sum(r.status == "unsupported" for r in lines),
                declined=len({(r.operator, case) for r in lines for case in r.declined}),
                wins=winners.get(name, 0),
                operators={entry.operator: entry.s for entry in own.operators},
            )
        )
    entries.sort(key=lambda entry: (-(entry.weighted_s or 0.0), -entry.wins))
    return Leaderboard(best.device, best.suite, best.method, best.only, best, entries)
