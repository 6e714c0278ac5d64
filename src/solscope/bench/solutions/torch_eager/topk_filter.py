"""torch.topk for the threshold, torch.where for the rest."""

from __future__ import annotations

import torch


def run(logits: torch.Tensor, top_k: int) -> torch.Tensor:
    """Keep what is at least the k-th largest of its row."""
    threshold = logits.topk(top_k, dim=-1).values[..., -1:]
    return torch.where(logits >= threshold, logits, float("-inf"))
