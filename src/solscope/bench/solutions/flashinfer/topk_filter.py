"""Top-k mask of FlashInfer."""

import torch
from flashinfer.sampling import top_k_mask_logits


def run(logits: torch.Tensor, top_k: int) -> torch.Tensor:
    """Keep what is at least the k-th largest of its row."""
    return top_k_mask_logits(logits, top_k)
