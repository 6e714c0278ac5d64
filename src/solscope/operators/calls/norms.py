"""Norms of rows, as torch and the serving engines record them."""

from __future__ import annotations

from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded
from solscope.operators.tensors import UnclearError


def norm(operator: str, x_at: int, weight_at: int | None) -> CallRule:
    """A norm of the rows of input `x_at`, as wide as its weight."""

    def rule(call: Recorded) -> OperatorAxes:
        x = call.tensor(x_at)
        if weight_at is None or not call.has(weight_at):
            raise UnclearError("a norm without weight has no entry in the catalog")
        hidden = call.tensor(weight_at).numel
        return operator, {"tokens": x.numel // max(1, hidden), "hidden": hidden, "dtype": x.dtype}

    return rule
