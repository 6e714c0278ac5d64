"""A store in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from solscope.corpus.store import Corpus


@dataclass(frozen=True)
class MemoryCorpus(Corpus):
    """One version of a store, read into memory: questions about it read no file."""

    frames: dict[str, pl.DataFrame]

    def in_memory(self, name: str) -> bool:
        return name in self.frames

    def snapshot(self) -> Corpus:
        return self

    def raw(self, name: str) -> pl.LazyFrame:
        return self.frames[name].lazy() if name in self.frames else super().raw(name)


def load_into_memory(corpus: Corpus, tables: Iterable[str]) -> MemoryCorpus:
    """The newest version, read table by table.

    `profiles` must come first: a batch writes it last, so what it names is in the other tables.
    """
    return MemoryCorpus(corpus.url, {name: corpus.raw(name).collect() for name in tables})
