"""MoE layer from DeepGEMM's grouped products over contiguous rows, as vLLM arranges it.

Rows are sorted by expert and padded to 128 per expert; activations are quantized in between with
vLLM's kernel. Sorting and summing are vLLM's align kernel and torch.
"""

import torch
from _deepgemm import deep_gemm
from _vllm import load

load("_C_stable_libtorch.abi3.so")
load("_moe_C_stable_libtorch.abi3.so")
BLOCK = 128
LIMIT = 448.0


def run(
    hidden_states: torch.Tensor,
    a_scale: torch.Tensor,
    w1: torch.Tensor,
    fc1_scale: torch.Tensor,
    w2: torch.Tensor,
    fc2_scale: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
) -> torch.Tensor:
    """[tokens, hidden] in bf16."""
    tokens, top_k = topk_ids.shape
    slots, experts, device = tokens * top_k, w1.shape[0], hidden_states.device
    rows = min(slots + experts * (BLOCK - 1), slots * BLOCK)
    rows = -(-rows // BLOCK) * BLOCK
    order = torch.empty(rows, dtype=torch.int32, device=device)
    owner = torch.empty(rows // BLOCK, dtype=torch.int32, device=device)
    total = torch.empty(1, dtype=torch.int32, device=device)
    torch.ops._moe_C.moe_align_block_size(topk_ids, experts, BLOCK, order, owner, total, None)
    behind = torch.arange(rows, device=device) >= total
    order = torch.where(behind, slots, order)
    padding = order >= slots
    layout = torch.where(behind, -1, owner.repeat_interleave(BLOCK)).to(torch.int32)
    source = torch.where(padding, 0, order // top_k).long()
    x = hidden_states.view(torch.uint8)[source].view(hidden_states.dtype)
    both = torch.empty(rows, w1.shape[1], dtype=torch.bfloat16, device=device)
    options = {"disable_ue8m0_cast": True}
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous(
        (x, a_scale[source]), (w1, fc1_scale), both, layout, **options
    )
    active = torch.empty(rows, w2.shape[2], dtype=torch.bfloat16, device=device)
    torch.ops._C.silu_and_mul(active, both)
    codes = torch.empty_like(active, dtype=torch.float8_e4m3fn)
    scales = torch.empty(rows, active.shape[1] // BLOCK, device=device)
    torch.ops._C.per_token_group_fp8_quant(
        active, codes, scales, BLOCK, 1e-10, -LIMIT, LIMIT, False, False, False
    )
    down = torch.empty(rows, w2.shape[1], dtype=torch.bfloat16, device=device)
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous(
        (codes, scales), (w2, fc2_scale), down, layout, **options
    )
    back = torch.empty(slots + 1, dtype=torch.long, device=device)
    back[order.long()] = torch.arange(rows, device=device)
    routed = down[back[:slots]].view(tokens, top_k, -1)
    return (routed * topk_weights[..., None]).sum(1).to(torch.bfloat16)
