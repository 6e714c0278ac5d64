"""Gated delta rule in fp32: single steps for decode, the chunked form for more tokens."""

import torch
from torch.nn.functional import normalize, pad, softplus

CHUNK = 64


def run(
    A_log: torch.Tensor,
    dt_bias: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    state: torch.Tensor,
    state_indices: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """Outputs of all tokens; the rows of `state` are updated in place."""
    rows, share = state_indices.long(), v.shape[2] // q.shape[2]
    gamma = -A_log.exp() * softplus(a.float() + dt_bias.float())
    beta = b.float().sigmoid()
    queries = normalize(q.float(), dim=-1, eps=1e-6).repeat_interleave(share, 2) * scale
    keys = normalize(k.float(), dim=-1, eps=1e-6).repeat_interleave(share, 2)
    step = one_token if v.shape[1] == 1 else in_chunks
    out, last = step(queries, keys, v.float(), gamma, beta, state[rows])
    state[rows] = last
    return out.to(v.dtype)


def one_token(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    gamma: torch.Tensor,
    beta: torch.Tensor,
    h: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """[B, 1, H, ...] and the state [B, H, K, V]: output and the new state."""
    h = h * gamma[:, 0].exp()[..., None, None]
    key = k[:, 0, :, :, None]
    written = beta[:, 0, :, None] * (v[:, 0] - (h * key).sum(-2))
    h = h + key * written[..., None, :]
    return (h * q[:, 0, :, :, None]).sum(-2)[:, None], h


def in_chunks(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    gamma: torch.Tensor,
    beta: torch.Tensor,
    h: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """64 tokens at a time: within a chunk by products, from chunk to chunk one after the other."""
    tokens, missing = v.shape[1], -v.shape[1] % CHUNK
    q, k, v = (pad(x, (0, 0, 0, 0, 0, missing)) for x in (q, k, v))
    gamma, beta = (pad(x, (0, 0, 0, missing)) for x in (gamma, beta))
    q, k, v, gamma, beta = (
        torch.unflatten(x, 1, (-1, CHUNK)).transpose(2, 3) for x in (q, k, v, gamma, beta)
    )
    sums = gamma.cumsum(-1)
    lower = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=q.device).tril()
    decay = (sums[..., :, None] - sums[..., None, :]).masked_fill(~lower, -torch.inf).exp()
    strength = beta[..., None]
    rhs = torch.cat([strength * v, strength * sums.exp()[..., None] * k], -1)
    # The solver takes a diagonal of ones and looks only below it.
    solved = torch.linalg.solve_triangular(
        strength * (k @ k.mT) * decay, rhs, upper=False, unitriangular=True
    )
    u, w = solved.split([v.shape[-1], k.shape[-1]], -1)
    within = (q @ k.mT) * decay
    from_state = q * sums.exp()[..., None]
    last = sums[..., -1:]
    to_state = (k * (last - sums).exp()[..., None]).mT
    forget = last.exp()[..., None]
    out, h = one_after_the_other(h, u, w, from_state, within, to_state, forget)
    return out.transpose(2, 3).flatten(1, 2)[:, :tokens], h


@torch.compiler.disable(recursive=False)  # type: ignore[no-untyped-call, untyped-decorator]
def one_after_the_other(
    h: torch.Tensor, *chunks: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """All outputs and the last state; torch.compile gets one step, not hundreds in a row."""
    outputs = []
    for c in range(chunks[0].shape[1]):
        out, h = one_chunk(h, *(chunk[:, c] for chunk in chunks))
        outputs.append(out)
    return torch.stack(outputs, 1), h


def one_chunk(
    h: torch.Tensor,
    u: torch.Tensor,
    w: torch.Tensor,
    from_state: torch.Tensor,
    within: torch.Tensor,
    to_state: torch.Tensor,
    forget: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The output of a chunk and the state behind it."""
    x = u - w @ h
    return from_state @ h + within @ x, h * forget + to_state @ x
