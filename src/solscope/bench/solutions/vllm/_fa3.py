"""`fwd` of FlashAttention-3 as vLLM builds it."""

from typing import Any

import torch
from _vllm import load

load("vllm_flash_attn/_vllm_fa3_C.abi3.so")


def forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **given: Any) -> torch.Tensor:
    """Attention; arguments that are not given are None or off."""
    get = given.get
    out = torch.ops._vllm_fa3_C.fwd(
        q, k, v, None, None, get("q_v"), get("out"),
        get("cu_seqlens_q"), get("cu_seqlens_k"), None, None, get("seqused_k"),
        get("max_seqlen_q"), get("max_seqlen_k"), get("page_table"), None, None,
        None, None, None, None, None, None,
        get("softmax_scale"), get("causal", False), -1, -1, 0.0, True,
        get("scheduler_metadata"), get("num_splits", 0), None, 0,
        None, 1, 0, None,
    )  # fmt: skip
    result: torch.Tensor = out[0]
    return result


def schedule(
    sequences: int,
    most: tuple[int, int],
    heads: tuple[int, int],
    dims: tuple[int, int],
    dtype: torch.dtype,
    seqused_k: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    page: int,
    causal: bool,
) -> torch.Tensor:
    """What vLLM computes once per step: splits and tiles."""
    found: torch.Tensor = torch.ops._vllm_fa3_C.get_scheduler_metadata(
        sequences, *most, *heads, *dims, dtype, seqused_k, cu_seqlens_q,
        None, None, None, None, page, 0, causal, -1, -1, False, 0, None, 0,
    )  # fmt: skip
    return found
