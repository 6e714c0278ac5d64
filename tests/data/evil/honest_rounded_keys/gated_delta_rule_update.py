"""q and k normalized in a step of their own, which rounds them, as servers do."""

import torch


def unit(x):
    return (x.float() / x.float().norm(dim=-1, keepdim=True).clamp_min(1e-6)).to(x.dtype).float()


def run(A_log, dt_bias, a, b, q, k, v, state, state_indices, scale):  # noqa: N803
    share = v.shape[2] // q.shape[2]
    q, k = (unit(x).repeat_interleave(share, 2) for x in (q, k))
    step = torch.nn.functional.softplus(a.float() + dt_bias.float(), 1.0, 20.0)
    decay = (-A_log.float().exp() * step).exp()[..., None, None]
    strength = b.float().sigmoid()[..., None]
    rows, out = state_indices.long(), torch.empty_like(v)
    h = state[rows]
    for t in range(v.shape[1]):
        h = h * decay[:, t]
        written = (v[:, t].float() - (h * k[:, t, :, :, None]).sum(-2)) * strength[:, t]
        h = h + k[:, t, :, :, None] * written[..., None, :]
        out[:, t] = (scale * (h * q[:, t, :, :, None]).sum(-2)).to(v.dtype)
    state[rows] = h
    return out
