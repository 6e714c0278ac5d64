"""Observations of which a part was never recorded: what is that part worth to a diagnosis?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import msgspec

from solscope.diagnose.labels import BETWEEN, NO_SECTIONS
from solscope.readers.packed import Observations, Tile

Part = Literal["counters", "gpu_counters", "sections", "operators"]
PARTS: tuple[Part, ...] = get_args(Part)
"""All counters, those of the GPU, annotated sections, and time per host operator."""


def stripped(observed: Observations, without: Sequence[Part]) -> Observations:
    """The run without these parts."""
    replace = msgspec.structs.replace
    if "counters" in without:
        observed = replace(observed, counters=[], clocks=[])
    if "gpu_counters" in without:
        host = [counter for counter in observed.counters if counter.device is None]
        observed = replace(observed, counters=host)
    if "sections" in without:
        observed = replace(observed, sections=[], tiles=_without_sections(observed.tiles))
    if "operators" in without:
        observed = replace(observed, host_ops=[])
    return observed


def _without_sections(tiles: Sequence[Tile]) -> list[Tile]:
    """Idle time by sections, joined to what it is in a recording without any."""
    named = [tile for tile in tiles if tile.kind == "idle" and _from_section(tile.name)]
    if not named:
        return list(tiles)
    joined = [sum(values) for values in zip(*(tile.ns for tile in named), strict=True)]
    return [*(tile for tile in tiles if tile not in named), Tile("idle", NO_SECTIONS, joined)]


def _from_section(name: str) -> bool:
    return name in (BETWEEN, NO_SECTIONS, "gc", "io") or name.startswith("host:")
