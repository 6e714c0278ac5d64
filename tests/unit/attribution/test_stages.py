"""The stages one after the other, and what is left out where there is nothing for them to do."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import solscope
from solscope.attribution import attribute, stages
from solscope.attribution.classify import load_rules
from solscope.events import GPU_KINDS

RECORDINGS = ["tests/data/kineto_b200.json.gz", "tests/data/nsys_h100.sqlite"]


@pytest.mark.parametrize("decoder", [True, False])
@pytest.mark.parametrize("path", RECORDINGS)
def test_the_host_alone_gives_what_all_stages_give(path: str, decoder: bool) -> None:
    """With annotations of steps, modules and launches, but nothing that ran on a GPU."""
    whole = solscope.open(path)
    events = whole.events.filter(~pl.col("kind").is_in(GPU_KINDS))
    assert not events.is_empty()
    found = attribute(replace(whole, events=events))
    activities, steps = stages._placed(events, load_rules(), [whole], decoder)
    assert_frame_equal(found.activities, activities)
    assert_frame_equal(found.steps, steps)


def test_a_single_activity_is_attributed() -> None:
    whole = solscope.open(RECORDINGS[0])
    for kind in whole.events.filter(pl.col("kind").is_in(GPU_KINDS))["kind"].unique():
        events = whole.events.filter(pl.col("kind") == kind).head(1)
        assert attribute(replace(whole, events=events)).activities.height == 1
