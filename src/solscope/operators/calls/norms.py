"""Norms of rows, as torch and the serving engines record them."""

from __future__ import annotations

from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded


def norm(operator: str, x_at: int, weight_at: int | None) -> CallRule:
    """A norm of the rows of input `x_at`, as wide as its weight.

    Without one, the width is not known; two operations per element are the least.
    """

    def rule(call: Recorded) -> OperatorAxes:
        x = call.tensor(x_at)
        if weight_at is None or not call.has(weight_at):
            axes = {"elements": x.numel, "flop": 2, "read_bytes": x.bytes}
            return "elementwise", {**axes, "write_bytes": x.numel * x.size}
        hidden = call.tensor(weight_at).numel
        return operator, {"tokens": x.numel // max(1, hidden), "hidden": hidden, "dtype": x.dtype}

    return rule
