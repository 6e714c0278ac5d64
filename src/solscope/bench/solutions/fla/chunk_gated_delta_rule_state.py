"""States of the chunked gated delta rule of flash-linear-attention."""

import torch
from _decay import in_its_base
from fla.ops.common import chunk_delta_h


def run(
    k: torch.Tensor,
    w: torch.Tensor,
    u: torch.Tensor,
    g: torch.Tensor,
    state: torch.Tensor,
    state_indices: torch.Tensor,
    chunk_size: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The state before each chunk and what each token writes; `state` is updated in place."""
    rows = state_indices.long()
    h, written, last = chunk_delta_h.chunk_gated_delta_rule_fwd_h(
        k=k,
        w=w,
        u=u,
        g=in_its_base(g, chunk_delta_h),
        initial_state=state[rows],
        output_final_state=True,
        chunk_size=chunk_size,
    )
    state[rows] = last
    return h, written
