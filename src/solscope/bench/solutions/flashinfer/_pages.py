"""Block tables as FlashInfer has them: all pages in one list, made once per step."""

import torch

WORKSPACE = 256 << 20


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


def workspace(device: torch.device) -> torch.Tensor:
    """Room for the parts of split contexts."""
    return torch.zeros(WORKSPACE, dtype=torch.uint8, device=device)
