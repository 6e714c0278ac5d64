"""Failures that say nothing about a solution: those of the evaluator, and empty runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from solscope.bench.base import ShapeResult
from solscope.errors import SolscopeError

EVALUATOR_ERRORS = (
    RuntimeError,
    ValueError,
    IndexError,
    KeyError,
    TypeError,
    AssertionError,
    MemoryError,
)
"""What a reference or an input maker may raise: one shape is lost, not the run."""
OWN_FAILURE = "the evaluator failed"
"""Such a line is not a result: a resumed run tries the shape again."""


def own_failure(error: Exception) -> str:
    """Why a shape is lost through no fault of a solution; an error when the whole device is."""
    text = f"{type(error).__name__}: {error}"
    if "CUDA error" in text:
        raise SolscopeError(f"the evaluator lost the GPU ({text}); run again with --resume")
    return f"{OWN_FAILURE}: {text}"


def why_nothing(results: Sequence[ShapeResult]) -> str | None:
    """Why no shape was run, most frequent reason first; null when one was, or none was due.

    A job that checks nothing must not look as if all was right.
    """
    if not results or any(result.status != "unsupported" for result in results):
        return None
    reasons = Counter(f"{r.solution}: {r.reason}" for r in results)
    (first, _), *others = reasons.most_common()
    more = f"; and {len(others)} more, see above" if others else ""
    return f"every shape is unsupported ({first}{more})"
