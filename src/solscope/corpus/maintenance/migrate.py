"""Bringing a store of an earlier schema to the current one, in place.

From schema 1 to 2: `profiles` gets a column `batch`, which is null for what was added before;
`batches` begins with one record for all of it. Rows and files stay as they are. The version is
changed last, so that a migration that was killed can be run again.
"""

from __future__ import annotations

import os

import msgspec

from solscope.corpus import commits, delta
from solscope.corpus.location import normal
from solscope.corpus.schema import BATCHES, SCHEMA_VERSION, TABLES, VERSION_KEY, schema
from solscope.corpus.store import Corpus, open_corpus
from solscope.errors import InputError


class Migration(msgspec.Struct, frozen=True):
    """What a migration did."""

    before: int
    """Schema that the store had."""
    after: int
    """Schema that it has now."""
    profiles: int


def migrate(url: str | os.PathLike[str]) -> Migration:
    """Bring a store to the current schema; one that has it already stays as it is."""
    text = normal(url)
    table = delta.open_table(f"{text}/profiles")
    version = None if table is None else table.metadata().configuration.get(VERSION_KEY)
    if version != "1":
        corpus = open_corpus(text)
        return Migration(SCHEMA_VERSION, SCHEMA_VERSION, corpus.profiles().height)
    corpus = Corpus(text)
    _from_1(corpus)
    return Migration(1, SCHEMA_VERSION, open_corpus(text).profiles().height)


def _from_1(corpus: Corpus) -> None:
    delta.create(corpus.table_url(BATCHES), schema(BATCHES), f"solscope {BATCHES}", {})
    for name in TABLES:
        url = corpus.table_url(name)
        commits.commit(url, lambda table: _set(table, delta.SETTINGS))
    url = corpus.table_url("profiles")
    if "batch" not in {field.name for field in delta.open_existing(url).schema().fields}:
        column = delta.fields(schema("profiles"))[-1]
        commits.commit(url, lambda table: table.alter.add_columns([column]))
    # Rows of one content that two writers added at once, which schema 1 allowed, all count.
    count = corpus.raw("profiles").collect().height
    if corpus.raw(BATCHES).collect().is_empty():
        corpus.record(0, "migrate", {0: count})
    if corpus.raw("profiles").collect().height != count:
        raise InputError(f"{corpus.url}: another process writes to this store; migrate it alone")
    commits.commit(url, lambda table: _set(table, {VERSION_KEY: str(SCHEMA_VERSION)}))


def _set(table: object, properties: dict[str, str]) -> None:
    table.alter.set_table_properties(properties, raise_if_not_exists=False)  # type: ignore[attr-defined]
