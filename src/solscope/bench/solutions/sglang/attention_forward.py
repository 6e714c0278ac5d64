"""Full attention over packed sequences of SGLang, as its vision encoders use it."""

import torch
from _sglang import kernels

attend = kernels("attention.triton_ops.prefill_attention").context_attention_fwd


def run(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    softmax_scale: float,
) -> torch.Tensor:
    """Attention of every token over the keys of its sequence; queries and keys equally many."""
    if q.shape[0] != k.shape[0] or max_seqlen_q != max_seqlen_k:
        raise NotImplementedError("as many queries as keys only")
    if abs(softmax_scale * q.shape[-1] ** 0.5 - 1) > 1e-6:
        raise NotImplementedError("a softmax scale of 1/sqrt(head_dim) only")
    out = torch.empty_like(q)
    starts = cu_seqlens_k[:-1]
    lengths = cu_seqlens_k[1:] - starts
    attend(q, k, v, out, starts, lengths, max_seqlen_q, is_causal=False)
    return out
