"""Full (not causal) attention over packed sequences without a cache, as in vision encoders.

    tensor   4 H D Σ q s                   q k and p v
    sfu      H Σ q s                       one exponential per pair and head
    bytes    q, k, v and out once, two lists of n + 1 offsets (int32)

A head dimension of 72 is padded to 80, 96 or 128 by real kernels; the bound is not.
Published: the same.

In: q [Tq, H, D], k and v [Tk, H, D], cu_seqlens_q and cu_seqlens_k [n + 1] in int32, max_seqlen_q,
max_seqlen_k, softmax_scale. Out: out [Tq, H, D]. Queries see their own sequence only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.cost import Axes, Cost, Published, element, tensor_pipe
from solscope.operators.suite_axes import with_sequences
from solscope.operators.task import Draw, Inputs, Output, Outputs, Task
from solscope.operators.tasks.attend import FLASH, attend
from solscope.operators.tasks.draws import normal, query_scale, torch_dtype
from solscope.operators.tasks.needles import needle_positions, queries, value_offsets
from solscope.operators.tasks.paging import offsets, shuffled_lengths

if TYPE_CHECKING:
    import torch


@cost_model("sequences heads head_dim", optional="dtype")
def cost(axes: Axes) -> Cost:
    """Each of q, k, v and out once; every query sees every key of its sequence."""
    groups, heads, dim = axes["sequences"], axes["heads"], axes["head_dim"]
    pairs = sum(q * kv * count for q, kv, count in groups)
    queries = sum(q * count for q, _, count in groups)
    keys = sum(kv * count for _, kv, count in groups)
    row = element(axes) * heads * dim
    return Cost(
        flops={tensor_pipe(axes): 4 * heads * dim * pairs, "sfu": heads * pairs},
        read_bytes={
            "activations": row * (queries + 2 * keys),
            "index": 8 * (sum(count for _, _, count in groups) + 1),
        },
        write_bytes={"activations": row * queries},
    )


@in_suite("atrex_001", with_sequences("heads=num_heads head_dim"))
def published(axes: Axes) -> Published:
    """As published."""
    groups, width = axes["sequences"], axes["heads"] * axes["head_dim"]
    tokens = sum(s * count for _, s, count in groups)
    sequences = sum(count for _, _, count in groups)
    return Published(
        flops={"bf16": 4 * width * sum(s * s * count for _, s, count in groups)},
        read_bytes=6 * width * tokens + 8 * (sequences + 1),
        write_bytes=2 * width * tokens,
    )


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """Packed sequences and queries with needles, some of them in the next sequence.

    `empty` adds sequences without a token.
    """
    import torch

    generator, dtype = draw.generator(), torch_dtype(axes.get("dtype", "bf16"))
    heads, dim = axes["heads"], axes["head_dim"]
    groups = [*axes["sequences"]] + ([[0, 0, 2]] if draw.variant == "empty" else [])
    queried, keys = shuffled_lengths(generator, groups)
    starts_q, starts_k = offsets(queried), offsets(keys)
    tokens, total = (sum(group[column] * group[2] for group in groups) for column in (0, 1))
    k, v = (normal(generator, total, heads, dim, dtype=dtype) for _ in range(2))
    v += value_offsets(generator, (total, heads, dim), dtype, draw.variant)
    which = torch.arange(len(keys), device=draw.device)
    sequence = torch.repeat_interleave(which, queried.long(), output_size=tokens)
    visible = keys[sequence]
    position = needle_positions(generator, visible, visible + 1, heads)
    place = (starts_k[sequence][:, None] + position).clamp_max(total - 1)
    needle = k[place, torch.arange(heads, device=draw.device)]
    scale = query_scale(generator, draw.variant, dim**-0.5)
    q = queries(generator, needle, visible, scale=scale, strength=dim, variant=draw.variant)
    return {
        "q": q,
        "k": k,
        "v": v,
        "cu_seqlens_q": starts_q,
        "cu_seqlens_k": starts_k,
        "max_seqlen_q": max(q for q, _, _ in groups),
        "max_seqlen_k": max(s for _, s, _ in groups),
        "softmax_scale": scale,
    }


def reference(**inputs: Any) -> Outputs:
    """Sequence by sequence, in fp64."""
    import torch

    q, k, v, softmax_scale = inputs["q"], inputs["k"], inputs["v"], inputs["softmax_scale"]
    cu_seqlens_q, cu_seqlens_k = inputs["cu_seqlens_q"], inputs["cu_seqlens_k"]
    out = torch.zeros(q.shape, device=q.device)
    ends_q, ends_k = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()
    for index in range(len(ends_q) - 1):
        rows, keys = (slice(*ends[index : index + 2]) for ends in (ends_q, ends_k))
        out[rows] = attend(q[None, rows], k[None, keys], v[None, keys], softmax_scale)[0]
    return {"out": out}


def sampled(inputs: Inputs, rows: torch.Tensor) -> Outputs:
    """The outputs of some query tokens, sequence by sequence."""
    import torch

    q, ends_k = inputs["q"], inputs["cu_seqlens_k"].tolist()
    sequence = torch.searchsorted(inputs["cu_seqlens_q"].long(), rows, right=True) - 1
    out = torch.zeros(len(rows), *q.shape[1:], device=q.device)
    for index in torch.unique(sequence).tolist():
        mine, keys = (sequence == index).nonzero()[:, 0], slice(*ends_k[index : index + 2])
        k, v = inputs["k"][None, keys], inputs["v"][None, keys]
        out[mine] = attend(q[rows[mine]][None], k, v, inputs["softmax_scale"])[0]
    return {"out": out}


OUTPUTS = {"out": Output("q", FLASH)}
TASK = Task(inputs, reference, OUTPUTS, sampled=sampled, vary=("sequences",))

TITLE = "Full attention over packed sequences, without a cache"
OPERATOR = Operator("attention_forward", TITLE, "attention", cost, published, TASK)
