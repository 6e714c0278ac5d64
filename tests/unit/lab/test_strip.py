from __future__ import annotations

import click
import msgspec

from solscope.cli.commands.lab.results import score
from solscope.lab.strip import PARTS, stripped
from solscope.readers.packed import Tile
from tests.unit.lab.made import observations


def test_counters() -> None:
    assert [c.device for c in observations().counters] == [None, 0]
    assert stripped(observations(), ["counters"]).counters == []
    assert [c.device for c in stripped(observations(), ["gpu_counters"]).counters] == [None]


def test_without_sections_their_idle_time_is_the_host() -> None:
    run = observations(steps=2)
    tiles = [
        Tile("compute", "gemm", [5, 6]),
        Tile("idle", "host:decode", [1, 2]),
        Tile("idle", "gc", [10, 0]),
        Tile("idle", "sync", [3, 3]),
        Tile("idle", "between_steps", [100, 200]),
    ]
    bare = stripped(msgspec.structs.replace(run, tiles=tiles), ["sections"])
    assert bare.sections == []
    assert bare.tiles == [tiles[0], tiles[3], Tile("idle", "host", [111, 202])]


def test_nothing_taken_away_changes_nothing() -> None:
    assert stripped(observations(), []) == observations()


def test_the_command_knows_all_parts() -> None:
    (option,) = [p for p in score.params if p.name == "without"]
    assert isinstance(option.type, click.Choice)
    assert tuple(option.type.choices) == PARTS
