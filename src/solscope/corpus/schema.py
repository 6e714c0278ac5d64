"""The tables of a store: columns, types and meaning, declared once.

`profiles` has one row per profile and is the commit point: rows of the other tables count only when
their `entry` is that of a row in `profiles`. An entry is a name drawn for one attempt to add one
profile, so what a killed attempt left behind never mixes with a later one.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from solscope.events import EVENT_COLUMNS

SCHEMA_VERSION = 2
"""Stored in the metadata of `profiles`; `corpus migrate` brings an older store to it."""
VERSION_KEY = "solscope.schema"
REDACT_KEY = "solscope.redact"
"""Property of the table `profiles`: `true` where profiles are added only without private text."""


class StoreColumn(NamedTuple):
    """One declared column."""

    name: str
    dtype: pl.DataType
    meaning: str


_TEXT, _COUNT = pl.String(), pl.Int64()
_ENTRY = StoreColumn("entry", _TEXT, "The attempt that added the profile; `profiles` names it.")

PROFILE_COLUMNS = (
    StoreColumn("id", _TEXT, "SHA-256 of the file's content, hexadecimal."),
    _ENTRY,
    StoreColumn("added_ns", _COUNT, "When it was added, Unix time, ns."),
    StoreColumn("file", _TEXT, "The file as it was named."),
    StoreColumn("file_bytes", _COUNT, "Size of the file."),
    StoreColumn("format", _TEXT, "Reader that opened it."),
    StoreColumn("solscope", _TEXT, "Version of solscope that read it."),
    StoreColumn("model", _TEXT, "Model, from the trace, a config, a sidecar or a tag."),
    StoreColumn("framework", _TEXT, "vllm, sglang, ...; from the trace or a tag."),
    StoreColumn("version", _TEXT, "Version of the framework, from a sidecar or a tag."),
    StoreColumn("gpu", _TEXT, "Hardware file of the device, or the device's name."),
    StoreColumn("hardware", _TEXT, "Hardware file that the bounds are for; null without bounds."),
    StoreColumn("tp", _COUNT, "Tensor parallelism, from a sidecar or a tag."),
    StoreColumn("ep", _COUNT, "Expert parallelism, from a sidecar or a tag."),
    StoreColumn("dp", _COUNT, "Data parallelism, from a sidecar or a tag."),
    StoreColumn("rank", _COUNT, "Rank of the process."),
    StoreColumn("world_size", _COUNT, "Ranks of the run."),
    StoreColumn("host", _TEXT, "Host, where the trace names it."),
    StoreColumn("recorded_ns", _COUNT, "When the first GPU activity ran, Unix time, ns."),
    StoreColumn(
        "tags",
        _TEXT,
        "Other tags, a JSON object of texts; `truncated` where the file breaks off before its end.",
    ),
    StoreColumn("events", _COUNT, "Events in the file."),
    StoreColumn("kept_events", _COUNT, "Rows in `events`; 0 unless events are kept."),
    StoreColumn("activities", _COUNT, "GPU activities."),
    StoreColumn("gpu_ns", _COUNT, "Sum of the durations of all GPU activities."),
    StoreColumn("prefill_ns", _COUNT, "Part of `gpu_ns` in prefill."),
    StoreColumn("decode_ns", _COUNT, "Part of `gpu_ns` in decode."),
    StoreColumn("mixed_ns", _COUNT, "Part of `gpu_ns` in mixed steps."),
    StoreColumn("steps", _COUNT, "Rows in `steps`."),
    StoreColumn("times_rows", _COUNT, "Rows in `times`."),
    StoreColumn("times_sha256", _TEXT, "Hash of those rows; `corpus verify` compares it."),
    StoreColumn("steps_sha256", _TEXT, "Hash of the rows in `steps`."),
    StoreColumn("batch", _COUNT, "The commit that added it; null before schema 2."),
)

KEY_COLUMNS = (
    StoreColumn("phase", _TEXT, "prefill, decode or mixed; null when not known."),
    StoreColumn("layer_kind", _TEXT, "Kind of layer; null outside layers."),
    StoreColumn("role", _TEXT, "Role of the kernel."),
    StoreColumn("category", _TEXT, "Category of the kernel."),
    StoreColumn("operator", _TEXT, "Operator of the catalog; null when not known."),
    StoreColumn("op", _TEXT, "Operator as recorded."),
    StoreColumn("axes", _TEXT, "Axes of the operator, JSON with sorted keys; null without shapes."),
    StoreColumn("source", _TEXT, "Where the axes come from: recorded, inferred or config."),
    StoreColumn("kernel", _TEXT, "Kernel name."),
)
TIME_COLUMNS = (
    _ENTRY,
    *KEY_COLUMNS,
    StoreColumn("launches", _COUNT, "Activities of this kernel."),
    StoreColumn("time_ns", _COUNT, "Their time; all rows of a profile add up to `gpu_ns`."),
    StoreColumn("calls", _COUNT, "Calls of the operator that this kernel leads (is longest in)."),
    StoreColumn("call_ns", _COUNT, "Time of those calls, with all their kernels."),
    StoreColumn("bound_ns", _COUNT, "Least time of those calls; null when not known."),
    StoreColumn("expected_ns", _COUNT, "The same with uniform routing; null when equal."),
    StoreColumn("limiter", _TEXT, "Term that sets the bound."),
    StoreColumn(
        "durations_ns", pl.List(pl.Int64()), "Distinct call times, to 7 significant bits, sorted."
    ),
    StoreColumn("durations_calls", pl.List(pl.Int64()), "How many calls took each of them."),
)
STEP_COLUMNS = (
    _ENTRY,
    StoreColumn("step", _COUNT, "Number of the step."),
    StoreColumn("process", _COUNT, "Process or rank in a merged profile, from 0."),
    StoreColumn("phase", _TEXT, "prefill, decode or mixed; null when not known."),
    StoreColumn("found_by", _TEXT, "How the step was found."),
    StoreColumn("cut", pl.Boolean(), "The profile shows it only in part."),
    StoreColumn("requests", _COUNT, "Requests in the step, where known."),
    StoreColumn("tokens", _COUNT, "Tokens in the step, where known."),
    StoreColumn("dur_ns", _COUNT, "From its first start to its last end on the GPU."),
    StoreColumn("gpu_ns", _COUNT, "Sum of the durations of its GPU activities."),
)
EVENT_STORE_COLUMNS = (
    _ENTRY,
    *(
        StoreColumn(c.name, c.dtype if c.dtype.is_integer() else _TEXT, c.meaning)
        for c in EVENT_COLUMNS
    ),
)
BATCH_COLUMNS = (
    StoreColumn("batch", _COUNT, "Number of the commit to `profiles`, from 1 without gaps."),
    StoreColumn("kind", _TEXT, "add, remove, sweep, migrate or accept (a loss)."),
    StoreColumn("of_batch", _COUNT, "The batch whose profiles it added or removed; 0: schema 1."),
    StoreColumn("profiles", _COUNT, "Profiles added, or removed as a negative number."),
    StoreColumn(
        "writer", _TEXT, "Drawn for each commit; `repair` where a repair wrote the record."
    ),
    StoreColumn("written_ns", _COUNT, "When, by the clock of the writer, Unix time, ns."),
)

TABLES = {
    "times": TIME_COLUMNS,
    "steps": STEP_COLUMNS,
    "events": EVENT_STORE_COLUMNS,
    "profiles": PROFILE_COLUMNS,
}
"""Tables of profiles, in the order in which they are written: `profiles` last."""
BATCHES = "batches"
"""One row per commit to `profiles`, written after it: what must be there, for `corpus verify`."""
ALL_TABLES = {**TABLES, BATCHES: BATCH_COLUMNS}
ROW_COUNTS = {"times": "times_rows", "steps": "steps", "events": "kept_events"}
"""The column of `profiles` that says how many rows a profile has in each other table."""
HASHES = {"times": "times_sha256", "steps": "steps_sha256"}
"""The column of `profiles` that has the hash of its rows in another table."""
KEYS = tuple(column.name for column in KEY_COLUMNS)
METADATA = ("model", "framework", "version", "gpu", "tp", "ep", "dp", "host")
"""Columns of `profiles` that a sidecar or a tag may set; `date` sets `recorded_ns`."""


def schema(table: str) -> pl.Schema:
    """The columns of one table."""
    return pl.Schema({column.name: column.dtype for column in ALL_TABLES[table]})


def plain_text(path: str) -> str:
    """A path as `profiles` has it: bytes of a name that are not text become `?`."""
    return path.encode(errors="replace").decode()
