"""Norm over channels (batch norm, group norm), and gradients of norms.

    vector   4 per element                 mean and variance are sums; scale and shift
    bytes    each tensor once

Statistics need the whole input before the first result; caches may hold it in between.
"""

from __future__ import annotations

from solscope.operators.base import Operator, cost_model
from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded, recorded_as
from solscope.operators.cost import Axes, Cost


@cost_model("elements read_bytes write_bytes")
def cost(axes: Axes) -> Cost:
    """Input in, result out."""
    return Cost(
        flops={"vector.fp32": 4 * axes["elements"]},
        read_bytes={"activations": axes["read_bytes"]},
        write_bytes={"activations": axes["write_bytes"]},
    )


def _norm(whole: int) -> CallRule:
    """`whole` tensors of the input's size at the front; the result is as large as the first."""

    def rule(call: Recorded) -> OperatorAxes:
        x = call.tensor(0)
        others = [call.tensor(index) for index in range(1, whole)]
        axes = {"elements": x.numel, "read_bytes": x.bytes + sum(t.bytes for t in others)}
        return "channel_norm", {**axes, "write_bytes": x.numel * x.size}

    return rule


_FORWARD = (
    "aten::native_batch_norm aten::cudnn_batch_norm aten::miopen_batch_norm aten::native_group_norm"
    " aten::_native_batch_norm_legit aiter::_groupnorm_run"
)
_BACKWARD = (
    "aten::native_batch_norm_backward aten::native_group_norm_backward"
    " aten::cudnn_batch_norm_backward aten::miopen_batch_norm_backward"
    " aten::native_layer_norm_backward aten::_fused_rms_norm_backward"
)
RECORDED = {**recorded_as(_FORWARD, _norm(1)), **recorded_as(_BACKWARD, _norm(2))}

TITLE = "Norm over channels, and gradients of norms"
OPERATOR = Operator("channel_norm", TITLE, "norm", cost, recorded=RECORDED)
