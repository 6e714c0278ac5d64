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
from tests.making import attributed, event

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


@pytest.mark.parametrize("kind", GPU_KINDS)
def test_a_single_activity_is_attributed(kind: str) -> None:
    assert attributed(event(kind, "name", 0, 10)).activities["kind"].to_list() == [kind]
