"""The MoE layer of SGLang from its Triton kernels: tiles and launches as its server has them.

Slots are sorted in plain torch, without waiting for the GPU; the server has a CUDA kernel for it.
"""

from typing import Any

import torch
import triton.language as tl
from _sglang import kernels

triton_kernels = kernels("moe.fused_moe_triton.fused_moe_triton_kernels")
tiles = kernels("moe.fused_moe_triton.fused_moe_triton_config")


def align(
    topk_ids: torch.Tensor, experts: int, block: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Slots by expert in padded blocks, the expert of each block, and the padded length."""
    flat, device = topk_ids.flatten().long(), topk_ids.device
    slots = flat.numel()
    length = -(-min(slots + experts * (block - 1), slots * block) // block) * block
    counts = torch.zeros(experts, dtype=torch.long, device=device)
    counts.scatter_add_(0, flat, torch.ones_like(flat))
    padded = (counts + block - 1) // block * block
    ends = padded.cumsum(0)
    expert, order = torch.sort(flat, stable=True)
    rank = torch.arange(slots, device=device) - (counts.cumsum(0) - counts)[expert]
    ids = torch.full((length,), slots, dtype=torch.int32, device=device)
    ids[(ends - padded)[expert] + rank] = order.to(torch.int32)
    starts = torch.arange(0, length, block, device=device)
    last = torch.searchsorted(ends, starts, right=True).clamp_max(experts - 1)
    return ids, last.to(torch.int32), ends[-1:].to(torch.int32)


def layer(
    x: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    weights: torch.Tensor,
    ids: torch.Tensor,
    scales: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None,
) -> torch.Tensor:
    """[tokens, hidden] in bf16; `scales` of x, w1 and w2 where they are fp8."""
    tokens, top_k = ids.shape
    fp8, block_shape = scales is not None, [128, 128] if scales is not None else None
    config = tiles.try_get_optimal_moe_config(
        w1.shape,
        w2.shape,
        top_k,
        "fp8_w8a8" if fp8 else None,
        tokens,
        block_shape=block_shape,
    )
    order, experts, total = align(ids, w1.shape[0], config["BLOCK_SIZE_M"])
    options: dict[str, Any] = {
        "compute_type": tl.bfloat16,
        "use_fp8_w8a8": fp8,
        "use_int8_w8a8": False,
        "use_int8_w8a16": False,
        "use_int4_w4a16": False,
        "per_channel_quant": False,
        "block_shape": block_shape,
        "filter_expert": False,
    }
    slots = tokens * top_k
    both = torch.empty(slots, w1.shape[1], dtype=torch.bfloat16, device=x.device)
    active = torch.empty(slots, w2.shape[2], dtype=torch.bfloat16, device=x.device)
    routed = torch.empty(tokens, top_k, w2.shape[1], dtype=torch.bfloat16, device=x.device)
    x_scale, w1_scale, w2_scale = scales if scales is not None else (None, None, None)
    if fp8:  # the rows come quantized; the activations are quantized by the Triton kernel
        triton_kernels.sglang_per_token_group_quant_fp8 = _quantizer(x, x_scale)
        triton_kernels.per_token_group_quant_fp8 = triton_kernels.sglang_per_token_group_quant_fp8
    routing = (weights, ids, order, experts, total)
    triton_kernels.invoke_fused_moe_kernel(
        x, w1, None, both, None, w1_scale, None, *routing, False, top_k, config, **options
    )
    triton_kernels.act_and_mul_triton(both, active, config, topk_ids=ids)
    triton_kernels.invoke_fused_moe_kernel(
        active, w2, None, routed, None, w2_scale, None, *routing, True, 1, config, **options
    )
    out = torch.empty(tokens, w2.shape[1], dtype=torch.bfloat16, device=x.device)
    triton_kernels.moe_sum_reduce_triton(routed, out, 1.0)
    return out


def _quantizer(x: torch.Tensor, x_scale: torch.Tensor | None) -> Any:
    quantize = kernels("quantization.fp8_kernel")._per_token_group_quant_8bit_raw

    def quantized(rows: torch.Tensor, group: int) -> Any:
        return (x, x_scale) if rows is x else quantize(rows, group)

    return quantized
