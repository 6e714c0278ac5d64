"""Failures of the evaluator itself, which are no findings about a solution."""

from __future__ import annotations

from solscope.errors import SolscopeError

OURS = (RuntimeError, ValueError, IndexError, KeyError, TypeError, AssertionError, MemoryError)
"""What a reference or an input maker may raise: one shape is lost, not the run."""
OWN_FAILURE = "the evaluator failed"
"""Such a line is no result: a resumed run tries the shape again."""


def own_failure(error: Exception) -> str:
    """Why a shape is lost through no fault of a solution; an error when the whole device is."""
    text = f"{type(error).__name__}: {error}"
    if "CUDA error" in text:
        raise SolscopeError(f"the evaluator lost the GPU ({text}); run again with --resume")
    return f"{OWN_FAILURE}: {text}"
