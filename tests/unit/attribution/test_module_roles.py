"""Roles by module names, in profiles with Python stacks."""

from __future__ import annotations

import polars as pl
import pytest

from solscope.attribution.link import link
from solscope.attribution.module_roles import module_votes
from solscope.attribution.modules import module_tree
from solscope.attribution.stacks import Stacks
from tests.making import attributed, event, profile

# Attention whose output projection is in a part of its own, and a feed-forward part.
LINEARS = {
    "Linear_0": ("XAttention_0", "XSelfAttention_0"),
    "Linear_1": ("XAttention_0", "XSelfAttention_0"),
    "Linear_2": ("XAttention_0", "XSelfOutput_0"),
    "Linear_3": ("XMLP_0",),
    "Linear_4": ("XMLP_0",),
}
ROLES = ["qkv", "qkv", "o_proj", "up_gate", "down"]


def stacked() -> pl.DataFrame:
    """Two layers with a launch in each linear module."""
    made = [event("python", "nn.Module: Model_0", 0, 10_000)]
    for layer in (0, 1):
        start = 100 + 4000 * layer
        made.append(event("python", f"nn.Module: XLayer_{layer}", start, 3900))
        for turn, (linear, above) in enumerate(LINEARS.items()):
            at = start + 10 + 500 * turn
            for depth, name in enumerate((*above, linear)):
                own = name.replace("_0", f"_{layer}") if name in above else f"{linear}{layer}"
                made.append(event("python", f"nn.Module: {own}", at + depth, 400 - 2 * depth))
            call = {"correlation": at}
            made.append(event("runtime", "cudaLaunchKernel", at + 10, 5, **call))
            made.append(event("kernel", "gemm_kernel", 20_000 + at, 30, **call))
    return profile(*made).events


@pytest.mark.parametrize(
    ("by_order", "role", "fits"),
    [
        ("o_proj", ROLES, [False, False, True, False, False]),
        ("q_b", [None, None, "o_proj", "up_gate", "down"], [None, None, False, False, False]),
        (None, ROLES, [None] * 5),
    ],
    ids=["overruled", "says more than modules", "alone"],
)
def test_linear_modules_vote(by_order: str | None, role: list[str], fits: list[bool]) -> None:
    events = stacked()
    activities = link(events).with_columns(pl.lit("gemm").alias("category"))
    roles = pl.Series("role", [by_order] * activities.height, dtype=pl.String)
    votes = module_votes(Stacks(events, activities), module_tree(events), roles)
    assert votes["module_role"].to_list() == role * 2
    assert votes["module_fits"].to_list() == fits * 2


def test_a_profile_without_stacks_has_no_votes() -> None:
    made = attributed(event("kernel", "gemm_kernel", 0, 10)).activities
    assert made["role_evidence"].to_list() == [None]
