"""Where shapes were seen: in which profiles, phases and roles, and by which kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from solscope.corpus.aggregates.overall import FACTS
from solscope.corpus.aggregates.part import Part, first_of
from solscope.corpus.queries.call_times import MOST_PROFILES
from solscope.corpus.queries.select import UNKNOWN, Selection
from solscope.corpus.queries.selected_parts import SelectedPart, SelectedParts

_NAMED = 8
"""Names of a kind that provenance lists at most."""
_KEYS = {"operator": pl.String(), "axes": pl.String()}
_NUMBERS = {"number": pl.UInt8(), "kind": pl.UInt32()}
_KERNELS = pl.Schema(
    {
        "shape": pl.UInt32(),
        **dict.fromkeys(("role", "kernel"), pl.String()),
        **dict.fromkeys(("calls", "time_ns"), pl.Int64()),
    }
)
Ints = npt.NDArray[np.int64]


class ShapeOrigin(msgspec.Struct, frozen=True):
    """Where a shape was seen."""

    profiles: int
    gpus: list[str]
    models: list[str]
    frameworks: list[str]
    phases: list[str]
    roles: list[str]
    kernels: list[str]
    """Kernels that led its calls, most time first."""
    example: str
    """Id of the profile in which it takes most time."""


Origins = dict[tuple[str, str], ShapeOrigin]


def shape_origins(
    selection: Selection, parts: SelectedParts, shapes: Sequence[tuple[str, str]]
) -> Origins:
    """Where shapes, as operator and axes, were seen.

    GPUs, models, frameworks, phases and the number of profiles are of all profiles. Roles and
    kernels are so as well where all profiles were selected, and otherwise those of the example of
    each shape and of at most `MOST_PROFILES` others.
    """
    keys = pl.DataFrame(list(shapes), schema=_KEYS, orient="row").with_row_index("shape")
    origins = _Seen(selection, keys)
    for some in parts:
        origins.take(some)
    seen = origins.facts()
    if origins.all_whole:
        kernels = pl.concat([_KERNELS.to_frame(), *origins.kernels])
    else:
        kernels = origins.read_kernels(parts, seen["example"])
    rows = keys.join(seen, on="shape").join(_named_kernels(kernels), on="shape", how="left")
    lists = [pl.col(name).fill_null([]) for name in ("roles", "kernels")]
    return {
        (row.pop("operator"), row.pop("axes")): ShapeOrigin(**row)
        for row in rows.with_columns(lists).drop("shape").iter_rows(named=True)
    }


class _Seen:
    """Goes through the parts once."""

    def __init__(self, selection: Selection, keys: pl.DataFrame) -> None:
        self.selection, self.keys = selection, keys
        profiles = selection.profiles.select("id", *FACTS)
        self.kinds = profiles.select(FACTS).unique(maintain_order=True).with_row_index("kind")
        numbered = profiles.join(self.kinds, on=FACTS, nulls_equal=True, maintain_order="left")
        self.kind_of, self.ids = numbered["kind"], profiles["id"]
        self.counted: list[pl.DataFrame] = []
        """`shape`, `profiles`, and the longest one: `example` and `time_ns`."""
        self.of_kind: list[pl.DataFrame] = []
        """`shape` and the facts of a profile that has it."""
        self.phases: list[pl.DataFrame] = []
        """`shape` and `phase`."""
        self.kernels: list[pl.DataFrame] = []
        """Rows of `Part.kernels` by `shape`."""
        self.all_whole = True

    def take(self, some: SelectedPart) -> None:
        """Add one part."""
        wanted, phases = self._wanted(some.part), self._phases(some.part)
        if some.is_whole:
            self._take_whole(some.part, wanted, phases)
        else:
            self.all_whole = False
            self._take_cells(some, wanted, phases)

    def _wanted(self, part: Part) -> pl.DataFrame:
        """Names of a part that are asked for: `name` and `shape`."""
        names = part.names.rename({"name:0": "operator", "name:1": "axes"})
        wanted = names.with_row_index("name").join(self.keys, on=["operator", "axes"])
        return wanted.select("name", "shape")

    def _phases(self, part: Part) -> pl.DataFrame:
        """Phases of a part that count: `number` and `phase`."""
        phases = part.phases.with_row_index("number").cast({"number": pl.UInt8})
        if self.selection.phase is not None:
            phases = phases.filter(pl.col("phase").fill_null(UNKNOWN) == self.selection.phase)
        return phases

    def read_kernels(self, parts: SelectedParts, examples: pl.Series) -> pl.DataFrame:
        """Rows like those of `Part.kernels`, of the examples and some other profiles."""
        used = self.ids.is_in(examples.unique().implode()).to_numpy().copy()
        used[:MOST_PROFILES] = True
        found = [_KERNELS.to_frame()]
        for some in parts:
            entries = np.flatnonzero((some.at >= 0) & used[some.at])
            if entries.size:
                numbers = self._phases(some.part)["number"].to_list()
                rows = some.part.kernel_rows(entries).filter(pl.col("phase").is_in(numbers))
                found.append(
                    rows.join(self._wanted(some.part), on="name").select(*_KERNELS.names())
                )
        return pl.concat(found)

    def _take_whole(self, part: Part, wanted: pl.DataFrame, phases: pl.DataFrame) -> None:
        self.counted.append(
            part.overall.join(wanted, on="name").select(
                "shape", profiles="with_rows", example="longest", time_ns="longest_ns"
            )
        )
        seen = part.seen.rename({"phase": "number"}).join(wanted, on="name")
        self.of_kind.append(seen.select("shape", *FACTS).unique())
        self.phases.append(
            seen.select("shape", "number").unique().join(phases, on="number").drop("number")
        )
        self.kernels.append(part.kernels.join(wanted, on="name").select(*_KERNELS.names()))

    def _take_cells(self, some: SelectedPart, wanted: pl.DataFrame, phases: pl.DataFrame) -> None:
        cells = some.part.cells(some.at, "entry", "name", "phase", "time_ns")
        shape = np.full(some.part.names.height, -1, np.int64)
        shape[wanted["name"].to_numpy()] = wanted["shape"].to_numpy()
        profile_rows, shapes = some.at[cells["entry"].to_numpy()], shape[cells["name"].to_numpy()]
        there = cells["phase"].is_in(phases["number"].to_list()).to_numpy()
        chosen = np.flatnonzero((profile_rows >= 0) & (shapes >= 0) & there)
        profile_rows, shapes, cells = profile_rows[chosen], shapes[chosen], cells[chosen]
        self.phases.append(
            _pairs(shapes, cells["phase"].to_numpy(), "number")
            .join(phases, on="number")
            .drop("number")
        )
        kinds = _pairs(shapes, self.kind_of.to_numpy()[profile_rows], "kind")
        self.of_kind.append(kinds.join(self.kinds, on="kind").drop("kind"))
        self.counted.append(self._longest(profile_rows, shapes, cells["time_ns"].to_numpy()))

    def _longest(self, profile_rows: Ints, shapes: Ints, time_ns: Ints) -> pl.DataFrame:
        """By shape: profiles of one part, and the one with most time; phases are put together."""
        new = first_of(profile_rows, shapes)
        time = np.add.reduceat(time_ns, new) if new.size else new
        longest = pl.col("time_ns") == pl.col("time_ns").max()
        return (
            pl.DataFrame({"shape": shapes[new], "at": profile_rows[new], "time_ns": time})
            .group_by(pl.col("shape").cast(self.keys["shape"].dtype))
            .agg(
                pl.len().cast(pl.Int64).alias("profiles"),
                pl.col("at").filter(longest).min(),
                pl.col("time_ns").max(),
            )
            .with_columns(pl.lit(self.ids).gather(pl.col("at")).alias("example"))
            .select("shape", "profiles", "example", "time_ns")
        )

    def facts(self) -> pl.DataFrame:
        """What all parts together say, by `shape`."""
        lists = {"gpu": "gpus", "model": "models", "framework": "frameworks"}
        named = pl.concat(self.phases).drop_nulls().unique().group_by("shape")
        counted = pl.concat(self.counted).sort("time_ns", "example", descending=[True, False])
        of_kind = pl.concat(self.of_kind).unique().group_by("shape")
        return (
            counted.group_by("shape", maintain_order=True)
            .agg(pl.col("profiles").sum(), pl.col("example").first())
            .join(
                of_kind.agg(
                    pl.col(fact).drop_nulls().unique().sort().head(_NAMED).alias(name)
                    for fact, name in lists.items()
                ),
                on="shape",
            )
            .join(
                named.agg(pl.col("phase").unique().sort().head(_NAMED).alias("phases")),
                on="shape",
                how="left",
            )
            .with_columns(pl.col("phases").fill_null([]))
        )


def _pairs(shapes: Ints, others: npt.NDArray[Any], name: str) -> pl.DataFrame:
    """Distinct pairs of a shape and another small number."""
    size = int(others.max(initial=0)) + 1
    there = np.zeros((int(shapes.max(initial=-1)) + 1) * size, np.bool_)
    there[shapes * size + others] = True
    pairs = np.flatnonzero(there)
    frame = pl.DataFrame({"shape": pairs // size, name: pairs % size})
    return frame.cast({"shape": pl.UInt32, name: _NUMBERS[name]})


def _named_kernels(rows: pl.DataFrame) -> pl.DataFrame:
    """Roles and kernels of each shape, those of the longest rows first."""
    return (
        rows.group_by("shape", "role", "kernel")
        .agg(pl.col("calls").sum(), pl.col("time_ns").max())
        .sort("time_ns", "kernel", descending=[True, False])
        .group_by("shape")
        .agg(
            pl.col("role").drop_nulls().unique().sort().head(_NAMED).alias("roles"),
            pl.col("kernel")
            .filter(pl.col("calls") > 0)
            .unique(maintain_order=True)
            .head(_NAMED)
            .alias("kernels"),
        )
    )
