"""SQL over the tables of a store, through Polars.

A query is read-only: it can neither change the store nor read any other file.
"""

from __future__ import annotations

import re

import polars as pl

from solscope.corpus.schema import TABLES
from solscope.corpus.store import Corpus
from solscope.errors import InputError, UsageError

_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL)
_ALLOWED = re.compile(r"\s*(?:SELECT|WITH|SHOW\s+TABLES|EXPLAIN\s+SELECT)\b", re.IGNORECASE)
_FILES = re.compile(r"\b(?:read|scan)_\w+\s*\(|''\s*\(", re.IGNORECASE)
"""Functions that read files, by their name or by any quoted one."""


def query(corpus: Corpus, sql: str) -> pl.DataFrame:
    """The result of one SELECT over `profiles`, `times`, `steps` and `events`."""
    plain = _QUOTED.sub(lambda m: " " if m.group()[0] in "-/" else "''", sql)
    if not _ALLOWED.match(plain):
        raise UsageError("a query starts with SELECT or WITH: a store is only read here")
    if ";" in plain.rstrip().rstrip(";"):
        raise UsageError("one query at a time: a ';' stands inside it")
    if _FILES.search(plain):
        raise UsageError("a query reads the tables of the store, not files")
    context = pl.SQLContext({name: corpus.table(name) for name in TABLES}, eager=False)
    try:
        return context.execute(sql).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        text = " ".join(str(error).split())[:300]
        raise InputError(f"this query fails: {text}") from None
