"""Rotary embedding of Qwen2-VL in Liger, in place.

It wants tables as wide as a head, of which it reads the left half.
"""

import torch
from liger_kernel.ops.qwen2vl_mrope import qwen2vl_mrope_forward
from torch.nn.functional import pad


def run(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    mrope_section: list[int],
    head_dim: int,
) -> None:
    """Rotate q and k in place."""
    half = cos.shape[-1]
    if 2 * half != head_dim:
        raise NotImplementedError("Liger rotates whole heads only")
    heads = [side.view(1, len(side), -1, head_dim).transpose(1, 2) for side in (q, k)]
    tables = [pad(table, (0, half)).unsqueeze(1) for table in (cos, sin)]
    qwen2vl_mrope_forward(*heads, *tables, mrope_section)
