"""Recurrent gated delta rule of flash-linear-attention, gates and norms in the same kernel."""

import torch
from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule


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
    rows = state_indices.long()
    out, last = fused_recurrent_gated_delta_rule(
        q,
        k,
        v,
        g=a,
        beta=b,
        scale=scale,
        initial_state=state[rows],
        output_final_state=True,
        use_qk_l2norm_in_kernel=True,
        use_gate_in_kernel=True,
        A_log=A_log,
        dt_bias=dt_bias,
        use_beta_sigmoid_in_kernel=True,
    )
    state[rows] = last
    return out
