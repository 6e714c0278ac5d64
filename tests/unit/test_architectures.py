"""Layers and roles of Hugging Face architectures, against the modules in their Python stacks.

The truth is read from the recorded stacks; what is judged sees a copy of the profile without them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import polars as pl
import pytest

import solscope
from solscope.attribution.link import link
from solscope.attribution.stacks import enclosing
from solscope.profile import Profile
from tests.recordings import recording
from tests.sampling import some

LAYERS = {
    "bamba": 6, "cohere2": 6, "falconh1": 4, "gemma3": 6, "glm4moe": 4, "gptneox": 6, "gptoss": 4,
    "llama4": 4, "mixtral": 4, "nemotron": 6, "olmo2": 6, "opt": 6, "phi3": 6, "starcoder2": 6,
}  # fmt: skip
IN_REPOSITORY = {
    "apertus": 6, "arcee": 6, "cohere": 6, "dots1": 4, "ernie45moe": 4, "exaone4": 6, "falcon": 6,
    "gemma2": 6, "granitemoehybrid": 4, "jetmoe": 4, "lfm2": 6, "olmo": 6, "phimoe": 4, "qwen3": 6,
}  # fmt: skip
"""Recordings of `results/architectures` that are right, so that a public clone notices when one is
no longer; `scripts/calibrate_layers.py` scores all of them, mistakes included."""
LAYERS |= IN_REPOSITORY
RESULTS = Path(__file__).parents[2] / "results" / "architectures"
_LAYER = re.compile(r"^nn\.Module: \w*(?:DecoderLayer|NeoXLayer)_(\d+)$")


@cache
def recorded(name: str) -> Profile:
    file = f"{name}-{LAYERS[name]}l.stack.json"
    own = RESULTS / f"{file}.zst"
    return solscope.open(own if own.exists() else recording(f"h200/architectures/{file}.gz"))


@cache
def without_stacks(name: str) -> pl.DataFrame:
    profile = recorded(name)
    bare = replace(profile, events=profile.events.filter(pl.col("kind") != "python"))
    return solscope.attribute(bare).activities


def module_around(name: str, pattern: re.Pattern[str]) -> pl.Series:
    """Name of the innermost module that matches, around the launch of each activity."""
    events = recorded(name).events
    frames = events.filter(pl.col("kind") == "python")["name"].cast(pl.String).unique()
    names = {frame for frame in frames if pattern.search(frame)}
    rows = enclosing(events, link(events), "python", names)
    return events["name"].gather(rows).cast(pl.String)


@pytest.mark.parametrize("name", some(LAYERS, 3))
def test_layers_are_those_of_the_modules(name: str) -> None:
    names = module_around(name, _LAYER)
    order = {
        module: number
        for number, module in enumerate(names.drop_nulls().unique(maintain_order=True))
    }
    truth = names.replace_strict(order, default=None, return_dtype=pl.Int32)
    found = without_stacks(name)
    assert len(order) == LAYERS[name]
    # Copies between host and device run beside the model and have no layer without stacks.
    kernels = found["kind"] == "kernel"
    wrong = found.filter(kernels & ~found["layer"].eq_missing(truth))
    assert 1000 * int(wrong["dur_ns"].sum()) <= int(found["dur_ns"].sum())


@pytest.mark.parametrize("name", some(LAYERS, 3))
def test_roles_of_products_are_those_of_their_modules(name: str) -> None:
    """In every attention and dense feed-forward module the last linear layer is its output."""
    linear = module_around(name, re.compile(r"^nn\.Module: Linear_\d+$"))
    inside = {
        part: module_around(name, re.compile(rf"^nn\.Module: \w*{part}_\d+$")).is_not_null()
        for part in ("Attention", "Mixer", "MLP")
    }
    found = without_stacks(name).with_columns(linear.alias("linear"))
    for part, roles in {
        "Attention": {"qkv", "o_proj"},
        "Mixer": {"qkv", "o_proj"},
        "MLP": {"up_gate", "down", "shared_expert"},
    }.items():
        seen = found.filter(pl.col("linear").is_not_null() & inside[part])
        # Attention that chooses among experts is not recognized, and claims no roles.
        unknown = {"other"} if name == "jetmoe" and part == "Attention" else set()
        assert set(seen["role"].unique()) <= roles | unknown
