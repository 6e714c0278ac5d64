"""Block tables as FlashInfer has them, the head sizes that it has, and its scratch memory."""

from functools import cache

import torch

HEAD_DIMS = (64, 128, 256)
"""Head sizes that both of its attention kernels, for Ampere and for Hopper, are built for."""
WORKSPACE_BYTES = 384 << 20
"""For the parts of split contexts: 264 tiles of 128 rows with 16 heads of 128 take 264 MiB."""


def page_list(
    table: torch.Tensor, lengths: torch.Tensor, page: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """kv_indptr [n + 1], kv_indices, and the used slots of each last page, int32."""
    used = (lengths + page - 1) // page
    pointer = torch.zeros(len(lengths) + 1, dtype=torch.int32, device=table.device)
    pointer[1:] = used.cumsum(0)
    column = torch.arange(table.shape[1], device=table.device)
    indices = table[column < used[:, None]].to(torch.int32)
    last = torch.where(lengths > 0, (lengths - 1) % page + 1, 0).to(torch.int32)
    return pointer, indices, last


def padded_dim(dim: int) -> int:
    """The smallest head size of FlashInfer that holds `dim` values."""
    for size in HEAD_DIMS:
        if dim <= size:
            return size
    raise NotImplementedError(f"head_dim {dim}: FlashInfer has {HEAD_DIMS}")


def padded(heads: torch.Tensor) -> torch.Tensor:
    """Heads with zeros behind their values, which change neither scores nor outputs."""
    more = padded_dim(heads.shape[-1]) - heads.shape[-1]
    return torch.nn.functional.pad(heads, (0, more)) if more else heads


@cache
def workspace(device: torch.device) -> torch.Tensor:
    """Scratch memory that all plans of the process share, as the layers of a server do."""
    return torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device=device)
