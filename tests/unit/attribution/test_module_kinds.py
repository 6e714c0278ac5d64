"""Kinds of layers by module names, in profiles with Python stacks."""

from __future__ import annotations

import polars as pl
import pytest

from solscope.attribution.confidence import MODULES_AGREE, MODULES_ALONE, MODULES_DIFFER
from solscope.attribution.link import link
from solscope.attribution.module_kinds import with_module_kinds
from solscope.attribution.modules import module_tree
from solscope.attribution.stacks import Stacks
from tests.making import event, profile


def recorded(family: str, *parts: str) -> pl.DataFrame:
    """Two layers; each part has two linear modules and launches one kernel."""
    made = [event("python", f"nn.Module: {family}Model_0", 0, 100_000)]
    for layer in (0, 1):
        start = 100 + 40_000 * layer
        made.append(event("python", f"nn.Module: {family}DecoderLayer_{layer}", start, 39_000))
        for turn, part in enumerate(parts):
            at = start + 10 + 2000 * turn
            made.append(event("python", f"nn.Module: {family}{part}_{layer}", at, 1900))
            for linear in (0, 1):
                name = f"nn.Module: Linear_{layer}{turn}{linear}"
                made.append(event("python", name, at + 10 + 500 * linear, 400))
            made.append(event("runtime", "cudaLaunchKernel", at + 20, 5, correlation=at))
            made.append(event("kernel", "gemm_kernel", 200_000 + at, 30, correlation=at))
    return profile(*made).events


def voted(events: pl.DataFrame, by_order: list[str | None]) -> pl.DataFrame:
    """The vote of modules where the order of kernels says these kinds, one per kernel."""
    activities = link(events)
    per_layer = activities.height // 2
    table = activities.with_columns(
        pl.lit(1).alias("pass"),
        pl.Series("layer", [0] * per_layer + [1] * per_layer, dtype=pl.Int32),
        pl.Series("layer_kind", by_order * 2, dtype=pl.String).cast(pl.Categorical),
        pl.lit("by order").alias("kind_evidence"),
        pl.lit("module").alias("found_by"),
    )
    found = with_module_kinds(table, Stacks(events, activities), module_tree(events))
    return found.select(pl.col("layer_kind", "kind_evidence").cast(pl.String)).unique()


@pytest.mark.parametrize(
    ("family", "parts", "kind"),
    [
        ("Llama", ("Attention", "MLP"), "attention+dense"),
        ("Mixtral", ("Attention", "SparseMoeBlock"), "attention+moe"),
        ("Lfm2", ("ShortConv", "MLP"), "linear_attention+dense"),
        ("FalconMamba", ("Mixer",), "linear_attention+none"),
        ("RecurrentGemma", ("SdpaAttention", "Mlp"), "attention+dense"),
        ("Qwen3Next", ("GatedDeltaNet", "SparseMoeBlock"), "linear_attention+moe"),
        ("Bart", ("Attention", "CrossAttention", "FFN"), "attention+attention+dense"),
    ],
)
def test_classes_name_the_kind(family: str, parts: tuple[str, ...], kind: str) -> None:
    """The name of a family may sound like a part."""
    found = voted(recorded(family, *parts), [None] * len(parts))
    assert found.rows() == [(kind, MODULES_ALONE)]


def test_a_layer_has_one_kind_though_its_kernels_differ() -> None:
    events = recorded("Llama", "Attention", "MLP")
    assert voted(events, ["attention+dense", None]).rows() == [("attention+dense", MODULES_AGREE)]


def test_modules_overrule_the_order_of_kernels() -> None:
    events = recorded("Llama", "Attention", "MLP")
    assert voted(events, ["attention+none"] * 2).rows() == [("attention+dense", MODULES_DIFFER)]


def test_two_mixers_of_which_the_order_names_one_agree() -> None:
    events = recorded("FalconH1", "Attention", "Mixer", "MLP")
    assert voted(events, ["attention+dense"] * 3).rows() == [("attention+dense", MODULES_AGREE)]


def test_classes_that_name_no_mixer_do_not_vote() -> None:
    events = recorded("X", "Thing", "Other")
    assert voted(events, ["attention+dense"] * 2).rows() == [("attention+dense", "by order")]
