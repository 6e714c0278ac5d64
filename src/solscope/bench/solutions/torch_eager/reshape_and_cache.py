"""index_copy_ into the flattened caches, without waiting for the GPU.

Padding tokens repeat the write of the first token that has a slot.
"""

from __future__ import annotations

import torch


def run(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> None:
    """Write rows to their slots in place."""
    valid = slot_mapping >= 0
    token = torch.where(valid, torch.arange(len(valid), device=valid.device), valid.int().argmax())
    slots = slot_mapping[token].clamp_min(0)
    for rows, cache in ((key, key_cache), (value, value_cache)):
        flat = cache.flatten(0, 1)
        kept = torch.where(valid.any(), rows[token], flat[slots])
        flat.index_copy_(0, slots, kept)
