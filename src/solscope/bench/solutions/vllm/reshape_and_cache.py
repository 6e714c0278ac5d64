"""Keys and values into the cache, by vLLM."""

import torch
from _vllm import load

load("_C_stable_libtorch.abi3.so")


def setup(slot_mapping: torch.Tensor, **_others: object) -> torch.Tensor:
    """The scale of a cache that is not quantized."""
    return torch.ones(1, device=slot_mapping.device)


def run(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    plan: torch.Tensor,
) -> None:
    """Write rows to their slots in place."""
    torch.ops._C_cache_ops.reshape_and_cache_flash(
        key, value, key_cache, value_cache, slot_mapping, "auto", plan, plan
    )
