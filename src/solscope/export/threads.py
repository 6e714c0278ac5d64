"""Processes and threads of an exported trace: where a viewer shows each event.

Host events keep their process and thread, GPU events get a process per device and a thread per
stream, added tracks a process "solscope GPU n". Ranks of a merged trace are distinguished in the
process (`[rank 1] 123`), as SGLang does it and as `solscope.open` reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec
import polars as pl

from solscope.export.lanes import lanes_of
from solscope.profile import Profile

Side = Literal["solscope", "gpu", "host"]
_SIDES: tuple[Side, ...] = ("solscope", "gpu", "host")
_ON_GPU = ("kernel", "memcpy", "memset", "graph", "sync", "gpu_annotation")
# What a later reader finds by thread stays on its thread when two events overlap only in part.
_WEIGHT = {"cpu_op": 1, "annotation": 2, "runtime": 3, "driver": 3}
_KEYS = ["rank", "side", "process", "thread", "sort"]
_NAMELESS = 1 << 20
"""First number for processes without one; small numbers would be read as devices."""


class Process(NamedTuple):
    """One process: a device, a host process, or the tracks added for a device."""

    side: Side
    rank: int | None
    number: int | None


class Threads:
    """Gives out process and thread numbers, and remembers the names that belong to them."""

    def __init__(self, profile: Profile) -> None:
        self._labels = {device.ordinal: device.label for device in profile.metadata.devices}
        pids = profile.events["pid"].unique().drop_nulls().to_list()
        self._pids = {Process("host", None, pid): pid for pid in pids}
        self._taken = set(pids)
        self._tids: dict[Process, dict[int, str]] = {}

    def pid(self, process: Process) -> str:
        """The process as JSON: a number, or a text with the rank."""
        bare = process._replace(rank=None)
        if bare not in self._pids:
            wanted = process.number if process.side == "gpu" else None
            number = _NAMELESS if wanted is None else wanted
            while number in self._taken:
                number += 1
            self._taken.add(number)
            self._pids[bare] = number
        number = self._pids[bare]
        return str(number) if process.rank is None else f'"[rank {process.rank}] {number}"'

    def tid(self, process: Process, wanted: int | None, name: str) -> int:
        """A thread of the process, with the number that is wanted if it is free."""
        tids = self._tids.setdefault(process, {})
        tid = max(tids, default=0) + 1 if wanted is None or wanted in tids else wanted
        tids[tid] = name
        return tid

    def metadata(self, first: int = 0) -> Iterator[str]:
        """Names and order of all processes and threads, as metadata events; from `first` on."""
        order = sorted(self._tids, key=lambda p: (p.rank or 0, _SIDES.index(p.side), p.number or 0))
        for sort_index, process in enumerate(order, first):
            pid = self.pid(process)
            yield _named("process_name", pid, 0, "name", self._name(process))
            yield _named("process_sort_index", pid, 0, "sort_index", sort_index)
            for index, (tid, name) in enumerate(self._tids[process].items()):
                yield _named("thread_name", pid, tid, "name", name)
                yield _named("thread_sort_index", pid, tid, "sort_index", index)

    def _name(self, process: Process) -> str:
        rank = "" if process.rank is None else f"rank {process.rank} "
        if process.side == "host":
            return f"{rank}host process {'' if process.number is None else process.number}".strip()
        number = "" if process.number is None else f" {process.number}"
        label = self._labels.get(-1 if process.number is None else process.number)
        if process.side == "solscope" or label is None:
            return f"{'solscope ' if process.side == 'solscope' else ''}{rank}GPU{number}"
        return f"{rank}GPU{number}: {label}"


def place_events(events: pl.DataFrame, threads: Threads) -> pl.DataFrame:
    """Events that have a start, with `row`, `out_pid` and `out_tid` (as JSON) added."""
    on_gpu = pl.col("kind").is_in(_ON_GPU)
    kind = pl.col("kind").cast(pl.String)
    table = (
        events.with_row_index("row")
        .filter(pl.col("start_ns").is_not_null())
        .with_columns(
            pl.col("dur_ns").fill_null(0),
            pl.when(on_gpu).then(pl.lit("gpu")).otherwise(pl.lit("host")).alias("side"),
            pl.when(on_gpu).then("device").otherwise("pid").cast(pl.Int64).alias("process"),
            pl.when(on_gpu).then("stream").otherwise("tid").alias("thread"),
            pl.when(kind.is_in(["sync", "gpu_annotation"])).then(kind).alias("sort"),
            kind.replace_strict(_WEIGHT, default=0, return_dtype=pl.Int64).alias("weight"),
        )
    )
    table = table.with_columns(lanes_of(table, _KEYS))
    keys = [*_KEYS, "lane"]
    used = table.select(keys).unique()
    # Those whose number is known come first, so that no other takes it.
    used = used.sort("lane", pl.col("sort").fill_null(""), pl.col("thread"), nulls_last=True)
    places = [_place(threads, *row) for row in used.iter_rows()]
    used = used.with_columns(
        pl.Series("out_pid", [pid for pid, _ in places], dtype=pl.String),
        pl.Series("out_tid", [str(tid) for _, tid in places], dtype=pl.String),
    )
    placed = table.join(used, on=keys, how="left", nulls_equal=True, maintain_order="left")
    return placed.drop("side", "process", "thread", "sort", "weight", "lane")


def _place(
    threads: Threads,
    rank: int | None,
    side: Side,
    number: int | None,
    thread: int | None,
    sort: str | None,
    lane: int,
) -> tuple[str, int]:
    """Process and thread for the events of one lane."""
    process = Process(side, rank, number)
    word = "stream" if side == "gpu" else "thread"
    name = word if thread is None else f"{word} {thread}"
    name += {"sync": " synchronization", "gpu_annotation": " annotations"}.get(sort or "", "")
    name += f" ({lane + 1})" if lane else ""
    wanted = None if lane or sort else thread
    return threads.pid(process), threads.tid(process, wanted, name)


def _named(what: str, pid: str, tid: int, key: str, value: str | int) -> str:
    text = msgspec.json.encode(value).decode()
    return f'{{"ph":"M","name":"{what}","pid":{pid},"tid":{tid},"args":{{"{key}":{text}}}}}'
