"""What was recorded into graphs: the launches between the begin and the end of each capture.

Serving engines capture one graph per batch size at start-up, and can profile that (`capture_traces`
of vLLM and SGLang). Nothing runs on the GPU during a capture, but every launch call is there, with
its operator and inputs. ROCm also records which kernel a call launches, CUDA does not.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from solscope.arrays import take
from solscope.attribution.classify import classify
from solscope.attribution.link import operators_of
from solscope.attribution.rule_set import RuleSet
from solscope.attribution.stacks import enclosing
from solscope.events import GPU_KINDS, LAUNCH_KINDS, THREAD, correlation_key
from solscope.patterns import lazy_pattern
from solscope.profile import Profile
from solscope.queries import collect

NODE_KINDS = pl.Enum(GPU_KINDS)
_BEGIN, _END = "StreamBeginCapture", "StreamEndCapture"
_BATCH = lazy_pattern(r"^capture_(?P<batch>\d{1,9})_")
"""The annotation that vLLM and SGLang put around the capture of one batch size."""
_BATCH_IN_FILE = lazy_pattern(r"^bs_(?P<batch>\d{1,9})_")
"""SGLang's files, one per batch size."""


def holds_captures(profile: Profile) -> bool:
    """Whether graphs were captured while this profile was recorded."""
    return bool(profile.events["name"].cast(pl.String).str.contains(_BEGIN, literal=True).any())


def captured(profile: Profile, rules: RuleSet) -> pl.DataFrame:
    """One row per launch that became a node of a graph, in the order of the calls.

    `capture` counts the captures, `batch` is the size that each was made for (null where nothing
    says it); `name` is null where the call does not name its kernel, and `category` is that of the
    operator. The other columns are those that lenders need (`borrow`).
    """
    events = profile.events
    calls = _node_calls(events, _intervals(events))
    calls = operators_of(events, calls)
    calls = calls.with_columns(
        take(events["name"], calls["op_row"]).alias("op"), _batches(profile, calls)
    )
    asked = calls.select("kind", pl.lit("").alias("name"), "op")
    return calls.with_columns(classify(asked, rules)["category"])


def _intervals(events: pl.DataFrame) -> pl.DataFrame:
    """From the end of each call that begins a capture to the next call that ends one."""
    text = pl.col("name").cast(pl.String)
    calls = collect(
        events.lazy()
        .with_row_index("begin_row")
        .filter(pl.col("kind").is_in(LAUNCH_KINDS) & pl.col("start_ns").is_not_null())
        .filter(text.str.contains(f"{_BEGIN}|{_END}"))
        .select("begin_row", "start_ns", "dur_ns", *THREAD, begins=text.str.contains(_BEGIN))
        .sort("start_ns", maintain_order=True)
    )
    ends = pl.when(~pl.col("begins")).then("start_ns")
    following = ends.shift(-1).over(THREAD).alias("until_ns")
    return (
        calls.with_columns(following)  # of two beginnings in a row, the first was abandoned
        .filter(pl.col("begins") & pl.col("until_ns").is_not_null())
        .select(
            "begin_row",
            _thread(),
            (pl.col("start_ns") + pl.col("dur_ns").fill_null(0)).alias("from_ns"),
            "until_ns",
        )
        .with_row_index("capture")
    )


def _node_calls(events: pl.DataFrame, intervals: pl.DataFrame) -> pl.DataFrame:
    """Calls inside a capture that launch, copy or fill, and did nothing on the GPU themselves."""
    name = pl.col("name").cast(pl.String)
    kind = (
        pl.when(name.str.contains("GraphLaunch|LaunchHostFunc"))
        .then(None)
        .when(name.str.contains("Launch", literal=True))
        .then(pl.lit("kernel"))
        .when(name.str.contains("Memcpy", literal=True))
        .then(pl.lit("memcpy"))
        .when(name.str.contains("Memset", literal=True))
        .then(pl.lit("memset"))
    )
    gpu = events.filter(pl.col("kind").is_in(GPU_KINDS))
    key = correlation_key(gpu)
    calls = collect(
        events.lazy()
        .with_row_index("launch_row")
        .filter(pl.col("kind").is_in(LAUNCH_KINDS) & pl.col("start_ns").is_not_null())
        .with_columns(kind.cast(NODE_KINDS).alias("kind"), pl.col("launched").alias("name"))
        .filter(pl.col("kind").is_not_null())
        .join(gpu.lazy().select(key).unique(), on=key, how="anti", nulls_equal=True)
        # A runtime call and the driver call inside it share their id.
        .unique(["rank", "pid", "correlation"], keep="first", maintain_order=True)
        .select("launch_row", "kind", "name", "correlation", "external_id", "start_ns", *THREAD)
        .with_columns(_thread())
        .sort("start_ns", maintain_order=True)
    )
    inside = calls.join_asof(
        intervals.sort("from_ns"),
        left_on="start_ns",
        right_on="from_ns",
        by="thread",
        strategy="backward",
        check_sortedness=False,
    )
    return inside.filter(pl.col("start_ns") < pl.col("until_ns")).drop("until_ns", "thread")


def _thread() -> pl.Expr:
    """A host thread as one value: joins do not match the null of an unknown rank."""
    return pl.concat_str(pl.col(THREAD).fill_null(-1), separator=" ").alias("thread")


def _batches(profile: Profile, calls: pl.DataFrame) -> pl.Series:
    """The batch size of each call's capture, from its annotation or the name of the file."""
    events = profile.events
    begun = calls.select(launch_row="begin_row").unique(maintain_order=True)
    notes = [
        name
        for name in events.filter(pl.col("kind") == "annotation")["name"].cast(pl.String).unique()
        if name is not None and _BATCH.match(name)
    ]
    rows = enclosing(events, begun, "annotation", set(notes))
    stated = take(events["name"], rows).cast(pl.String).to_list()
    file = _BATCH_IN_FILE.match(Path(profile.path).name)
    matches = [_BATCH.match(name) if name is not None else file for name in stated]
    sizes = [None if m is None else int(m["batch"]) for m in matches]
    batch_of = begun.with_columns(pl.Series("batch", sizes, dtype=pl.Int64))
    joined = calls.select(launch_row="begin_row").join(
        batch_of, on="launch_row", how="left", maintain_order="left"
    )
    return joined["batch"]
