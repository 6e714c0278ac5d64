"""The gated delta rule: inputs as models have them, and its chunked form.

Per token and v head, with the log decay γ <= 0 and the write strength β in 0 ... 1:

    h <- e^γ h;  d = β (v - hᵀ k);  h <- h + k dᵀ;  o = scale hᵀ q

Within a chunk, with G the running sum of γ: A_ij = β_i (k_i k_j) e^(G_i - G_j) for i > j,
M = (I + A)^-1, u = M diag(β) v, w = M diag(β e^G) k; then x = u - w h is what the chunk writes:
h <- e^G_last h + Σ k (x e^(G_last - G))ᵀ,
o_i = scale (e^G_i hᵀ q_i + Σ_{j<=i} e^(G_i - G_j) (q_i k_j) x_j).
A v head uses the q and k head h // (Hv / Hk).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from solscope.operators.cost import blocks
from solscope.operators.task import Variant
from solscope.operators.tasks.draws import normal

if TYPE_CHECKING:
    import torch

_VALUE_STD = 2.0


@dataclass(frozen=True)
class Gates:
    """What the decay and the write strength of tokens are computed from."""

    a_log: torch.Tensor
    """fp32 [Hv]: e^a_log is the rate of a head."""
    dt_bias: torch.Tensor
    """bf16 [Hv]."""
    a: torch.Tensor
    """bf16 [B, T, Hv]."""
    b: torch.Tensor
    """bf16 [B, T, Hv]."""


def draw_gates(
    generator: torch.Generator, batch: int, tokens: int, heads: int, variant: Variant
) -> Gates:
    """Heads that forget within a token next to heads that remember thousands.

    Rates from 0.01 to 16 and time steps from 0.001 to 0.1, spread evenly over the heads in random
    order. `extreme` has time steps of 25 to 30, above which softplus is the identity, and write
    strengths near 0 and 1.
    """
    import torch

    device, dtype = generator.device, torch.bfloat16
    share = (torch.arange(heads, device=device) + 0.5) / heads
    mixed = (share[torch.randperm(heads, generator=generator, device=device)] for _ in range(2))
    a_log = math.log(0.01) + next(mixed) * math.log(16 / 0.01)
    step = torch.exp(math.log(1e-3) + next(mixed) * math.log(0.1 / 1e-3))
    dt_bias = step.expm1().log().to(dtype)  # the inverse of softplus
    a, b = (normal(generator, batch, tokens, heads, dtype=dtype) for _ in range(2))
    if variant == "extreme":
        rare = torch.rand(a.shape, generator=generator, device=device) < 0.05
        a = torch.where(rare, 30 - 5 * a.abs().clamp_max(1.0), a)
        b = b * 8
    return Gates(a_log, dt_bias, a, b)


def log_decay(gates: Gates, dtype: torch.dtype) -> torch.Tensor:
    """γ = -e^a_log softplus(a + dt_bias), the identity above 20."""
    import torch

    time = torch.nn.functional.softplus(gates.a.to(dtype) + gates.dt_bias.to(dtype), 1.0, 20.0)
    return -gates.a_log.to(dtype).exp() * time


def unit_rows(x: torch.Tensor) -> torch.Tensor:
    """x / max(‖x‖, 1e-6) over the last dimension."""
    import torch

    length: torch.Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / length.clamp_min(1e-6)


def in_chunks(x: torch.Tensor, size: int) -> torch.Tensor:
    """[B, T, heads, ...] as [B, chunks, heads, size, ...], the last chunk filled up with zeros."""
    import torch

    missing = blocks(x.shape[1], size) * size - x.shape[1]
    padded = torch.nn.functional.pad(x, (0, 0) * (x.ndim - 2) + (0, missing))
    return torch.unflatten(padded, 1, (-1, size)).transpose(2, 3)


def from_chunks(x: torch.Tensor, tokens: int) -> torch.Tensor:
    """[B, chunks, heads, size, ...] as [B, tokens, heads, ...], dense: kernels rely on it."""
    return x.transpose(2, 3).flatten(1, 2)[:, :tokens].contiguous()


def running_sums(gamma: torch.Tensor, size: int) -> torch.Tensor:
    """G of every token [B, T, Hv]: γ summed from the start of its chunk."""
    return from_chunks(in_chunks(gamma, size).cumsum(-1), gamma.shape[1])


def pair_decay(g: torch.Tensor, diagonal: int) -> torch.Tensor:
    """e^(G_i - G_j) [..., i, j] for j <= i + diagonal, else 0."""
    import torch

    difference = g[..., :, None] - g[..., None, :]
    size = g.shape[-1]
    below = torch.ones(size, size, dtype=torch.bool, device=g.device).tril(diagonal)
    return difference.masked_fill(~below, -torch.inf).exp()


@dataclass(frozen=True)
class Chunked:
    """Tokens in the terms of the chunked form, as one call of it gets them."""

    q: torch.Tensor
    """bf16 [B, T, Hk, K], rows of norm 1."""
    k: torch.Tensor
    """bf16 [B, T, Hk, K], rows of norm 1."""
    u: torch.Tensor
    """bf16 [B, T, Hv, V]."""
    w: torch.Tensor
    """bf16 [B, T, Hv, K]."""
    g: torch.Tensor
    """fp32 [B, T, Hv]: the running sum of the log decay."""


def draw_chunked(
    generator: torch.Generator,
    *,
    batch: int,
    tokens: int,
    k_heads: int,
    v_heads: int,
    key_dim: int,
    value_dim: int,
    chunk: int,
    variant: Variant,
) -> Chunked:
    """u, w and G made from queries, keys, values and gates, as a model makes them."""
    import torch

    dtype = torch.bfloat16
    q, k = (
        unit_rows(normal(generator, batch, tokens, k_heads, key_dim, dtype=dtype)).to(dtype)
        for _ in range(2)
    )
    v = normal(generator, batch, tokens, v_heads, value_dim, dtype=dtype, std=_VALUE_STD)
    gates = draw_gates(generator, batch, tokens, v_heads, variant)
    g = running_sums(log_decay(gates, torch.float32), chunk)
    u, w = chunk_factors(k.float(), v.float(), gates.b.float().sigmoid(), g, chunk)
    return Chunked(q, k, u.to(dtype), w.to(dtype), g)


def chunk_factors(
    k: torch.Tensor, v: torch.Tensor, beta: torch.Tensor, g: torch.Tensor, size: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """u and w, in the dtype of the inputs."""
    import torch

    tokens, heads = v.shape[1:3]
    spread = k.repeat_interleave(heads // k.shape[2], 2)
    keys, values = in_chunks(spread, size), in_chunks(v, size)
    strength, sums = in_chunks(beta, size)[..., None], in_chunks(g, size)
    matrix = strength * (keys @ keys.mT) * pair_decay(sums, -1)
    right = torch.cat([strength * values, strength * sums.exp()[..., None] * keys], -1)
    solved = torch.linalg.solve_triangular(matrix, right, upper=False, unitriangular=True)
    u, w = solved.split([v.shape[-1], k.shape[-1]], -1)
    return from_chunks(u, tokens), from_chunks(w, tokens)


def chunk_states(
    k: torch.Tensor,
    w: torch.Tensor,
    u: torch.Tensor,
    g: torch.Tensor,
    state: torch.Tensor,
    size: int,
    dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The state [B, Hv, K, V] at the start of every chunk, x of every token, and the last state.

    Chunk by chunk in `dtype`; h [B, chunks, Hv, K, V] and x [B, T, Hv, V] are fp32.
    """
    import torch

    batch, tokens, heads, width = u.shape
    h = torch.empty(batch, blocks(tokens, size), heads, k.shape[-1], width, device=u.device)
    x = torch.empty(u.shape, device=u.device)
    state = state.to(dtype)
    for index, start in enumerate(range(0, tokens, size)):
        chunk = slice(start, min(start + size, tokens))
        keys = k[:, chunk].repeat_interleave(heads // k.shape[2], 2).to(dtype)
        sums = g[:, chunk].to(dtype)
        h[:, index] = state.float()
        new = u[:, chunk].to(dtype) - torch.einsum("bthk,bhkv->bthv", w[:, chunk].to(dtype), state)
        x[:, chunk] = new.float()
        last = sums[:, -1:]
        decayed = new * (last - sums).exp()[..., None]
        state = state * last[:, 0].exp()[..., None, None]
        state = state + torch.einsum("bthk,bthv->bhkv", keys, decayed)
    return h, x, state
