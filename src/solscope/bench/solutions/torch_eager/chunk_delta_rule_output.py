"""The parallel half of the chunked gated delta rule: batched products over all chunks, in bf16."""

import torch
from torch.nn.functional import pad


def run(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    h: torch.Tensor,
    g: torch.Tensor,
    scale: float,
    chunk_size: int,
) -> torch.Tensor:
    """What each token reads from the state before its chunk and from the chunk itself."""
    tokens, missing = v.shape[1], -v.shape[1] % chunk_size
    share = v.shape[2] // q.shape[2]

    def chunks(x: torch.Tensor) -> torch.Tensor:
        padded = pad(x, (0, 0) * (x.ndim - 2) + (0, missing))
        return torch.unflatten(padded, 1, (-1, chunk_size)).transpose(2, 3)

    queries, keys, values, sums = (chunks(x) for x in (q, k, v, g))
    lower = torch.ones(chunk_size, chunk_size, dtype=torch.bool, device=q.device).tril()
    difference = sums[..., :, None] - sums[..., None, :]
    decay = difference.masked_fill_(~lower, -torch.inf).exp_()
    products = (queries @ keys.mT).repeat_interleave(share, 2)
    within = decay.mul_(products).to(v.dtype) @ values
    before = queries.repeat_interleave(share, 2) @ h
    out = (before.float().mul_(sums.exp()[..., None]) + within).mul_(scale)
    return out.to(v.dtype).transpose(2, 3).flatten(1, 2)[:, :tokens]
