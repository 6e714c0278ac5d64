"""Router of sglang-kernel."""

import torch
from _sgl_kernel import ops


def run(gating_output: torch.Tensor, top_k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and ids of the best experts."""
    shape, device = (gating_output.shape[0], top_k), gating_output.device
    weights = torch.empty(shape, dtype=torch.float32, device=device)
    ids = torch.empty(shape, dtype=torch.int32, device=device)
    ops.topk_softmax(weights, ids, gating_output, False, 0.0, None)
    return weights, ids
