"""Softmax, then torch.topk."""

from __future__ import annotations

import torch


def run(gating_output: torch.Tensor, top_k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and ids of the best experts."""
    weights, ids = gating_output.softmax(-1, dtype=torch.float32).topk(top_k, dim=-1)
    return weights, ids.to(torch.int32)
