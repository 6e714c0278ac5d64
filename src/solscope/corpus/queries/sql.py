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
_FILES = re.compile(r"(?:read|scan)_(?:csv|ipc|json|ndjson|parquet)", re.IGNORECASE)
"""Table functions of Polars' SQL. The words are refused wherever they stand: nested comments and
dollar quotes leave no other sure way to tell a call from a text."""


def query(corpus: Corpus, sql: str) -> pl.DataFrame:
    """The result of one SELECT over `profiles`, `times`, `steps` and `events`."""
    plain = _QUOTED.sub(lambda m: " " if m.group()[0] in "-/" else "''", sql)
    if not _ALLOWED.match(plain):
        raise UsageError("a query must start with SELECT or WITH: it can only read the store")
    if ";" in plain.rstrip().rstrip(";"):
        raise UsageError("only one query at a time: found a ';'")
    if _FILES.search(sql):
        raise UsageError("a query can read only the tables of the store, not files")
    context = pl.SQLContext({name: corpus.table(name) for name in TABLES}, eager=False)
    try:
        return context.execute(sql).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        # What follows is the plan as far as Polars got, which helps nobody who wrote the SQL.
        text = " ".join(str(error).partition("Resolved plan")[0].split())[:300]
        raise InputError(f"the query failed: {text}") from None
