"""The state of the gated delta rule, chunk by chunk: the serial half of its chunked form.

Per chunk of C = 64 tokens, with the state h (K x V per v head, fp32) at its start:

    x = u - w h;  v_new = x;  h <- e^G h + Σ k (x e^(G_last - G))ᵀ

    tensor   4 B T Hv K V                  w h and k xᵀ
    vector   B Hv (2 T V + n K V)          u - w h, decay of x; decay of h once per chunk, n chunks
    bytes    k, w, u, g (fp32), state row in; h of every chunk, v_new, state row out; indices
    serial   n dependent chunks

`states` is the number of distinct rows touched (default: one per sequence).
Published: the same bytes; a little more FLOP (1.01).

In: k [B, T, Hk, K] with rows of norm 1, w [B, T, Hv, K], u [B, T, Hv, V], g [B, T, Hv] fp32 (G, the
log decay summed from the start of the chunk), state [pool, Hv, K, V] fp32, state_indices [B] int32,
distinct, chunk_size. Out: h [B, chunks, Hv, K, V] (the state at the start of each chunk) and v_new
[B, T, Hv, V]; rows state_indices of state are replaced in place by the last state.

The last chunk may be short; G_last is then that of its last token.
"""

# Also: kernels in attribution/rules.toml.

from __future__ import annotations

from typing import Any

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.cost import Axes, Cost, Published, blocks, element
from solscope.operators.suite_axes import DELTA_RULE
from solscope.operators.task import Draw, Inputs, Output, Outputs, Task, Tolerance
from solscope.operators.tasks.delta_rule import chunk_states, draw_chunked
from solscope.operators.tasks.draws import normal


def _sizes(axes: Axes) -> tuple[int, int, int, int, int]:
    """Rows, heads, K, V, chunks."""
    rows = axes["sequences"] * axes["tokens"]
    chunks = axes["sequences"] * blocks(axes["tokens"], axes["chunk_size"])
    return rows, axes["v_heads"], axes["key_dim"], axes["value_dim"], chunks


@cost_model(
    "sequences tokens k_heads v_heads key_dim value_dim chunk_size", optional="states pool dtype"
)
def cost(axes: Axes) -> Cost:
    """Two products per chunk; touched state rows only."""
    rows, heads, key, value, chunks = _sizes(axes)
    size = element(axes)
    state = 4 * axes.get("states", axes["sequences"]) * heads * key * value
    inputs = size * rows * (axes["k_heads"] * key + heads * (key + value)) + 4 * rows * heads
    return Cost(
        flops={
            "tensor.bf16": 4 * rows * heads * key * value,
            "vector.fp32": heads * (2 * rows * value + chunks * key * value),
        },
        read_bytes={"activations": inputs, "state": state, "index": 4 * axes["sequences"]},
        write_bytes={
            "activations": size * heads * value * (chunks * key + rows),
            "state": state,
        },
        serial_steps=blocks(axes["tokens"], axes["chunk_size"]),
    )


@in_suite(
    "atrex_005",
    f"{DELTA_RULE} k_heads=num_k_heads pool=state_count chunk_size",
)
def published(axes: Axes) -> Published:
    """As published."""
    rows, heads, key, value, chunks = _sizes(axes)
    batch = axes["sequences"]
    state = 4 * min(batch, axes["pool"]) * heads * key * value
    inputs = 2 * rows * axes["k_heads"] * key + 2 * rows * heads * (key + value) + 4 * rows * heads
    work = rows * (4 * key * value + 2 * value + 1) + chunks * 2 * key * value
    return Published(
        flops={"bf16": heads * work},
        read_bytes=inputs + state + 4 * batch,
        write_bytes=2 * chunks * heads * key * value + 2 * rows * heads * value + state,
    )


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """w, u and G of a model's keys, values and gates; a pool with more rows than are touched."""
    import torch

    generator, batch = draw.generator(), axes["sequences"]
    tokens = draw_chunked(
        generator,
        batch=batch,
        tokens=axes["tokens"],
        k_heads=axes["k_heads"],
        v_heads=axes["v_heads"],
        key_dim=axes["key_dim"],
        value_dim=axes["value_dim"],
        chunk=axes["chunk_size"],
        variant=draw.variant,
    )
    pool = max(axes.get("pool", 0), batch + max(1, batch // 8))
    shape = (pool, axes["v_heads"], axes["key_dim"], axes["value_dim"])
    rows = torch.randperm(pool, generator=generator, device=draw.device)[:batch]
    return {
        "k": tokens.k,
        "w": tokens.w,
        "u": tokens.u,
        "g": tokens.g,
        "state": normal(generator, *shape, dtype=torch.float32),
        "state_indices": rows.to(torch.int32),
        "chunk_size": axes["chunk_size"],
    }


def reference(**inputs: Any) -> Outputs:
    """Chunk by chunk in fp64, without the roundings of the deployed kernel."""
    import torch

    k, w, u, g = (inputs[name] for name in "kwug")
    state, state_indices = inputs["state"], inputs["state_indices"]
    rows, states = state_indices.long(), state.clone()
    h, x, last = chunk_states(k, w, u, g, state[rows], inputs["chunk_size"], torch.float64)
    present = rows >= 0  # a sequence with -1 is padding, and no state is its own
    states[rows[present]] = last[present].float()
    return {"h": h, "v_new": x, "state": states}


_WHY = (
    "deployed kernels round h and the decayed x to bf16 for the matrix pipe and sum in fp32. So "
    "emulated, the relative RMS error is {error}; 8-bit operands give 3e-2"
)


def _close(rms: float, row_rms: float, error: str) -> Tolerance:
    why = _WHY.format(error=error)
    return Tolerance("close", atol=0.03, rtol=2e-2, rms=rms, row_rms=row_rms, why=why)


_H = _close(6e-3, 1.5e-2, "3.3e-3 after 32 chunks, that of the worst row 5e-3")
_V_NEW = _close(5e-3, 1.5e-2, "2.1e-3, that of the worst row 4e-3")
_STATE = _close(5e-3, 1e-2, "2.5e-3 in touched rows, 4e-3 in the worst")
OUTPUTS = {
    "h": Output("bfloat16", _H),
    "v_new": Output("bfloat16", _V_NEW),
    "state": Output("float32", _STATE),
}
TASK = Task(
    inputs, reference, OUTPUTS, mutates=("state",), running=("g",), vary=("sequences", "tokens")
)

TITLE = "Gated delta rule, chunked form: states"
OPERATOR = Operator(
    "chunk_gated_delta_rule_state", TITLE, "linear_attention", cost, published, TASK
)
