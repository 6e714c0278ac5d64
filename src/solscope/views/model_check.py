"""A model's config beside what a profile shows: number and kinds of layers, MLA, experts, heads.

What contradicts the config leads to a warning, and is no longer sure: all layers where their number
or kinds differ, else the roles that cannot be. What agrees is evidence.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import polars as pl

from solscope.arrays import take
from solscope.attribution import Attributed
from solscope.attribution.expected import Expected, verdicts, with_doubt, with_expected
from solscope.attribution.phases import first_shape
from solscope.attribution.products import product_of
from solscope.operators.from_config import Model
from solscope.operators.from_config.config import Config
from solscope.profile import ProfileWarning

_LATENT_ROLES = ("q_a_kv_a", "q_b", "kv_b")
_EXPERT_GROUPS = ("gate", "moe", "shared")
_LINEAR = ("linear", "mamba", "conv", "recurrent")
_MAX_LAYERS = 10_000
"""More layers than any model has."""


def check_model(attributed: Attributed, model: Model) -> tuple[Attributed, list[ProfileWarning]]:
    """The profile with confidence that takes the config into account, and what contradicts it."""
    config = model.config
    expected = expected_layers(config)
    checked = attributed.activities
    said: list[str] = []
    if expected is not None:
        said += _count(attributed, expected)
        checked = with_expected(checked, expected)
    for doubt in contradictions(attributed, model):
        said.append(doubt.text)
        checked = with_doubt(checked, doubt.about)
    warnings = [ProfileWarning("model_differs", f"{model.name} {text}") for text in said]
    return dataclasses.replace(attributed, activities=checked), warnings


class Doubt(NamedTuple):
    """What contradicts the config, and the activities whose role it puts in doubt."""

    text: str
    about: pl.Expr


def contradictions(attributed: Attributed, model: Model) -> list[Doubt]:
    """Roles that the config rules out. Another number of layers rules out none.

    A GPU may hold some of the layers only, and these are then as the config describes them.
    """
    config, expected = model.config, expected_layers(model.config)
    return [
        *([] if expected is None else _kinds(attributed, expected)),
        *_latent(attributed, config),
        *_experts(attributed, config),
        *_heads(attributed, config),
    ]


def expected_layers(config: Config) -> Expected | None:
    """Kinds of all layers; None when the config does not say how many there are."""
    count = config.num_hidden_layers
    if count is None or not 0 < count <= _MAX_LAYERS:
        return None
    kinds = (
        None if mixer is None or feed is None else f"{mixer}+{feed}"
        for mixer, feed in zip(_mixers(config, count), _feeds(config, count), strict=True)
    )
    return Expected(tuple(kinds))


def _mixers(config: Config, count: int) -> Sequence[str | None]:
    types = config.layer_types or config.layers_block_type
    if types is not None:
        mixers = [_mixer(name) for name in types]
        return mixers if len(mixers) == count else [None] * count
    plain = config.num_attention_heads is not None and config.attn_layer_period is None
    return ["attention" if plain else None] * count


def _mixer(name: str) -> str | None:
    if any(word in name for word in _LINEAR):
        return "linear_attention"
    return "attention" if "attention" in name else None


def _feeds(config: Config, count: int) -> Sequence[str | None]:
    """Feed-forward parts; None where the config has a pattern that is not known here."""
    if config.layers_block_type is not None:
        return [None] * count  # mixers and feed-forward parts can be layers of their own
    if _expert_count(config) is None:
        return ["dense"] * count
    if config.mlp_layer_types is not None and len(config.mlp_layer_types) == count:
        return ["moe" if name == "sparse" else "dense" for name in config.mlp_layer_types]
    patterns = (
        config.moe_layer_freq if isinstance(config.moe_layer_freq, list) else None,
        config.interleave_moe_layer_step if config.interleave_moe_layer_step != 1 else None,
        config.expert_layer_period,
        config.moe_layer_start_index,
    )
    if any(pattern is not None for pattern in patterns):
        return [None] * count
    dense_before = config.first_k_dense_replace or 0
    step = max(1, config.decoder_sparse_step or 1)
    dense = set(config.mlp_only_layers or ())
    return [
        "dense" if n < dense_before or n in dense or (n + 1) % step else "moe" for n in range(count)
    ]


def _expert_count(config: Config) -> int | None:
    counts = (config.num_local_experts, config.num_experts, config.n_routed_experts)
    return next((count for count in counts if count is not None and count > 1), None)


def _count(attributed: Attributed, expected: Expected) -> Iterator[str]:
    verdict_of = verdicts(attributed.activities, expected)
    wanted = len(expected.kinds)
    counts = Counter(v.layers for v in verdict_of.values() if v.layers != wanted)
    if counts:
        usual, passes = counts.most_common(1)[0]
        yield (
            f"states {wanted} layers; {passes} of {len(verdict_of)} passes have {usual}: "
            "is it the config of this model, and is the whole model on this GPU?"
        )


def _kinds(attributed: Attributed, expected: Expected) -> Iterator[Doubt]:
    others = [v for v in verdicts(attributed.activities, expected).values() if v.differing]
    if others:
        first = others[0]
        number = first.differing[0]
        text = (
            f"states {expected.kinds[number]} for layer {number}; the kernels look like "
            f"{first.kinds[number]} ({len(first.differing)} of {len(expected.kinds)} layers differ)"
        )
        ruled_out = {f"{n} {verdict.kinds[n]}" for verdict in others for n in verdict.differing}
        layer = pl.concat_str("layer", pl.col("layer_kind").cast(pl.String), separator=" ")
        yield Doubt(text, layer.is_in(ruled_out))


def _latent(attributed: Attributed, config: Config) -> Iterator[Doubt]:
    role = pl.col("role").cast(pl.String)
    kind = pl.col("layer_kind").cast(pl.String).fill_null("")
    latent = role.is_in(_LATENT_ROLES)
    # Linear attention beside latent attention has projections as any other.
    plain = (role == "qkv") & ~kind.str.starts_with("linear_attention")
    if config.kv_lora_rank is None and attributed.activities.select(latent.any()).item():
        text = "states no latent attention (kv_lora_rank), but roles of MLA were found"
        yield Doubt(text, latent)
    elif config.kv_lora_rank is not None and attributed.activities.select(plain.any()).item():
        text = "states latent attention (kv_lora_rank), but projections look like plain ones"
        yield Doubt(text, plain)


def _experts(attributed: Attributed, config: Config) -> Iterator[Doubt]:
    """The router has one output per expert."""
    expected = _expert_count(config)
    rows = attributed.activities.filter(
        (pl.col("role").cast(pl.String) == "router")
        & (pl.col("category").cast(pl.String) == "gemm")
    )
    about = pl.col("group").cast(pl.String).is_in(_EXPERT_GROUPS)
    if rows.height and expected is None:
        yield Doubt("states no experts, but a router was found", about)
        return
    dims = take(attributed.profile.events["input_dims"], rows["op_row"]).cast(pl.String)
    outputs = Counter(
        shape.outer for text in dims.drop_nulls() if (shape := product_of(text)) is not None
    )
    if expected is not None and outputs and expected not in outputs:
        routed = outputs.most_common(1)[0][0]
        yield Doubt(f"states {expected} experts; the router has {routed} outputs", about)


def _heads(attributed: Attributed, config: Config) -> Iterator[Doubt]:
    """Heads of recorded attention calls, on each of the ranks."""
    ranks = max(1, attributed.profile.metadata.world_size or 1)
    heads = config.num_attention_heads
    rows = attributed.activities.filter(pl.col("category").cast(pl.String) == "attention")
    names = rows["op"].cast(pl.String)
    asked = rows.filter(names.str.contains("scaled_dot_product").fill_null(False))
    dims = take(attributed.profile.events["input_dims"], asked["op_row"]).cast(pl.String)
    shapes = (first_shape(text) for text in dims.drop_nulls().unique())
    head_counts = Counter(shape[1] for shape in shapes if shape is not None and len(shape) == 4)
    fitting = {heads, None if heads is None else heads // ranks}
    if heads is not None and head_counts and not fitting & set(head_counts):
        text = f"states {heads} attention heads; calls were recorded with {max(head_counts)}"
        yield Doubt(text, pl.col("group").cast(pl.String) == "attention")
