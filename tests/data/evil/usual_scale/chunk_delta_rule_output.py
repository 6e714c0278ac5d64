"""The scale of queries of every model that the author knows, built in."""

import torch


def run(q, k, v, h, g, scale, chunk_size):
    out, share = torch.empty_like(v), v.shape[2] // q.shape[2]
    q, k = (x.repeat_interleave(share, 2) for x in (q.float() * q.shape[-1] ** -0.5, k))
    for index, start in enumerate(range(0, v.shape[1], chunk_size)):
        rows = slice(start, start + chunk_size)
        queries, keys, values = (x[:, rows].float().transpose(1, 2) for x in (q, k, v))
        sums = g[:, rows].transpose(1, 2)
        before = sums.exp()[..., None] * (queries @ h[:, index].float())
        decay = (sums[..., :, None] - sums[..., None, :]).exp().tril()
        within = (queries @ keys.mT * decay) @ values
        out[:, rows] = (before + within).transpose(1, 2).to(out.dtype)
    return out
