"""Sampling: the next token from logits or probabilities."""

from __future__ import annotations

from solscope.operators.recorded.call import Found, Recorded, Rule
from solscope.operators.tensors import DTYPES, UnclearError


def _sampling(*, softmax: bool = False, writes: bool = False) -> Rule:
    """Rows of logits or probabilities: the first input that is a matrix of floats."""

    def rule(call: Recorded) -> Found:
        inputs = (call.tensor(at) for at in range(len(call.types)) if call.has(at))
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

RULES: dict[str, Rule] = {
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
