"""The gated delta rule in chunks of 64 tokens: two launches for a prompt of any length.

Per chunk and v head, with G the running sum of the log decay from the start of the chunk, r = 1/‖k‖
and s = 1/‖q‖ (see `gated_delta_rule_update`):

    A_ij = β_i e^(G_i - G_j) r_i r_j (k_i k_j), i > j       M = (I + A)^-1 diag(β)
    P_ij = scale e^(G_i - G_j) s_i r_j (q_i k_j), i >= j
    x = M (v - e^G r (k h))                                  what the chunk writes
    o = scale e^G s (q h) + P x
    h <- e^G_last h + kᵀ (e^(G_last - G) r x)

`prepare_kernel` makes M, P and the factors of all chunks at once; `chunk_kernel` goes through the
chunks with a few columns of the state in registers. The state is wanted in fp32, so every fp32
operand of a product on the matrix pipe is the sum of two bf16 numbers: 16 bits, not 8. q, k and v
are bf16 numbers themselves, as their norms are factors of rows.
"""

import torch
import triton
import triton.language as tl

CHUNK = 64
LEAST = -80.0
"""A log decay below this leaves nothing of a state in fp32; running sums stay small with it."""


@triton.jit
def halves(x):
    """x as the sum of two bf16 numbers, both cut off: rounding takes a slow instruction."""
    bits = x.to(tl.uint32, bitcast=True)
    high = (bits >> 16).to(tl.uint16).to(tl.bfloat16, bitcast=True)
    rest = x - (bits & 0xFFFF0000).to(tl.float32, bitcast=True)
    low = (rest.to(tl.uint32, bitcast=True) >> 16).to(tl.uint16).to(tl.bfloat16, bitcast=True)
    return high, low


@triton.jit
def exact_dot(x, y):
    """x y of fp32 numbers, to 16 bits of each."""
    x_high, x_low = halves(x)
    y_high, y_low = halves(y)
    return tl.dot(x_high, y_high, tl.dot(x_high, y_low, tl.dot(x_low, y_high)))


@triton.jit
def softplus(x):
    """log(1 + e^x), the identity above 20, without the rounding of 1 + e^x."""
    power = tl.exp(tl.minimum(x, 20.0))
    one_more = 1.0 + power
    return tl.where(x > 20.0, x, tl.log(one_more) + (power - (one_more - 1.0)) / one_more)


@triton.jit
def log_decay(a_log, dt_bias, a, LEAST: tl.constexpr):
    return tl.maximum(-tl.exp(a_log) * softplus(a.to(tl.float32) + dt_bias.to(tl.float32)), LEAST)


@triton.jit
def prepare_kernel(
    A_log,
    dt_bias,
    a,
    b,
    q,
    k,
    matrices,
    factors,
    ends,
    tokens,
    scale,
    Q_HEADS: tl.constexpr,
    V_HEADS: tl.constexpr,
    KEY: tl.constexpr,
    CHUNK: tl.constexpr,
    LEAST: tl.constexpr,
):
    chunk = tl.program_id(0)
    chunks = tl.num_programs(0)
    v_head = tl.program_id(1)
    sequence = tl.program_id(2).to(tl.int64)
    head = v_head // (V_HEADS // Q_HEADS)
    row = tl.arange(0, CHUNK)
    column = tl.arange(0, CHUNK)
    token = chunk * CHUNK + row
    valid = token < tokens
    at = (sequence * tokens + token)[:, None] * (Q_HEADS * KEY) + head * KEY
    at += tl.arange(0, KEY)[None, :]
    keys = tl.load(k + at, mask=valid[:, None], other=0.0)
    queries = tl.load(q + at, mask=valid[:, None], other=0.0)
    k_squares = tl.sum(keys.to(tl.float32) * keys.to(tl.float32), 1)
    q_squares = tl.sum(queries.to(tl.float32) * queries.to(tl.float32), 1)
    r = 1.0 / tl.maximum(tl.sqrt(k_squares), 1e-6)
    s = 1.0 / tl.maximum(tl.sqrt(q_squares), 1e-6) * scale
    turned = tl.trans(keys)
    gate = (sequence * tokens + token) * V_HEADS + v_head
    raw = tl.load(a + gate, mask=valid, other=0.0)
    gamma = log_decay(tl.load(A_log + v_head), tl.load(dt_bias + v_head), raw, LEAST)
    gamma = tl.where(valid, gamma, 0.0)
    strength = tl.sigmoid(tl.load(b + gate, mask=valid, other=0.0).to(tl.float32))
    strength = tl.where(valid, strength, 0.0)
    sums = tl.cumsum(gamma, 0)
    total = tl.sum(gamma, 0)
    below = row[:, None] > column[None, :]
    difference = sums[:, None] - sums[None, :]
    decay = tl.exp(tl.where(row[:, None] >= column[None, :], difference, float("-inf")))
    place = (sequence * V_HEADS + v_head) * chunks + chunk
    cell = matrices + place * (4 * CHUNK * CHUNK) + row[:, None] * CHUNK + column[None, :]
    p_high, p_low = halves(tl.dot(queries, turned) * s[:, None] * r[None, :] * decay)
    tl.store(cell + 2 * CHUNK * CHUNK, p_high)
    tl.store(cell + 3 * CHUNK * CHUNK, p_low)
    kk = tl.dot(keys, turned) * r[:, None] * r[None, :]
    lower = tl.where(below, kk * decay * strength[:, None], 0.0)
    # The inverse of I + A, of blocks of 2 rows on the diagonal, then of 4, 8, ... 64.
    pair = (row[:, None] // 2 == column[None, :] // 2) & below
    inverse = tl.where(row[:, None] == column[None, :], 1.0, 0.0) - tl.where(pair, lower, 0.0)
    for level in range(1, 6):
        of_row = row[:, None] >> level
        beside = (of_row % 2 == 1) & (column[None, :] >> level == of_row - 1)
        step = exact_dot(tl.where(beside, lower, 0.0), inverse)
        inverse -= exact_dot(inverse, step)
    m_high, m_low = halves(inverse * strength[None, :])
    tl.store(cell, m_high)
    tl.store(cell + CHUNK * CHUNK, m_low)
    factor = factors + place * (3 * CHUNK) + row
    tl.store(factor, tl.exp(sums) * r)
    tl.store(factor + CHUNK, tl.exp(total - sums) * r)
    tl.store(factor + 2 * CHUNK, tl.exp(sums) * s)
    tl.store(ends + place, tl.exp(total))


# Triton 3.6 would compile a loop that it knows to have one step on its own, and to a wrong state.
@triton.jit(do_not_specialize=["chunks"])
def chunk_kernel(
    q,
    k,
    v,
    matrices,
    factors,
    ends,
    state,
    indices,
    out,
    tokens,
    chunks,
    Q_HEADS: tl.constexpr,
    V_HEADS: tl.constexpr,
    KEY: tl.constexpr,
    VALUE: tl.constexpr,
    COLUMNS: tl.constexpr,
    CHUNK: tl.constexpr,
    STAGES: tl.constexpr,
):
    v_head = tl.program_id(1)
    sequence = tl.program_id(2).to(tl.int64)
    head = v_head // (V_HEADS // Q_HEADS)
    row = tl.arange(0, CHUNK)
    key = tl.arange(0, KEY)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    index = tl.load(indices + sequence).to(tl.int64)
    if index < 0:
        for chunk in range(chunks):
            token = chunk * CHUNK + row
            at = ((sequence * tokens + token) * V_HEADS + v_head)[:, None] * VALUE
            nothing = tl.zeros([CHUNK, COLUMNS], out.dtype.element_ty)
            tl.store(out + at + column[None, :], nothing, mask=(token < tokens)[:, None])
    else:
        mine = state + (index * V_HEADS + v_head) * KEY * VALUE
        mine += key[:, None] * VALUE + column[None, :]
        h = tl.load(mine)
        first = (sequence * V_HEADS + v_head) * chunks
        cells = row[:, None] * CHUNK + tl.arange(0, CHUNK)[None, :]
        for chunk in tl.range(chunks, num_stages=STAGES):
            place = first + chunk
            token = chunk * CHUNK + row
            valid = (token < tokens)[:, None]
            at = (sequence * tokens + token)[:, None] * (Q_HEADS * KEY) + head * KEY
            keys = tl.load(k + at + key[None, :], mask=valid, other=0.0)
            queries = tl.load(q + at + key[None, :], mask=valid, other=0.0)
            here = ((sequence * tokens + token) * V_HEADS + v_head)[:, None] * VALUE
            values = tl.load(v + here + column[None, :], mask=valid, other=0.0)
            matrix = matrices + place * (4 * CHUNK * CHUNK) + cells
            m_high = tl.load(matrix)
            m_low = tl.load(matrix + CHUNK * CHUNK)
            p_high = tl.load(matrix + 2 * CHUNK * CHUNK)
            p_low = tl.load(matrix + 3 * CHUNK * CHUNK)
            factor = factors + place * (3 * CHUNK) + row
            of_kh = tl.load(factor)
            of_x = tl.load(factor + CHUNK)
            of_qh = tl.load(factor + 2 * CHUNK)
            kept = tl.load(ends + place)

            h_high, h_low = halves(h)
            kh = tl.dot(keys, h_high, tl.dot(keys, h_low))
            z_high, z_low = halves(values.to(tl.float32) - kh * of_kh[:, None])
            x = tl.dot(m_high, z_high, tl.dot(m_high, z_low, tl.dot(m_low, z_high)))
            y_high, y_low = halves(x * of_x[:, None])
            x_high, x_low = halves(x)
            qh = tl.dot(queries, h_high, tl.dot(queries, h_low)) * of_qh[:, None]
            o = tl.dot(p_high, x_high, tl.dot(p_high, x_low, tl.dot(p_low, x_high, qh)))
            tl.store(out + here + column[None, :], o.to(out.dtype.element_ty), mask=valid)
            turned = tl.trans(keys)
            h = tl.dot(turned, y_high, tl.dot(turned, y_low, h * kept))
        tl.store(mine, h)


COLUMNS = 0
"""Columns of the state per program; 0: as many as leave work for every SM."""
STAGES = 2
WARPS = 4
PREPARE_WARPS = 4


def columns_for(programs: int, value: int, device: torch.device) -> int:
    """Fewer columns where heads are few: 32 keep an SM busy, 16 hide more of each other's waits."""
    processors = 132
    if device.type == "cuda":
        processors = torch.cuda.get_device_properties(device).multi_processor_count
    for columns in (32, 16):
        if programs * (value // columns) >= processors * 3 // 4:
            return columns
    return 16


def update(
    A_log: torch.Tensor,
    dt_bias: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    state: torch.Tensor,
    indices: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """Outputs of all tokens; rows of `state` are updated in place."""
    sequences, tokens, q_heads, key = q.shape
    v_heads, value = v.shape[2:]
    chunks = triton.cdiv(tokens, CHUNK)
    cells = sequences * v_heads * chunks
    matrices = torch.empty(cells * 4 * CHUNK * CHUNK, dtype=torch.bfloat16, device=q.device)
    factors = torch.empty(cells * 3 * CHUNK, dtype=torch.float32, device=q.device)
    ends = torch.empty(cells, dtype=torch.float32, device=q.device)
    out = torch.empty_like(v)
    sizes = {"Q_HEADS": q_heads, "V_HEADS": v_heads, "KEY": key, "CHUNK": CHUNK}
    prepare_kernel[(chunks, v_heads, sequences)](
        A_log,
        dt_bias,
        a,
        b,
        q,
        k,
        matrices,
        factors,
        ends,
        tokens,
        scale,
        LEAST=LEAST,
        num_warps=PREPARE_WARPS,
        **sizes,
    )
    columns = COLUMNS or columns_for(sequences * v_heads, value, q.device)
    chunk_kernel[(value // columns, v_heads, sequences)](
        q,
        k,
        v,
        matrices,
        factors,
        ends,
        state,
        indices,
        out,
        tokens,
        chunks,
        VALUE=value,
        COLUMNS=columns,
        STAGES=STAGES,
        num_warps=WARPS,
        **sizes,
    )
    return out
