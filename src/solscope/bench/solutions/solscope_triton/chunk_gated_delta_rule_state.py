"""States of the chunked gated delta rule: sixteen columns of a state in the registers of two warps.

Chunks have to wait for each other, so what counts is how long one takes: few columns per program,
and tiles of k, w and u that the copy engine brings some chunks ahead.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

COLUMNS = 16
STAGES = 3
WARPS = 2


@triton.jit
def state_kernel(
    k_source,
    w_source,
    u_source,
    g,
    state,
    indices,
    h_target,
    v_target,
    tokens,
    chunks,
    K_HEADS: tl.constexpr,
    V_HEADS: tl.constexpr,
    KEY: tl.constexpr,
    VALUE: tl.constexpr,
    COLUMNS: tl.constexpr,
    CHUNK: tl.constexpr,
    STAGES: tl.constexpr,
):
    v_head = tl.program_id(1)
    sequence = tl.program_id(2)
    head = v_head // (V_HEADS // K_HEADS)
    first = tl.program_id(0) * COLUMNS
    values = v_head * VALUE + first
    index = tl.load(indices + sequence).to(tl.int64)
    mine = state + (index * V_HEADS + v_head) * KEY * VALUE + first
    mine += tl.arange(0, KEY)[:, None] * VALUE + tl.arange(0, COLUMNS)[None, :]
    h = tl.load(mine, mask=index >= 0, other=0.0)
    of_g = g + sequence.to(tl.int64) * tokens * V_HEADS + v_head
    for chunk in tl.range(chunks, num_stages=STAGES):
        start = chunk * CHUNK
        token = start + tl.arange(0, CHUNK)
        w = w_source.load([sequence, start, v_head * KEY]).reshape(CHUNK, KEY)
        k = k_source.load([sequence, start, head * KEY]).reshape(CHUNK, KEY)
        u = u_source.load([sequence, start, values]).reshape(CHUNK, COLUMNS)
        sums = tl.load(of_g + token * V_HEADS, mask=token < tokens, other=0.0)
        last = tl.load(of_g + (tl.minimum(start + CHUNK, tokens) - 1) * V_HEADS)
        now = h.to(w.dtype)
        h_target.store([((sequence * chunks + chunk) * V_HEADS + v_head) * KEY, first], now)
        x = u.to(tl.float32) - tl.dot(w, now)
        y = (x * tl.exp(last - sums)[:, None]).to(k.dtype)
        h = tl.dot(tl.trans(k), y, h * tl.exp(last))
        v_target.store([sequence, start, values], x.to(u.dtype).reshape(1, CHUNK, COLUMNS))
    tl.store(mine, h, mask=index >= 0)


def run(
    k: torch.Tensor,
    w: torch.Tensor,
    u: torch.Tensor,
    g: torch.Tensor,
    state: torch.Tensor,
    state_indices: torch.Tensor,
    chunk_size: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The state before each chunk and what each token writes; `state` is updated in place."""
    sequences, tokens, v_heads, value = u.shape
    k_heads, key = k.shape[2:]
    if k.device.type != "cuda" or torch.cuda.get_device_capability(k.device)[0] < 9:
        raise NotImplementedError("needs the copy engine of Hopper")
    if value % COLUMNS or key not in (64, 128):
        raise NotImplementedError("states of 64 or 128 rows and a multiple of 16 columns only")
    chunks = triton.cdiv(tokens, chunk_size)
    h = torch.empty(sequences, chunks, v_heads, key, value, dtype=k.dtype, device=k.device)
    v_new = torch.empty_like(u)

    def tiles(tensor: torch.Tensor, width: int) -> TensorDescriptor:
        flat = tensor.view(sequences, tokens, -1)
        return TensorDescriptor.from_tensor(flat, [1, chunk_size, width])

    state_kernel[(value // COLUMNS, v_heads, sequences)](
        tiles(k, key),
        tiles(w, key),
        tiles(u, COLUMNS),
        g,
        state,
        state_indices,
        TensorDescriptor.from_tensor(h.view(-1, value), [key, COLUMNS]),
        tiles(v_new, COLUMNS),
        tokens,
        chunks,
        K_HEADS=k_heads,
        V_HEADS=v_heads,
        KEY=key,
        VALUE=value,
        COLUMNS=COLUMNS,
        CHUNK=chunk_size,
        STAGES=STAGES,
        num_warps=WARPS,
    )
    return h, v_new
