"""Block tables as SGLang has them: one index per token of the context, made once per step."""

from typing import Any

import torch

SPLITS = 16
"""Most parts of a context; what SGLang's server takes unless told otherwise is 8."""


def token_indices(
    table: torch.Tensor, lengths: torch.Tensor, page: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """kv_indptr [n + 1] and kv_indices [sum of lengths]."""
    pointer = torch.zeros(len(lengths) + 1, dtype=torch.int32, device=table.device)
    pointer[1:] = lengths.cumsum(0)
    longest = int(lengths.max())
    position = torch.arange(longest, device=table.device)
    slots = table[:, position // page].long() * page + position % page
    return pointer, slots[position < lengths[:, None]]


def splits(lengths: torch.Tensor, programs: int) -> torch.Tensor:
    """Parts per sequence: enough programs for the GPU, no part under 256 keys."""
    processors = 16
    if lengths.is_cuda:
        processors = torch.cuda.get_device_properties(lengths.device).multi_processor_count
    wanted = max(1, -(-4 * processors // max(1, programs)))
    return (lengths // 256 + 1).clamp(1, min(SPLITS, wanted)).to(torch.int32)


def buffers(sequences: int, heads: int, dim: int, device: torch.device) -> list[torch.Tensor]:
    """Room for the parts of each context and their sums."""
    options: dict[str, Any] = {"dtype": torch.float32, "device": device}
    shape = (sequences, heads, SPLITS)
    return [torch.empty(*shape, dim, **options), torch.empty(*shape, **options)]
