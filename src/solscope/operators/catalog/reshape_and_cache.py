"""New keys and values written to their slots of a paged cache, in place.

    bytes    keys and values in, slots (int64) in, keys and values out

`valid_tokens` is the number of tokens whose slot is not negative (default: all).
Published: the whole cache is cloned, 1.5 to 16.5 times the bytes needed.

Solutions: run(key [T, Hk, D], value, key_cache [blocks, bs, Hk, D], value_cache, slot_mapping [T]
int64), in place: row t goes to slot s = slot_mapping[t] of block s // bs, or nowhere when s < 0.
Slots are unique; all other slots keep their values, and are compared too. Blocks hold 16 slots
unless the axis `block_size` says otherwise.
"""

# Also: kernels in attribution/rules.toml.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.cost import Axes, Cost, Published, blocks, element
from solscope.operators.suite_axes import SuiteSizes
from solscope.operators.task import Draw, Inputs, Output, Outputs, Task, Tolerance
from solscope.operators.tasks.draws import normal, torch_dtype

if TYPE_CHECKING:
    import torch


@cost_model("tokens kv_heads head_dim", optional="valid_tokens block_size dtype")
def cost(axes: Axes) -> Cost:
    """Only the rows that are written."""
    tokens = axes["tokens"]
    width = axes["kv_heads"] * axes["head_dim"]
    moved = 2 * element(axes) * axes.get("valid_tokens", tokens) * width
    return Cost(
        read_bytes={"activations": moved, "index": 8 * tokens},
        write_bytes={"cache": moved},
    )


def suite_axes(shape: SuiteSizes) -> dict[str, Any]:
    """Tokens, heads and values per head."""
    tokens, heads, dim = shape.input["shape"]
    size = shape.input["block_size"]
    return {"tokens": tokens, "kv_heads": heads, "head_dim": dim, "block_size": size}


@in_suite("atrex_026", suite_axes)
def published(axes: Axes) -> Published:
    """As published: a pool that just holds the tokens, copied whole."""
    tokens, size = axes["tokens"], axes["block_size"]
    width = axes["kv_heads"] * axes["head_dim"]
    pool = 4 * blocks(tokens, size) * size * width
    return Published(
        flops={"bf16": 0},
        read_bytes=4 * tokens * width + pool + 8 * tokens,
        write_bytes=pool,
    )


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """A used pool of ten times the tokens; whole blocks of prompts and single slots of decodes.

    One token in fifty is padding with slot -1, in `empty` every second.
    """
    import torch

    generator, dtype = draw.generator(), torch_dtype(axes.get("dtype", "bf16"))
    tokens, size = axes["tokens"], axes.get("block_size", 16)
    row = (axes["kv_heads"], axes["head_dim"])
    pool = blocks(10 * tokens, size) + 4

    def random(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=generator, device=generator.device)

    order = torch.randperm(pool, generator=generator, device=generator.device)
    prompt = tokens * 3 // 4
    index = torch.arange(tokens, device=generator.device)
    paged = order[index // size] * size + index % size
    # a decode appends to a block of its own
    offset = (random(tokens) * size).long()
    decoded = order[blocks(prompt, size) + (index - prompt).clamp_min(0)] * size + offset
    slots = torch.where(index < prompt, paged, decoded)
    share = 0.5 if draw.variant == "empty" else 0.02
    slots = torch.where((random(tokens) < share) & (index > 0), -1, slots)
    return {
        "key": normal(generator, tokens, *row, dtype=dtype),
        "value": normal(generator, tokens, *row, dtype=dtype),
        "key_cache": normal(generator, pool, size, *row, dtype=dtype),
        "value_cache": normal(generator, pool, size, *row, dtype=dtype),
        "slot_mapping": slots,
    }


def _written(rows: torch.Tensor, cache: torch.Tensor, owner: torch.Tensor) -> torch.Tensor:
    """Blocks of the cache with each slot's new row, or its old one where it has none."""
    import torch

    new = rows[owner.clamp_min(0)].view(cache.shape)
    return torch.where((owner >= 0).view(*cache.shape[:2], 1, 1), new, cache)


def _owners(slot_mapping: torch.Tensor, slots: int) -> torch.Tensor:
    """The token that is written to each slot of the pool; -1 for none."""
    import torch

    owner = torch.full((slots + 1,), -1, dtype=torch.int64, device=slot_mapping.device)
    place = torch.where(slot_mapping >= 0, slot_mapping, slots)
    owner[place] = torch.arange(slot_mapping.numel(), device=slot_mapping.device)
    return owner[:slots]


def sampled(inputs: Inputs, rows: torch.Tensor) -> Outputs:
    """The blocks `rows` of both caches."""
    slot_mapping, size = inputs["slot_mapping"], inputs["key_cache"].shape[1]
    owner = _owners(slot_mapping, inputs["key_cache"].shape[0] * size).view(-1, size)[rows]
    return {
        f"{name}_cache": _written(inputs[name], inputs[f"{name}_cache"][rows], owner.reshape(-1))
        for name in ("key", "value")
    }


def reference(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
) -> Outputs:
    """By gathering: each slot takes the token that names it, or stays."""
    owner = _owners(slot_mapping, key_cache.shape[0] * key_cache.shape[1])
    return {
        "key_cache": _written(key, key_cache, owner),
        "value_cache": _written(value, value_cache, owner),
    }


def realized(axes: Axes, inputs: Inputs) -> Axes:
    """With the tokens that are not padding."""
    return {**axes, "valid_tokens": int((inputs["slot_mapping"] >= 0).sum())}


_COPIED = Tolerance("exact", why="rows are copied, and every other slot stays as it is")

OUTPUTS = {"key_cache": Output("key_cache", _COPIED), "value_cache": Output("value_cache", _COPIED)}
TASK = Task(
    inputs,
    reference,
    OUTPUTS,
    sampled=sampled,
    rows=lambda inputs: int(inputs["key_cache"].shape[0]),
    realized=realized,
    mutates=("key_cache", "value_cache"),
    vary=("tokens",),
)

TITLE = "Keys and values into the paged cache"
OPERATOR = Operator("reshape_and_cache", TITLE, "kv_cache", cost, published, TASK)
