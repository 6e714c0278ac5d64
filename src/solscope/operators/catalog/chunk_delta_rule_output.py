"""The output of the gated delta rule, all chunks at once: the parallel half of its chunked form.

Within a chunk of c <= C = 64 rows, with the state h at its start:

    o_i = scale ( e^G_i hᵀ q_i + Σ_{j<=i} e^(G_i - G_j) (q_i k_j) v_j )

    tensor   B [ Hv (2 T K V + V Σ c(c+1)) + Hq K Σ c(c+1) ]    Σ over chunks
    sfu      B Hv Σ c(c+1)/2               decay of each pair that the mask leaves
    bytes    q, k, v, h of every chunk, g (fp32), out

The products are triangular, and q k is shared by the v heads of one q head.
Published: padded rows, full squares and q k once per v head: 1.46 times the FLOP.

In: q and k [B, T, Hq, K] with rows of norm 1, v [B, T, Hv, V] (v_new of the state operator), h
[B, chunks, Hv, K, V], g [B, T, Hv] fp32 (G, the log decay summed from the start of the chunk),
scale, chunk_size. Out: out [B, T, Hv, V]. The diagonal j = i counts; the last chunk may be short.
"""

# Also: kernels in attribution/rules.toml.

from __future__ import annotations

from typing import Any

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.cost import Axes, Cost, Published, blocks, element
from solscope.operators.suite_axes import DELTA_RULE
from solscope.operators.task import Draw, Inputs, Output, Outputs, Task, Tolerance
from solscope.operators.tasks.delta_rule import (
    chunk_states,
    draw_chunked,
    from_chunks,
    in_chunks,
    pair_decay,
)
from solscope.operators.tasks.draws import normal, query_scale


@cost_model("sequences tokens q_heads v_heads key_dim value_dim chunk_size", optional="dtype")
def cost(axes: Axes) -> Cost:
    """Valid rows and the lower triangle only."""
    batch, tokens, chunk = axes["sequences"], axes["tokens"], axes["chunk_size"]
    q_heads, heads = axes["q_heads"], axes["v_heads"]
    key, value, size = axes["key_dim"], axes["value_dim"], element(axes)
    whole, rest = divmod(tokens, chunk)
    pairs = batch * (whole * chunk * (chunk + 1) + rest * (rest + 1))
    rows = batch * tokens
    states = batch * blocks(tokens, chunk) * heads * key * value
    products = heads * (2 * rows * key * value + value * pairs) + q_heads * key * pairs
    values = size * rows * heads * value
    return Cost(
        flops={"tensor.bf16": products, "sfu": heads * pairs // 2},
        read_bytes={
            "activations": 2 * size * rows * q_heads * key + values + 4 * rows * heads,
            "state": size * states,
        },
        write_bytes={"activations": values},
    )


@in_suite("atrex_004", f"{DELTA_RULE} q_heads=num_q_heads chunk_size")
def published(axes: Axes) -> Published:
    """As published."""
    batch, tokens, chunk = axes["sequences"], axes["tokens"], axes["chunk_size"]
    heads, key, value = axes["v_heads"], axes["key_dim"], axes["value_dim"]
    chunks, rows = blocks(tokens, chunk), batch * tokens
    row = 2 * key * value + 2 * chunk * key + 2 * chunk * value + 3 * value + 2 * chunk
    inputs = 4 * rows * axes["q_heads"] * key + 2 * rows * heads * value + 4 * rows * heads
    return Published(
        flops={"bf16": batch * heads * chunks * chunk * row},
        read_bytes=inputs + 2 * batch * chunks * heads * key * value,
        write_bytes=2 * rows * heads * value,
    )


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """What the state operator makes of a model's tokens, from a state that is not zero."""
    import torch

    generator, batch = draw.generator(), axes["sequences"]
    heads, key, value = axes["v_heads"], axes["key_dim"], axes["value_dim"]
    tokens = draw_chunked(
        generator,
        batch=batch,
        tokens=axes["tokens"],
        k_heads=axes["q_heads"],
        v_heads=heads,
        key_dim=key,
        value_dim=value,
        chunk=axes["chunk_size"],
        variant=draw.variant,
    )
    state = normal(generator, batch, heads, key, value, dtype=torch.float32)
    h, x, _ = chunk_states(
        tokens.k, tokens.w, tokens.u, tokens.g, state, axes["chunk_size"], torch.float32
    )
    return {
        "q": tokens.q,
        "k": tokens.k,
        "v": x.to(torch.bfloat16),
        "h": h.to(torch.bfloat16),
        "g": tokens.g,
        "scale": query_scale(generator, draw.variant, key**-0.5),
        "chunk_size": axes["chunk_size"],
    }


def reference(**inputs: Any) -> Outputs:
    """Some chunks at a time in fp64, without the rounding of q k to bf16."""
    import torch

    q, k, v, h, g = (inputs[name] for name in "qkvhg")
    scale, chunk_size = inputs["scale"], inputs["chunk_size"]
    tokens, heads = v.shape[1:3]
    share = heads // q.shape[2]
    out = torch.empty(v.shape, device=v.device)
    step = chunk_size * max(1, _STATE_VALUES // max(1, h[:, 0].numel()))
    for start in range(0, tokens, step):
        chunks = slice(start, min(start + step, tokens))
        queries, keys = (
            in_chunks(x[:, chunks].double(), chunk_size).repeat_interleave(share, 2) for x in (q, k)
        )
        values, sums = (in_chunks(x[:, chunks].double(), chunk_size) for x in (v, g))
        first = start // chunk_size
        states = h[:, first : first + queries.shape[1]].double()
        before = sums.exp()[..., None] * (queries @ states)
        within = (queries @ keys.mT * pair_decay(sums, 0)) @ values
        rows = from_chunks(scale * (before + within), chunks.stop - start)
        out[:, chunks] = rows.float()
    return {"out": out}


_STATE_VALUES = 1 << 26
"""States held in fp64 at a time: 512 MiB."""

_WHY = (
    "q k, its decayed form, q h and the result rounded to bf16, sums in fp32: so "
    "emulated, the relative RMS error is 2.8e-3, that of the worst row 7e-3; 8-bit "
    "operands give 3e-2"
)
_TOLERANCE = Tolerance(
    "close", atol=2e-3, rtol=2e-2, rms=5e-3, row_rms=1.2e-2, matched=0.99, why=_WHY
)
OUTPUTS = {"out": Output("bfloat16", _TOLERANCE)}
TASK = Task(inputs, reference, OUTPUTS, running=("g",), vary=("sequences", "tokens"))

TITLE = "Gated delta rule, chunked form: outputs"
OPERATOR = Operator("chunk_delta_rule_output", TITLE, "linear_attention", cost, published, TASK)
