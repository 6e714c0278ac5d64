"""How a process group is written: by its ranks where they are recorded, else by its name.

torch names groups by numbers, and the default one "0": a name is marked as one, so that it is not
taken for a list of ranks.
"""

from __future__ import annotations

import polars as pl

NAMED = "group "
"""What a name begins with."""


def group_labels(recorded: pl.DataFrame) -> pl.Series:
    """`0,1,2,3` where ranks are recorded, else `group NAME`; null where neither is."""
    ranks = pl.col("process_group_ranks").str.replace_all(r"[\[\]\s]", "")
    name = pl.concat_str(pl.lit(NAMED), pl.col("process_group"))
    label = pl.when(ranks != "").then(ranks).otherwise(name)
    return recorded.select(label.alias("group")).to_series()


def members(group: str | None) -> tuple[int, ...] | None:
    """The ranks of a group; null for a name, and for a list that torch cut short with `...`."""
    numbers = group.split(",") if group else []
    if not numbers or not all(number.isdecimal() for number in numbers):
        return None
    return tuple(int(number) for number in numbers)
