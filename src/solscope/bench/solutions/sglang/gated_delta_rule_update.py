"""Recurrent gated delta rule of SGLang: gates and recurrence in one kernel, states in place."""

import torch
from _sglang import kernels

update = kernels(
    "attention.fla.fused_sigmoid_gating_recurrent"
).fused_sigmoid_gating_delta_rule_update


def run(
    A_log: torch.Tensor,
    dt_bias: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    state: torch.Tensor,
    state_indices: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """Outputs of all tokens; the rows of `state` are updated in place."""
    out: torch.Tensor = update(
        A_log=A_log,
        a=a,
        dt_bias=dt_bias,
        softplus_beta=1.0,
        softplus_threshold=20.0,
        q=q,
        k=k,
        v=v,
        b=b,
        initial_state_source=state,
        initial_state_indices=state_indices,
        scale=scale,
        use_qk_l2norm_in_kernel=True,
    )
    return out
