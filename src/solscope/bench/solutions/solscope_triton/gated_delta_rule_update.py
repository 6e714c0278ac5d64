"""Gated delta rule: in chunks on the matrix pipe where a prompt is long, else token by token."""

import torch
import triton
import triton.language as tl
from _delta_chunks import LEAST, log_decay, update

FEW = 16
"""Tokens up to which the state goes from token to token."""
COLUMNS = 16
WARPS = 1


@triton.jit
def token_kernel(
    A_log,
    dt_bias,
    a,
    b,
    q,
    k,
    v,
    state,
    indices,
    out,
    tokens,
    scale,
    Q_HEADS: tl.constexpr,
    V_HEADS: tl.constexpr,
    KEY: tl.constexpr,
    KEY_UP: tl.constexpr,
    VALUE: tl.constexpr,
    COLUMNS: tl.constexpr,
    LEAST: tl.constexpr,
):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    v_head = tl.program_id(1)
    sequence = tl.program_id(2).to(tl.int64)
    head = v_head // (V_HEADS // Q_HEADS)
    key = tl.arange(0, KEY_UP)
    known = key < KEY
    inside = column < VALUE
    index = tl.load(indices + sequence).to(tl.int64)
    present = index >= 0
    rate = tl.load(A_log + v_head)
    bias = tl.load(dt_bias + v_head)
    mine = state + (index * V_HEADS + v_head) * KEY * VALUE
    mine += key[:, None] * VALUE + column[None, :]
    moved = known[:, None] & inside[None, :] & present
    h = tl.load(mine, mask=moved, other=0.0)
    for token in range(tokens):
        at = sequence * tokens + token
        row = (at * Q_HEADS + head) * KEY + key
        keys = tl.load(k + row, mask=known, other=0.0).to(tl.float32)
        queries = tl.load(q + row, mask=known, other=0.0).to(tl.float32)
        place = (at * V_HEADS + v_head) * VALUE + column
        values = tl.load(v + place, mask=inside, other=0.0).to(tl.float32)
        decay = tl.exp(log_decay(rate, bias, tl.load(a + at * V_HEADS + v_head), LEAST))
        strength = tl.sigmoid(tl.load(b + at * V_HEADS + v_head).to(tl.float32))
        r = 1.0 / tl.maximum(tl.sqrt(tl.sum(keys * keys, 0)), 1e-6)
        s = scale / tl.maximum(tl.sqrt(tl.sum(queries * queries, 0)), 1e-6)
        h = h * decay
        # (h + r k d) q = h q + r (k q) d, so that all sums can be made at once.
        kh = tl.sum(h * keys[:, None], 0) * r
        qh = tl.sum(h * queries[:, None], 0) * s
        written = (values - kh) * (strength * r)
        o = qh + tl.sum(keys * queries, 0) * s * written
        h += keys[:, None] * written[None, :]
        o = tl.where(present, o, 0.0)
        tl.store(out + place, o.to(out.dtype.element_ty), mask=inside)
    tl.store(mine, h, mask=moved)


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
    sequences, tokens, q_heads, key = q.shape
    v_heads, value = v.shape[2:]
    chunked = key in (64, 128) and value % 32 == 0
    if chunked and tokens > FEW:
        return update(A_log, dt_bias, a, b, q, k, v, state, state_indices, scale)
    out = torch.empty_like(v)
    token_kernel[(triton.cdiv(value, COLUMNS), v_heads, sequences)](
        A_log,
        dt_bias,
        a,
        b,
        q,
        k,
        v,
        state,
        state_indices,
        out,
        tokens,
        scale,
        Q_HEADS=q_heads,
        V_HEADS=v_heads,
        KEY=key,
        KEY_UP=triton.next_power_of_2(key),
        VALUE=value,
        COLUMNS=COLUMNS,
        LEAST=LEAST,
        num_warps=WARPS,
    )
    return out
