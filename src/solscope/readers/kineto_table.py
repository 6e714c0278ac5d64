"""The event table of a trace, built batch by batch from the columns of a scanner.

Texts stay codes until the end of the file, when every distinct one is known; everything else takes
its final, narrow form at once, and columns that a batch does not use are not stored for it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from solscope.arrays import series
from solscope.events import EVENT_SCHEMA, KINDS
from solscope.patterns import lazy_pattern
from solscope.readers.kineto_columns import NONE, NULL
from solscope.readers.kineto_core import CODES, NUMBERS, TEXTS
from solscope.readers.kineto_text import decode_text

_KIND_OF_CATEGORY = {
    "kernel": "kernel",
    "gpu_kernel": "kernel",
    "concurrent_kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
    "cuda_sync": "sync",
    "cpu_op": "cpu_op",
    "operator": "cpu_op",
    "user_annotation": "annotation",
    "gpu_user_annotation": "gpu_annotation",
    "python_function": "python",
    "overhead": "overhead",
    "runtime": "runtime",
}
_NOT_KEPT = {"trace", "cpu_instant_event", "ac2g", "async_cpu_to_gpu"}
"""Categories that are passed over on purpose; any other unknown one is reported."""

_ON_GPU = ["kernel", "memcpy", "memset", "gpu_annotation", "sync"]
_KIND = pl.Enum(KINDS)
_ALWAYS = ("cat", "name", "start_ns", "dur_ns")
"""Columns that a batch has even where no row has a value."""
_JSON_COLUMNS = tuple(name for name in CODES if name not in TEXTS)
_NAME_COLUMNS = ("name", "collective", "process_group", "process_group_ranks", "launched")
# ROCm records some copies and fills as kernels of these names.
_COPY_NAME = lazy_pattern(
    r"^(Memcpy ([HDAP]to[HDAP]|\(|Unknown)|hipMemcpy|Copy(Host|Device)To(Host|Device)\b)"
)
_FILL_NAME = lazy_pattern(r"^(Memset( \(|$)|hipMemset|FillBuffer\b)")
# `[TP01-DP00] 123` as SGLang merges ranks, `1_123` or `rank1:123` as others do.
_RANK_LABEL = lazy_pattern(
    r"^\s*\[(?P<label>[^\]]*\d[^\]]*)\]\s*(?P<pid>.*)$|^(?:rank)?(?P<rank>\d+)[_:](?P<rest>.*)$"
)


class EventTable:
    """Takes batches from a scanner and returns the event table."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.unknown: dict[str, int] = {}
        """Categories that were not understood, with their event counts."""
        self._kinds: list[str | None] = []
        self._name_kinds: list[str | None] = []
        self._batches: list[pl.DataFrame] = []

    def add(self, texts: Sequence[bytes | str], columns: dict[str, Any]) -> None:
        """Add rows as a scanner's `take` gives them, and the texts that are new since the last."""
        for raw in texts:
            text = decode_text(raw)
            self.texts.append(text)
            self._kinds.append(_kind(text))
            self._name_kinds.append(_kind_by_name(text))
        batch = _frame(columns)
        batch = batch.with_columns(self._kind_of(batch).alias("kind"))
        self._count_unknown(batch)
        self._batches.append(_place(batch.filter(pl.col("kind").is_not_null())))

    def finish(self, jsons: list[str]) -> pl.DataFrame:
        """The table, texts in place of codes."""
        names = pl.Series("name", self.texts, dtype=pl.String).cast(pl.Categorical)
        values = pl.Series("json", jsons, dtype=pl.String)
        bare = values.str.strip_chars("[]").cast(pl.Categorical)
        text_of = dict.fromkeys(_JSON_COLUMNS, values.cast(pl.Categorical))
        text_of |= dict.fromkeys(_NAME_COLUMNS, names) | {"grid": bare, "block": bare}
        processes, threads = self._labels("pid_text"), self._labels("tid_text")
        ranks, numbers = _ranks(processes), _numbers(processes | threads)
        done = []
        while self._batches:
            batch = self._batches.pop(0)
            columns = [
                text.gather(batch[column]).alias(column)
                for column, text in text_of.items()
                if column in batch.columns
            ]
            done.append(_identify(batch.with_columns(columns), ranks, numbers))
        table = pl.concat(done, how="diagonal", rechunk=False)
        return table.select(
            pl.col(name).cast(dtype) if name in table.columns else pl.lit(None, dtype).alias(name)
            for name, dtype in EVENT_SCHEMA.items()
        )

    def _labels(self, column: str) -> dict[int, str]:
        """Texts, by code, that appear in place of a process or thread number."""
        columns = (batch[column] for batch in self._batches if column in batch.columns)
        return {code: self.texts[code] for codes in columns for code in codes.unique().drop_nulls()}

    def _kind_of(self, batch: pl.DataFrame) -> pl.Series:
        kind = pl.Series("kind", self._kinds, dtype=_KIND).gather(batch["cat"])
        by_name = pl.Series("kind", self._name_kinds, dtype=_KIND).gather(batch["name"])
        renamed = (kind == "kernel").fill_null(False) & by_name.is_not_null()
        return by_name.zip_with(renamed, kind)

    def _count_unknown(self, batch: pl.DataFrame) -> None:
        lost = batch.filter(pl.col("kind").is_null() & pl.col("cat").is_not_null())
        for code, count in lost["cat"].value_counts().iter_rows():
            if self.texts[code].lower() not in _NOT_KEPT:
                self.unknown[self.texts[code]] = self.unknown.get(self.texts[code], 0) + count


def _frame(columns: dict[str, Any]) -> pl.DataFrame:
    """Raw columns as Polars, sentinels as nulls; numbers that no row has are left out."""
    height = memoryview(columns["start_ns"]).nbytes // 8
    present, expressions = [], []
    for names, dtype, absent in ((CODES, np.uint32, NONE), (NUMBERS, np.int64, NULL)):
        for name in names:
            values = np.frombuffer(columns.pop(name), dtype)
            least, most = (values.min(), values.max()) if values.size else (absent, absent)
            if least == most == absent and name not in _ALWAYS:
                continue
            if not values.size:
                values = np.full(height, absent, dtype)
            present.append(series(name, values))
            whole = absent not in (least, most)  # the sentinels are the ends of their types
            expressions.append(name if whole else pl.when(pl.col(name) != absent).then(name))
    return pl.DataFrame(present).select(expressions)


def _place(batch: pl.DataFrame) -> pl.DataFrame:
    """GPU rows get device and stream (repeated as pid and tid); host rows keep neither."""
    on_gpu = pl.col("kind").is_in(_ON_GPU)
    nothing = pl.lit(None, pl.Int64)
    have = {
        name: pl.col(name) if name in batch.columns else nothing
        for name in ("device", "stream", "pid", "tid")
    }
    device = pl.coalesce(have["device"], pl.when(have["pid"].is_between(0, 4095)).then(have["pid"]))
    return batch.drop("cat").with_columns(
        pl.when(on_gpu).then(device).cast(pl.Int32, strict=False).alias("device"),
        pl.when(on_gpu).then(pl.coalesce(have["stream"], have["tid"])).alias("stream"),
        pl.when(~on_gpu).then(have["pid"]).alias("pid"),
        pl.when(~on_gpu).then(have["tid"]).alias("tid"),
    )


def _identify(batch: pl.DataFrame, ranks: dict[int, int], numbers: dict[int, int]) -> pl.DataFrame:
    """Numbers for processes and threads that are labeled with text, and the rank in it."""
    columns = []
    for name in ("pid", "tid"):
        label = f"{name}_text"
        if label not in batch.columns:
            continue
        on_gpu = pl.col("kind").is_in(_ON_GPU)
        from_text = pl.col(label).replace_strict(numbers, default=None, return_dtype=pl.Int64)
        columns.append(pl.coalesce(name, pl.when(~on_gpu).then(from_text)).alias(name))
        fallback = "device" if name == "pid" else "stream"
        small = pl.when(on_gpu & from_text.is_between(0, 4095)).then(from_text)
        columns.append(pl.coalesce(fallback, small.cast(EVENT_SCHEMA[fallback])).alias(fallback))
    if "pid_text" in batch.columns and ranks:
        columns.append(
            pl.col("pid_text")
            .replace_strict(ranks, default=None, return_dtype=pl.Int32)
            .alias("rank")
        )
    return batch.with_columns(columns).drop("pid_text", "tid_text", strict=False)


def _kind(category: str) -> str | None:
    lower = category.lower()
    if lower.endswith("_runtime"):
        return "runtime"
    if lower.endswith("_driver"):
        return "driver"
    return _KIND_OF_CATEGORY.get(lower)


def _kind_by_name(name: str) -> str | None:
    """The kind of something filed as a kernel that its name says is none."""
    if _COPY_NAME.match(name):
        return "memcpy"
    return "memset" if _FILL_NAME.match(name) else None


def _ranks(labels: dict[int, str]) -> dict[int, int]:
    """The rank of each label that names a process of a merged trace."""
    labeled = {code: m for code, text in labels.items() if (m := _RANK_LABEL.match(text))}
    names = sorted({m["label"] or m["rank"] for m in labeled.values()}, key=_natural)
    stated = [re.findall(r"\d+", name) for name in names]
    if all(len(numbers) == 1 and len(numbers[0]) < 7 for numbers in stated):
        order = {name: int(numbers[0]) for name, numbers in zip(names, stated, strict=True)}
    else:
        # `TP01-DP00`: several numbers, none of which is the rank; count in order of the labels.
        order = {name: rank for rank, name in enumerate(names)}
    return {code: order[m["label"] or m["rank"]] for code, m in labeled.items()}


def _numbers(labels: dict[int, str]) -> dict[int, int]:
    """The process number in each label, or a unique negative number."""
    nameless = sorted({text for text in labels.values() if _number_in(text) is None})
    own = {text: -2 - index for index, text in enumerate(nameless)}
    return {
        code: own[text] if (number := _number_in(text)) is None else number
        for code, text in labels.items()
    }


def _number_in(label: str) -> int | None:
    match = _RANK_LABEL.match(label)
    digits = re.findall(r"\d+", match["pid"] or match["rest"] or "") if match else []
    return int(digits[-1][:18]) if digits else None


def _natural(label: str) -> list[tuple[int, str]]:
    parts = re.split(r"(\d+)", label)
    return [(int(piece[:18]), "") if piece.isdecimal() else (-1, piece) for piece in parts]
