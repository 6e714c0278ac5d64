"""The next token of each row, drawn from its logits or probabilities, or the largest of them.

    vector   R V                           each value compared or added at least once
    sfu      R V with `softmax`            exponentials, where logits become probabilities
    bytes    R V values read, R ids (int32) written

Top-k and top-p need more than one look at a row; later ones may be served by a cache, and count
nothing. `writes` adds R V values (the probabilities or masked logits, where they are kept).
"""

# Also: roles in operators/from_config/small.py.

from __future__ import annotations

from solscope.operators.base import Operator, cost_model
from solscope.operators.calls.call import CallRule, OperatorAxes, Recorded
from solscope.operators.cost import BYTES, Axes, Cost
from solscope.operators.tensors import DTYPES, UnclearError


@cost_model("rows vocabulary", optional="dtype softmax writes")
def cost(axes: Axes) -> Cost:
    """One look at every logit."""
    count = axes["rows"] * axes["vocabulary"]
    size = BYTES[axes.get("dtype", "fp32")]
    return Cost(
        flops={"vector.fp32": count} | ({"sfu": count} if axes.get("softmax") else {}),
        read_bytes={"activations": size * count},
        write_bytes={"index": 4 * axes["rows"]}
        | ({"activations": size * count} if axes.get("writes") else {}),
    )


def _sampling(*, softmax: bool = False, writes: bool = False) -> CallRule:
    """Rows of logits or probabilities: the first input that is a matrix of floats."""

    def rule(call: Recorded) -> OperatorAxes:
        inputs = (call.tensor(index) for index in range(len(call.types)) if call.has(index))
        x = next((t for t in inputs if t.floating and len(t.shape) == 2), None)
        if x is None or x.type not in DTYPES:
            raise UnclearError("no input is recorded as rows of logits")
        axes = {"rows": x.shape[0], "vocabulary": x.shape[1], "dtype": x.dtype}
        flags = {"softmax": softmax, "writes": writes}
        return "sampling", {**axes, **{name: True for name, on in flags.items() if on}}

    return rule


_FROM_PROBABILITIES = (
    "sampling_from_probs",
    "top_k_sampling_from_probs",
    "top_p_sampling_from_probs",
    "min_p_sampling_from_probs",
    "top_k_top_p_sampling_from_probs",
)


_TO_PROBABILITIES = ("top_k_renorm_probs", "top_p_renorm_probs", "top_k_mask_logits")


RECORDED: dict[str, CallRule] = {
    "aten::multinomial": _sampling(),
    **{
        f"{library}::{name}": _sampling(writes=name in _TO_PROBABILITIES)
        for library in ("flashinfer", "sgl_kernel")
        for name in (*_FROM_PROBABILITIES, *_TO_PROBABILITIES)
    },
    **{
        f"flashinfer::{name}": _sampling(softmax=True)
        for name in ("sampling_from_logits", "top_k_top_p_sampling_from_logits")
    },
}

TITLE = "Next token of each row"
OPERATOR = Operator("sampling", TITLE, "sampling", cost, recorded=RECORDED)
