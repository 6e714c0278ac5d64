"""Stand-ins for the kernels of vLLM and SGLang on the CPU, as strict as theirs about arguments.

Operators are registered with torch under the schemas inside the shared objects of vllm 0.24.0 and
sglang-kernel 0.4.3, so that torch itself checks number, order and types; FlashMLA's has none and is
that of its C++ function. They refuse layouts that the kernels refuse, leave what the kernels leave
unwritten as junk, and compute in plain torch: what the kernels themselves compute is not tested.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from solscope.operators.tasks.attend import attend
from solscope.operators.tasks.fp8 import decode_blocks, quantize

JUNK = 1 << 20
"""In integers that a kernel does not write."""
SCHEMAS = """
_C::rms_norm(Tensor! result, Tensor input, Tensor? weight, float epsilon) -> ()
_C::fused_add_rms_norm(Tensor! input, Tensor! residual, Tensor? weight, float epsilon) -> ()
_C::silu_and_mul(Tensor! result, Tensor input) -> ()
_C::per_token_group_fp8_quant(Tensor input, Tensor! output_q, Tensor! output_s, int group_size,
    float eps, float fp8_min, float fp8_max, bool scale_ue8m0, bool dummy_is_scale_transposed,
    bool dummy_is_tma_aligned) -> ()
_C::dynamic_per_token_scaled_fp8_quant(Tensor! result, Tensor input, Tensor! scale,
    Tensor? scale_ub) -> ()
_C::rms_norm_dynamic_per_token_quant(Tensor! result, Tensor input, Tensor weight, Tensor! scale,
    float epsilon, Tensor? scale_ub, Tensor!? residual) -> ()
_C::paged_attention_v1(Tensor! out, Tensor query, Tensor key_cache, Tensor value_cache,
    int num_kv_heads, float scale, Tensor block_tables, Tensor seq_lens, int block_size,
    int max_seq_len, Tensor? alibi_slopes, str kv_cache_dtype, Tensor k_scale, Tensor v_scale,
    int tp_rank, int blocksparse_local_blocks, int blocksparse_vert_stride,
    int blocksparse_block_size, int blocksparse_head_sliding_step) -> ()
_C::paged_attention_v2(Tensor! out, Tensor! exp_sums, Tensor! max_logits, Tensor! tmp_out,
    Tensor query, Tensor key_cache, Tensor value_cache, int num_kv_heads, float scale,
    Tensor block_tables, Tensor seq_lens, int block_size, int max_seq_len, Tensor? alibi_slopes,
    str kv_cache_dtype, Tensor k_scale, Tensor v_scale, int tp_rank, int blocksparse_local_blocks,
    int blocksparse_vert_stride, int blocksparse_block_size,
    int blocksparse_head_sliding_step) -> ()
_C_cache_ops::reshape_and_cache_flash(Tensor key, Tensor value, Tensor! key_cache,
    Tensor! value_cache, Tensor slot_mapping, str kv_cache_dtype, Tensor k_scale,
    Tensor v_scale) -> ()
_moe_C::topk_softmax(Tensor! topk_weights, Tensor! topk_indices, Tensor! token_expert_indices,
    Tensor gating_output, bool renormalize, Tensor? bias) -> ()
_moe_C::moe_align_block_size(Tensor topk_ids, int num_experts, int block_size,
    Tensor! sorted_token_ids, Tensor! experts_ids, Tensor! num_tokens_post_pad,
    Tensor? maybe_expert_map) -> ()
_moe_C::moe_sum(Tensor input, Tensor! output) -> ()
_vllm_fa3_C::fwd(Tensor! q, Tensor k, Tensor v, Tensor? k_new, Tensor? v_new, Tensor? q_v,
    Tensor!? out, Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, Tensor? cu_seqlens_k_new,
    Tensor? seqused_q, Tensor? seqused_k, int? max_seqlen_q, int? max_seqlen_k,
    Tensor? page_table, Tensor? kv_batch_idx, Tensor? leftpad_k, Tensor? rotary_cos,
    Tensor? rotary_sin, Tensor? seqlens_rotary, Tensor? q_descale, Tensor? k_descale,
    Tensor? v_descale, float softmax_scale, bool is_causal, int window_size_left,
    int window_size_right, float softcap, bool is_rotary_interleaved, Tensor? scheduler_metadata,
    int num_splits, bool? pack_gqa, int sm_margin, Tensor? s_aux, int cp_world_size, int cp_rank,
    Tensor? cp_tot_seqused_k) -> Tensor[]
_vllm_fa3_C::get_scheduler_metadata(int batch_size, int max_seqlen_q, int max_seqlen_k,
    int num_heads, int num_heads_k, int headdim, int headdim_v, ScalarType qkv_dtype,
    Tensor seqused_k, Tensor? cu_seqlens_q, Tensor? cu_seqlens_k, Tensor? cu_seqlens_k_new,
    Tensor? seqused_q, Tensor? leftpad_k, int? page_size, int max_seqlen_k_new, bool is_causal,
    int window_size_left, int window_size_right, bool has_softcap, int num_splits, bool? pack_gqa,
    int sm_margin) -> Tensor
_flashmla_C::dense_decode_fwd(Tensor q, Tensor kcache, int head_size_v, Tensor seqlens_k,
    Tensor block_table, float softmax_scale, bool is_causal, Tensor? tile_scheduler_metadata,
    Tensor? num_splits, Tensor? out) -> (Tensor, Tensor, Tensor, Tensor)
sgl_kernel::rmsnorm(Tensor! output, Tensor input, Tensor weight, float eps, bool enable_pdl) -> ()
sgl_kernel::fused_add_rmsnorm(Tensor! input, Tensor! residual, Tensor weight, float eps,
    bool enable_pdl) -> ()
sgl_kernel::silu_and_mul(Tensor! out, Tensor input) -> ()
sgl_kernel::topk_softmax(Tensor! topk_weights, Tensor! topk_indices, Tensor gating_output,
    bool renormalize, float moe_softcapping, Tensor? correction_bias) -> ()
sgl_kernel::moe_align_block_size(Tensor topk_ids, int num_experts, int block_size,
    Tensor! sorted_token_ids, Tensor! experts_ids, Tensor! num_tokens_post_pad,
    Tensor! cumsum_buffer, bool pad_sorted_token_ids) -> ()
sgl_kernel::sgl_per_token_group_quant_8bit_v2(Tensor input, Tensor! output_q, Tensor! output_s,
    int group_size, float eps, float fp8_min, float fp8_max, bool scale_ue8m0,
    bool fuse_silu_and_mul, Tensor? masked_m) -> ()
sgl_kernel::sgl_per_token_quant_fp8(Tensor input, Tensor! output_q, Tensor! output_s) -> ()
sgl_kernel::fp8_blockwise_scaled_mm(Tensor mat_a, Tensor mat_b, Tensor scales_a, Tensor scales_b,
    ScalarType out_dtype) -> Tensor
sgl_kernel::moe_sum_reduce(Tensor input, Tensor output, float routed_scaling_factor) -> ()
"""
CALLED: list[str] = []
"""Names of the stand-ins called, in order."""


def register() -> Callable[[], None]:
    """Make the operators known to torch; the function returned takes them back."""
    make: Any = torch.library.Library
    libraries: dict[str, Any] = {}
    for schema in re.split(r"\n(?=\S)", SCHEMAS.strip()):
        space, rest = " ".join(schema.split()).split("::", 1)
        if space not in libraries:
            libraries[space] = make(space, "FRAGMENT")
        name = rest.partition("(")[0]
        libraries[space].define(_named_aliases(rest))
        libraries[space].impl(name, _noted(f"{space}.{name}", STAND_INS[space, name]), "CPU")

    def forget() -> None:
        for library in libraries.values():
            library._destroy()

    return forget


def _named_aliases(schema: str) -> str:
    """With a letter for every tensor that is written to, which Python's `define` asks for."""
    for letter in "abcd":
        schema = schema.replace("Tensor!", f"Tensor({letter}!)", 1)
    return schema


def _noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        CALLED.append(name)
        return function(*arguments)

    return call


# --- norms, activation, quantization


def _normed(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    wide = x.double()
    return wide * (wide.square().mean(-1, keepdim=True) + eps).rsqrt() * weight.double()


def _rms_norm(
    out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float, pdl: bool = True
) -> None:
    assert pdl
    out.copy_(_normed(x, weight, eps))


def _fused_add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float, pdl: bool = True
) -> None:
    assert pdl
    residual.copy_((x.double() + residual.double()).to(x.dtype))
    x.copy_(_normed(residual, weight, eps))


def _silu_and_mul(out: torch.Tensor, x: torch.Tensor) -> None:
    assert out.shape == (*x.shape[:-1], x.shape[-1] // 2)
    gate, up = x.double().chunk(2, -1)
    out.copy_(gate * gate.sigmoid() * up)


def _quantized_rows(values: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor) -> None:
    assert (codes.dtype, scales.dtype) == (torch.float8_e4m3fn, torch.float32)
    assert scales.shape == (len(values), 1)
    found, scale = quantize(values, "e4m3fn", least_amax=1e-12)
    codes.view(torch.uint8).copy_(found.view(torch.uint8))
    scales.copy_(scale)


def _vllm_quantize_rows(
    codes: torch.Tensor, x: torch.Tensor, scales: torch.Tensor, most: torch.Tensor | None
) -> None:
    assert most is None
    _quantized_rows(x.double(), codes, scales)


def _sgl_quantize_rows(x: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor) -> None:
    _quantized_rows(x.double(), codes, scales)


def _normed_and_quantized(
    codes: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor,
    scales: torch.Tensor,
    eps: float,
    most: torch.Tensor | None,
    residual: torch.Tensor,
) -> None:
    assert most is None
    residual.copy_((x.double() + residual.double()).to(x.dtype))
    _quantized_rows(_normed(residual, weight, eps), codes, scales)


def _quantize_groups(
    x: torch.Tensor,
    codes: torch.Tensor,
    scales: torch.Tensor,
    size: int,
    least: float,
    lowest: float,
    highest: float,
    *off: bool | None,
) -> None:
    assert (least, lowest, highest) == (1e-10, -448.0, 448.0)
    assert len(off) == 3
    assert not any(off)
    assert scales.shape == (len(x), x.shape[1] // size)
    found, scale = quantize(torch.unflatten(x.double(), 1, (-1, size)), "e4m3fn", least_amax=least)
    codes.view(torch.uint8).copy_(found.flatten(1).view(torch.uint8))
    scales.copy_(scale.squeeze(-1))


# --- experts


def _topk_softmax(weights: torch.Tensor, ids: torch.Tensor, logits: torch.Tensor) -> None:
    assert (weights.dtype, ids.dtype) == (torch.float32, torch.int32)
    best = logits.sort(dim=-1, descending=True, stable=True).indices[:, : ids.shape[1]]
    weights.copy_(logits.double().softmax(-1).gather(-1, best))
    ids.copy_(best)


def _vllm_topk_softmax(
    weights: torch.Tensor,
    ids: torch.Tensor,
    sources: torch.Tensor,
    logits: torch.Tensor,
    renormalize: bool,
    bias: torch.Tensor | None,
) -> None:
    assert not renormalize
    assert bias is None
    assert sources.shape == ids.shape
    sources.fill_(JUNK)
    _topk_softmax(weights, ids, logits)


def _sgl_topk_softmax(
    weights: torch.Tensor,
    ids: torch.Tensor,
    logits: torch.Tensor,
    renormalize: bool,
    cap: float,
    bias: torch.Tensor | None,
) -> None:
    assert not renormalize
    assert cap == 0.0
    assert bias is None
    _topk_softmax(weights, ids, logits)


def _align(
    topk_ids: torch.Tensor,
    experts: int,
    size: int,
    order: torch.Tensor,
    owners: torch.Tensor,
    total: torch.Tensor,
) -> None:
    """Slots of each expert from the last to the first; junk behind the last block."""
    assert all(one.dtype == torch.int32 for one in (topk_ids, order, owners, total))
    flat, start = topk_ids.flatten(), 0
    order.fill_(JUNK)
    owners.fill_(JUNK)
    for expert in range(experts):
        mine = (flat == expert).nonzero()[:, 0].flip(0)
        end = start + -(-len(mine) // size) * size
        assert end <= len(order), "writes out of bounds"
        assert end <= len(owners) * size, "writes out of bounds"
        order[start:end] = flat.numel()
        order[start : start + len(mine)] = mine.to(torch.int32)
        owners[start // size : end // size] = expert
        start = end
    total[0] = start


def _vllm_align(
    topk_ids: torch.Tensor,
    experts: int,
    size: int,
    order: torch.Tensor,
    owners: torch.Tensor,
    total: torch.Tensor,
    expert_map: torch.Tensor | None,
) -> None:
    assert expert_map is None
    _align(topk_ids, experts, size, order, owners, total)


def _sgl_align(
    topk_ids: torch.Tensor,
    experts: int,
    size: int,
    order: torch.Tensor,
    owners: torch.Tensor,
    total: torch.Tensor,
    sums: torch.Tensor,
    pad: bool,
) -> None:
    """Expert 0 is for slots of other ranks; buffers as SGLang makes them for it."""
    assert pad
    assert sums.numel() >= experts + 1
    slots = topk_ids.numel()
    room = slots * size if slots < experts else slots + experts * (size - 1)
    assert order.numel() >= room
    assert owners.numel() >= -(-room // size)
    sums.fill_(JUNK)
    _align(topk_ids, experts - 1, size, order, owners, total)


def _sum(values: torch.Tensor, out: torch.Tensor, factor: float = 1.0) -> None:
    out.copy_(factor * values.double().sum(1))


# --- products


def _check_codes(codes: torch.Tensor, scales: torch.Tensor, block: tuple[int, int]) -> None:
    assert codes.dtype == torch.float8_e4m3fn
    assert scales.dtype == torch.float32
    tall, wide = (-(-size // one) for size, one in zip(codes.shape[-2:], block, strict=True))
    assert scales.shape == (*codes.shape[:-2], tall, wide)


Operand = tuple[torch.Tensor, torch.Tensor]


def _decoded(operand: Operand, block: tuple[int, int]) -> torch.Tensor:
    _check_codes(*operand, block)
    assert operand[0].is_contiguous()
    return decode_blocks(*operand, block, torch.float32)


def fp8_gemm_nt(
    a: Operand,
    b: Operand,
    d: torch.Tensor,
    c: None = None,
    recipe: None = None,
    recipe_a: None = None,
    recipe_b: None = None,
    compiled_dims: str = "nk",
    disable_ue8m0_cast: bool = False,
) -> None:
    """DeepGEMM's product on Hopper; without the cast, its scales are not powers of two."""
    CALLED.append("fp8_gemm_nt")
    assert disable_ue8m0_cast
    assert d.dtype == torch.bfloat16
    d.copy_(_decoded(a, (1, 128)) @ _decoded(b, (128, 128)).T)


def m_grouped_fp8_gemm_nt_contiguous(
    a: Operand,
    b: Operand,
    d: torch.Tensor,
    grouped_layout: torch.Tensor,
    recipe: None = None,
    recipe_a: None = None,
    recipe_b: None = None,
    compiled_dims: str = "nk",
    disable_ue8m0_cast: bool = False,
) -> None:
    """A tile of 128 rows takes the weights that its first row names; -1 leaves it out."""
    CALLED.append("m_grouped_fp8_gemm_nt_contiguous")
    assert disable_ue8m0_cast
    assert d.dtype == torch.bfloat16
    assert grouped_layout.dtype == torch.int32
    assert grouped_layout.shape == d.shape[:1]
    assert len(d) % 128 == 0
    left, right = _decoded(a, (1, 128)), _decoded(b, (128, 128))
    d.fill_(float("nan"))
    for start in range(0, len(d), 128):
        named = set(grouped_layout[start : start + 128].tolist())
        assert len(named) == 1, "a tile with rows of several groups"
        (group,) = named
        if group >= 0:
            rows = slice(start, start + 128)
            d[rows] = (left[rows] @ right[group].T).to(d.dtype)


DEEP_GEMM = ModuleType("deep_gemm")
DEEP_GEMM.__dict__.update(
    fp8_gemm_nt=fp8_gemm_nt, m_grouped_fp8_gemm_nt_contiguous=m_grouped_fp8_gemm_nt_contiguous
)


def _cutlass_gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    a_scales: torch.Tensor,
    b_scales: torch.Tensor,
    dtype: torch.dtype,
) -> torch.Tensor:
    assert dtype == torch.bfloat16
    assert a.stride(1) == 1, "mat_a must be a row major tensor"
    assert b.stride(0) == 1, "mat_b must be a column major tensor"
    assert a_scales.stride(0) == 1, "scales_a must be M major"
    assert b_scales.stride(0) == 1, "scales_b must be K major"
    assert a.shape[0] % 4 == 0
    assert a.shape[1] % 128 == b.shape[1] % 128 == 0
    _check_codes(a, a_scales, (1, 128))
    _check_codes(b, b_scales, (128, 128))
    left = decode_blocks(a, a_scales, (1, 128), torch.float32)
    return (left @ decode_blocks(b, b_scales, (128, 128), torch.float32)).to(dtype)


# --- attention and caches


def _rows_of_pages(cache: torch.Tensor, table: torch.Tensor, keys: int) -> torch.Tensor:
    size = cache.shape[1]
    return cache[table[: -(-keys // size)].long()].flatten(0, 1)[None, :keys]


def _schedule(*facts: int) -> torch.Tensor:
    return torch.tensor(facts, dtype=torch.int32)


def _fa3_schedule(
    sequences: int,
    max_q: int,
    max_k: int,
    heads: int,
    key_heads: int,
    dim: int,
    value_dim: int,
    dtype: torch.dtype,
    seqused_k: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    *rest: Any,
) -> torch.Tensor:
    assert dtype in (torch.bfloat16, torch.float16)
    *none, page, new, causal, left, right, softcap, splits, pack, margin = rest
    assert none == [None] * 4
    assert (new, left, right, softcap, splits, pack, margin) == (0, -1, -1, False, 0, None, 0)
    assert len(seqused_k) == len(cu_seqlens_q) - 1 == sequences
    sizes = sequences, max_q, max_k, heads, key_heads, dim, value_dim, page, int(causal)
    return _schedule(*sizes, *seqused_k.tolist(), *cu_seqlens_q.tolist())


def _fa3(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *rest: Any) -> list[torch.Tensor]:
    names = [part.split()[-1] for part in _arguments("_vllm_fa3_C::fwd")[3:]]
    given = dict(zip(names, rest, strict=True))
    usual = {
        "softcap": 0.0,
        "is_rotary_interleaved": True,
        "num_splits": 0,
        "sm_margin": 0,
        "cp_world_size": 1,
        "cp_rank": 0,
        "window_size_left": -1,
        "window_size_right": -1,
    }
    assert {name: given.pop(name) for name in usual} == usual
    starts, table, used = (given.pop(n) for n in ("cu_seqlens_q", "page_table", "seqused_k"))
    key_starts, plan = given.pop("cu_seqlens_k"), given.pop("scheduler_metadata")
    scale, causal = given.pop("softmax_scale"), given.pop("is_causal")
    max_q, max_k = given.pop("max_seqlen_q"), given.pop("max_seqlen_k")
    assert not [name for name, value in given.items() if value is not None]
    assert all(one is None or one.dtype == torch.int32 for one in (starts, table, used, key_starts))
    assert q.shape[2] <= 256
    assert q.shape[2] % 8 == 0
    assert (table is None) == (used is None) == (key_starts is not None)
    if table is not None:
        sizes = len(used), max_q, max_k, q.shape[1], k.shape[2], q.shape[2], v.shape[-1]
        facts = *sizes, k.shape[1], int(causal), *used.tolist(), *starts.tolist()
        assert torch.equal(plan, _schedule(*facts)), "a schedule of other sizes"
    ends, out = starts.tolist(), torch.full_like(q, float("nan"))
    assert max_q >= max(starts.diff().tolist())
    for at in range(len(ends) - 1):
        rows = q[ends[at] : ends[at + 1]][None]
        if table is None:
            first, last = key_starts[at : at + 2].tolist()
            keys, values = k[None, first:last], v[None, first:last]
        else:
            keys, values = (_rows_of_pages(cache, table[at], int(used[at])) for cache in (k, v))
        assert keys.shape[1] <= max_k
        seen = keys.shape[1] - rows.shape[1] + 1 + torch.arange(rows.shape[1])
        found = attend(rows, keys, values, scale, seen[None] if causal else None)
        out[ends[at] : ends[at + 1]] = found[0].to(q.dtype)
    return [out, torch.zeros(q.shape[1], len(q))]


def _arguments(name: str) -> list[str]:
    found = re.search(rf"{name}\(([^)]*)\)", SCHEMAS)
    assert found is not None
    return " ".join(found[1].split()).split(", ")


def _flash_mla(
    q: torch.Tensor,
    cache: torch.Tensor,
    values: int,
    lengths: torch.Tensor,
    table: torch.Tensor,
    scale: float,
    causal: bool,
    tiles: torch.Tensor | None,
    splits: torch.Tensor | None,
    out: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    sequences, queries, heads, dim = q.shape
    assert q.dtype == cache.dtype
    assert (dim, values) == (576, 512)
    assert cache.shape[1:] == (64, 1, dim), "Currently page_block_size must be 64"
    assert lengths.dtype == table.dtype == torch.int32
    assert lengths.shape == table.shape[:1] == (sequences,)
    assert not causal
    assert out is None
    made = _schedule(sequences, heads, *lengths.tolist()).view(1, -1)
    if tiles is None:
        assert splits is None
        tiles, splits = made, torch.arange(sequences + 1, dtype=torch.int32)
    assert splits is not None
    assert torch.equal(tiles, made), "tiles of other lengths"
    assert splits.shape == (sequences + 1,)
    found = torch.zeros(sequences, queries, heads, values, dtype=q.dtype)
    for at, keys in enumerate(lengths.tolist()):
        rows = _rows_of_pages(cache, table[at], keys)
        found[at] = attend(q[at, None], rows, rows[..., :values], scale)[0].to(q.dtype)
    return found, torch.zeros(sequences, heads, queries), tiles.clone(), splits.clone()


def _paged_attention(
    out: torch.Tensor,
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    kv_heads: int,
    scale: float,
    table: torch.Tensor,
    lengths: torch.Tensor,
    size: int,
    longest: int,
    slopes: torch.Tensor | None,
    dtype: str,
    *rest: Any,
) -> None:
    *scales, rank, local, stride, block, step = rest
    assert slopes is None
    assert dtype == "auto"
    assert [float(one) for one in scales] == [1.0, 1.0]
    assert (rank, local, stride, block, step) == (0, 0, 0, 64, 0)
    assert k_cache.shape[1] == kv_heads == v_cache.shape[1]
    assert k_cache.shape[3] == size == v_cache.shape[3]
    k = k_cache.permute(0, 3, 1, 2, 4).flatten(3)
    v = v_cache.permute(0, 3, 1, 2)
    for at, keys in enumerate(lengths.tolist()):
        assert keys <= longest
        rows, values = (_rows_of_pages(cache, table[at], keys) for cache in (k, v))
        out[at] = attend(q[None, None, at], rows, values, scale)[0, 0]


def _paged_attention_v2(
    out: torch.Tensor,
    sums: torch.Tensor,
    largest: torch.Tensor,
    parts: torch.Tensor,
    *rest: Any,
) -> None:
    longest = rest[8]
    shape = (*out.shape[:2], -(-longest // 512))
    assert sums.shape == largest.shape == shape
    assert sums.dtype == largest.dtype == torch.float32
    assert parts.shape == (*shape, out.shape[2])
    assert parts.dtype == out.dtype
    _paged_attention(out, *rest)


def _into_cache(
    key: torch.Tensor,
    value: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slots: torch.Tensor,
    dtype: str,
    *scales: torch.Tensor,
) -> None:
    assert dtype == "auto"
    assert [float(one) for one in scales] == [1.0, 1.0]
    assert slots.dtype == torch.int64
    there = slots >= 0
    for rows, cache in ((key, k_cache), (value, v_cache)):
        cache.view(-1, *cache.shape[2:])[slots[there]] = rows[there]


STAND_INS: dict[tuple[str, str], Callable[..., Any]] = {
    ("_C", "rms_norm"): _rms_norm,
    ("_C", "fused_add_rms_norm"): _fused_add_rms_norm,
    ("_C", "silu_and_mul"): _silu_and_mul,
    ("_C", "per_token_group_fp8_quant"): _quantize_groups,
    ("_C", "dynamic_per_token_scaled_fp8_quant"): _vllm_quantize_rows,
    ("_C", "rms_norm_dynamic_per_token_quant"): _normed_and_quantized,
    ("_C", "paged_attention_v1"): _paged_attention,
    ("_C", "paged_attention_v2"): _paged_attention_v2,
    ("_C_cache_ops", "reshape_and_cache_flash"): _into_cache,
    ("_moe_C", "topk_softmax"): _vllm_topk_softmax,
    ("_moe_C", "moe_align_block_size"): _vllm_align,
    ("_moe_C", "moe_sum"): _sum,
    ("_vllm_fa3_C", "fwd"): _fa3,
    ("_vllm_fa3_C", "get_scheduler_metadata"): _fa3_schedule,
    ("_flashmla_C", "dense_decode_fwd"): _flash_mla,
    ("sgl_kernel", "rmsnorm"): _rms_norm,
    ("sgl_kernel", "fused_add_rmsnorm"): _fused_add_rms_norm,
    ("sgl_kernel", "silu_and_mul"): _silu_and_mul,
    ("sgl_kernel", "topk_softmax"): _sgl_topk_softmax,
    ("sgl_kernel", "moe_align_block_size"): _sgl_align,
    ("sgl_kernel", "sgl_per_token_group_quant_8bit_v2"): _quantize_groups,
    ("sgl_kernel", "sgl_per_token_quant_fp8"): _sgl_quantize_rows,
    ("sgl_kernel", "fp8_blockwise_scaled_mm"): _cutlass_gemm,
    ("sgl_kernel", "moe_sum_reduce"): _sum,
}
