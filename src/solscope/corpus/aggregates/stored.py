"""Parts that a store has on the disk, and making those that it does not have."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, lru_cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from solscope.batches import batches
from solscope.corpus import delta
from solscope.corpus.aggregates.calls import (
    CALL_FRAMES,
    ROW_GROUP,
    call_frames,
    counts_of,
    stored_counts,
    stored_kernels,
)
from solscope.corpus.aggregates.overall import build, counted
from solscope.corpus.aggregates.part import (
    FRAMES,
    KINDS,
    OVERALL_FRAMES,
    CallCounts,
    Frames,
    KeyKind,
    Part,
    Query,
    entries_of,
    phases_of,
)
from solscope.corpus.location import is_url
from solscope.corpus.schema import schema
from solscope.corpus.store import Corpus

Ints = npt.NDArray[np.int64]
FOLDER = "aggregates"
FORMAT = "5"
"""Changes with what parts hold: those of another format are not read."""
INDEX = "index.parquet"
SMALLEST = 256 << 10
"""Bytes of a data file from which on its parts are stored; small files are merged soon."""
AT_ONCE = 16 << 20
"""Bytes of data files whose parts are made together."""
_UNREADABLE = (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException)


def parts(corpus: Corpus, kind: KeyKind, profiles: pl.DataFrame) -> list[Part]:
    """What all files of `times` say about one kind of key; `profiles` are those of the store."""

    @cache
    def with_runs() -> pl.DataFrame:
        return counted(profiles)

    @lru_cache(maxsize=1)  # Parts are used one after the other, and may be many.
    def made(files: tuple[str, ...]) -> Frames:
        return build(rows(files), kind, with_runs())

    def rows(files: tuple[str, ...]) -> pl.LazyFrame:
        return _scan(files) if files else corpus.raw("times")

    def load(files: tuple[str, ...], name: str, query: Query = _all) -> pl.DataFrame:
        if name in direct:
            return direct[name](rows(files))
        return query(made(files)[name].lazy()).collect()

    def read(file: str, name: str, query: Query = _all) -> pl.DataFrame:
        with suppress(*_UNREADABLE):
            return query(pl.scan_parquet(_place(corpus.url, file, f"{kind}-{name}"))).collect()
        return load((file,), name, query)  # Which costs time, and nothing else.

    def calls(files: tuple[str, ...], part: Part, entries: Ints) -> CallCounts:
        return _calls_from_rows(rows(files), part, kind, entries)

    def read_calls(file: str, part: Part, entries: Ints) -> CallCounts:
        with suppress(*_UNREADABLE):
            return stored_counts(lambda name: _place(corpus.url, file, name), kind, entries)
        return calls((file,), part, entries)

    def kernels(files: tuple[str, ...], part: Part, entries: Ints) -> pl.DataFrame:
        return _kernels_from_rows(rows(files), part, entries)

    def read_kernels(file: str, part: Part, entries: Ints) -> pl.DataFrame:
        with suppress(*_UNREADABLE):
            return stored_kernels(lambda name: _place(corpus.url, file, name), entries)
        return kernels((file,), part, entries)

    def unstored(files: tuple[str, ...]) -> Part:
        return Part(partial(load, files), partial(calls, files), partial(kernels, files))

    def stored_part(file: str) -> Part:
        return Part(partial(read, file), partial(read_calls, file), partial(read_kernels, file))

    direct = {"entries": entries_of, "phases": phases_of}  # Without all the others.
    if corpus.in_memory("times"):
        return [unstored(())]
    listed = delta.files(corpus.open("times"))
    if not listed or not is_url(listed[0][0]):
        delta.check_sizes(listed)
    index = _index(corpus.url)
    stored = [file for file, _ in listed if _stem(file) in index]
    rest = [(file, size) for file, size in listed if _stem(file) not in index]
    groups = batches(rest, lambda listed_file: listed_file[1], AT_ONCE)
    return [
        *(stored_part(file) for file in stored),
        *(unstored(tuple(file for file, _ in group)) for group in groups),
    ]


def _all(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows


def _calls_from_rows(rows: pl.LazyFrame, part: Part, kind: KeyKind, entries: Ints) -> CallCounts:
    """Calls of some profiles of a part that is not stored."""
    wanted = part.entries["entry"].gather(entries).to_list()
    numbers = {"entries": part.entries, "names": part.names, "phases": part.phases}
    own = rows.filter(pl.col("entry").is_in(wanted))
    frames = call_frames(own, {kind: numbers}, part.entries["entry"])
    return counts_of(frames["calls"], frames["times"], kind)


def _kernels_from_rows(rows: pl.LazyFrame, part: Part, entries: Ints) -> pl.DataFrame:
    """Rows of some profiles of a part that is not stored."""
    keys = part.names.rename({"name:0": "operator", "name:1": "axes"}).with_row_index("name")
    phases = part.phases.with_row_index("number")
    return (
        rows.filter(pl.col("entry").is_in(part.entries["entry"].gather(entries).to_list()))
        .select("operator", "axes", "phase", "role", "kernel", "calls", "time_ns")
        .join(keys.lazy(), on=["operator", "axes"], nulls_equal=True)
        .join(phases.lazy(), on="phase", nulls_equal=True)
        .select(
            "name",
            pl.col("number").cast(pl.UInt8).alias("phase"),
            "role",
            "kernel",
            "calls",
            "time_ns",
        )
        .collect()
    )


def store_parts(corpus: Corpus) -> int:
    """Store the parts of large files that have none; forget those of files out of use."""
    listed = delta.files(corpus.open("times"))
    large = {_stem(file): file for file, size in listed if size >= SMALLEST}
    stored = {stem for stem in _index(corpus.url) if stem in large}
    missing = [file for stem, file in large.items() if stem not in stored]
    profiles = counted(corpus.profiles()) if missing else pl.DataFrame()
    for file in missing:
        _store(corpus.url, file, profiles)
    if missing or stored != _index(corpus.url):
        _write_index(corpus.url, sorted(large))
        _clean(corpus.url, set(large))
    return len(missing)


def _store(url: str, file: str, profiles: pl.DataFrame) -> None:
    """Make and write the parts of one file."""
    numbers: dict[KeyKind, Frames] = {}
    for kind in KINDS:
        frames = build(_scan([file]), kind, profiles)
        numbers[kind] = {name: frames[name] for name in ("entries", "names", "phases")}
        for name in (*FRAMES, *OVERALL_FRAMES):
            _write(_place(url, file, f"{kind}-{name}"), frames[name])
    entries = numbers[KINDS[0]]["entries"].select("entry")
    ids = entries.join(profiles, on="entry", how="left", maintain_order="left")["id"].fill_null("")
    calls = call_frames(_scan([file]), numbers, ids)
    for name in CALL_FRAMES:
        _write(_place(url, file, name), calls[name], ROW_GROUP)


def _place(url: str, file: str, name: str) -> str:
    """Where a frame of the part of a data file lies."""
    return f"{_root(url)}/{_stem(file)}/{name}.parquet"


def _scan(files: Sequence[str]) -> pl.LazyFrame:
    return pl.scan_parquet(
        list(files), glob=False, schema=schema("times"), missing_columns="insert"
    )


def _stem(file: str) -> str:
    return file.rpartition("/")[2].removesuffix(".parquet")


def _root(url: str) -> str:
    return f"{url}/{FOLDER}/{FORMAT}"


def _index(url: str) -> frozenset[str]:
    """Files that have parts."""
    with suppress(*_UNREADABLE):
        return frozenset(pl.read_parquet(f"{_root(url)}/{INDEX}")["file"].to_list())
    return frozenset()


def _write(place: str, frame: pl.DataFrame, row_group: int | None = None) -> None:
    if not is_url(place):
        Path(place).parent.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(place, compression="zstd", row_group_size=row_group)


def _write_index(url: str, files: list[str]) -> None:
    """What is listed is complete: the list is written last, and at once."""
    index = pl.DataFrame({"file": files}, schema={"file": pl.String})
    target = f"{_root(url)}/{INDEX}"
    if is_url(url):
        index.write_parquet(target)
        return
    work = Path(f"{target}.{uuid.uuid4().hex}")
    index.write_parquet(work)
    work.replace(target)


def _clean(url: str, used: set[str]) -> None:
    """Remove parts of files that are out of use; a question that needs one reads the rows."""
    if is_url(url):
        return
    here = Path(_root(url))
    earlier = [here.parent / str(number) for number in range(1, int(FORMAT))]
    unused = [folder for folder in here.iterdir() if folder.is_dir() and folder.name not in used]
    for folder in (*earlier, *unused):
        shutil.rmtree(folder, ignore_errors=True)
