"""Parts that a store has on the disk, and making those that it does not have."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import polars as pl

from solscope.batches import batches
from solscope.corpus import delta
from solscope.corpus.aggregates.part import FRAMES, KINDS, KeyKind, Part, build
from solscope.corpus.location import is_url
from solscope.corpus.schema import schema
from solscope.corpus.store import Corpus

FOLDER = "aggregates"
FORMAT = "1"
"""Changes with what parts hold: those of another format are not read."""
INDEX = "index.parquet"
SMALLEST = 256 << 10
"""Bytes of a data file from which on its parts are stored; small files are merged soon."""
AT_ONCE = 16 << 20
"""Bytes of data files whose parts are made together."""
_UNREADABLE = (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException)


def parts(corpus: Corpus, kind: KeyKind) -> Iterator[Part]:
    """What all files of `times` say about one kind of key, part by part."""
    if corpus.in_memory("times"):
        yield build(corpus.raw("times"), kind)
        return
    table = corpus.open("times")
    listed = delta.files(table)
    if not listed or not is_url(listed[0][0]):
        delta.check_sizes(listed)
    stored = _index(corpus.url)
    rest: list[tuple[str, int]] = []
    for file, size in listed:
        part = _read(corpus.url, _stem(file), kind) if _stem(file) in stored else None
        if part is None:
            rest.append((file, size))
        else:
            yield part
    for batch in batches(rest, lambda listed_file: listed_file[1], AT_ONCE):
        yield build(_scan([file for file, _ in batch]), kind)


def store_parts(corpus: Corpus) -> int:
    """Store the parts of large files that have none; forget those of files out of use."""
    listed = delta.files(corpus.open("times"))
    large = {_stem(file): file for file, size in listed if size >= SMALLEST}
    stored = {stem for stem in _index(corpus.url) if stem in large}
    made = 0
    for stem, file in large.items():
        if stem not in stored:
            for kind in KINDS:
                _write(corpus.url, stem, kind, build(_scan([file]), kind))
            made += 1
    if made or stored != _index(corpus.url):
        _write_index(corpus.url, sorted(large))
        _clean(corpus.url, set(large))
    return made


def _scan(files: list[str]) -> pl.LazyFrame:
    return pl.scan_parquet(files, glob=False, schema=schema("times"), missing_columns="insert")


def _stem(file: str) -> str:
    return file.rpartition("/")[2].removesuffix(".parquet")


def _root(url: str) -> str:
    return f"{url}/{FOLDER}/{FORMAT}"


def _index(url: str) -> frozenset[str]:
    """Files that have parts."""
    with suppress(*_UNREADABLE):
        return frozenset(pl.read_parquet(f"{_root(url)}/{INDEX}")["file"].to_list())
    return frozenset()


def _read(url: str, stem: str, kind: KeyKind) -> Part | None:
    """A part; null where it cannot be read, which costs time and nothing else."""
    with suppress(*_UNREADABLE):
        place = f"{_root(url)}/{stem}"
        return Part(**{name: pl.read_parquet(f"{place}/{kind}-{name}.parquet") for name in FRAMES})
    return None


def _write(url: str, stem: str, kind: KeyKind, part: Part) -> None:
    place = f"{_root(url)}/{stem}"
    if not is_url(url):
        Path(place).mkdir(parents=True, exist_ok=True)
    for name in FRAMES:
        frame: pl.DataFrame = getattr(part, name)
        frame.write_parquet(f"{place}/{kind}-{name}.parquet", compression="zstd")


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
    for folder in Path(_root(url)).iterdir():
        if folder.is_dir() and folder.name not in used:
            for file in folder.iterdir():
                file.unlink(missing_ok=True)
            folder.rmdir()
