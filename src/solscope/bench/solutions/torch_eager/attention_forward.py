"""Full attention over packed sequences: scaled_dot_product_attention on batches of equal lengths.

Equal sequences need no look at the lengths; otherwise they are read back once.
"""

import torch
from torch.nn.functional import scaled_dot_product_attention


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
    """Attention of every token over the keys of its sequence."""
    sequences = cu_seqlens_q.shape[0] - 1
    if q.shape[0] == sequences * max_seqlen_q and k.shape[0] == sequences * max_seqlen_k:
        q, k, v = (torch.unflatten(x, 0, (sequences, -1)) for x in (q, k, v))
        return attention(q, k, v, softmax_scale).flatten(0, 1)
    out = torch.empty_like(q)
    starts = zip(cu_seqlens_q.tolist(), cu_seqlens_k.tolist(), strict=True)
    groups: dict[tuple[int, int], list[tuple[int, int]]] = {}
    begin = next(starts)
    for end in starts:
        groups.setdefault((end[0] - begin[0], end[1] - begin[1]), []).append(begin)
        begin = end
    for (queried, seen), members in groups.items():
        if not queried:
            continue
        first = torch.tensor(members, device=q.device)
        rows = first[:, :1] + torch.arange(queried, device=q.device)
        keys = first[:, 1:] + torch.arange(seen, device=q.device)
        out[rows] = attention(q[rows], k[keys], v[keys], softmax_scale)
    return out


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float) -> torch.Tensor:
    """[n, tokens, heads, dim] in and out."""
    q, k, v = (tensor.transpose(1, 2) for tensor in (q, k, v))
    return scaled_dot_product_attention(q, k, v, scale=scale).transpose(1, 2)
