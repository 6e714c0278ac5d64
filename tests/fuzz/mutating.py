"""Damage to files: to their bytes, to the values of a JSON document, to the cells of a table."""

from __future__ import annotations

import csv
import io
import json
import random
import sqlite3
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import polars as pl

TOKENS = (
    *(
        b"\0",
        b"\xff\xfe",
        b"\n",
        b'"',
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"-",
        b"\x1b[31m",
    ),
    *(b"null", b"NaN", b"-inf", b"1e999", b"1e18", b"9" * 19, b"9" * 40, b"-1", b"0.0000001"),
    *(
        b'"traceEvents": [',
        b'},{"ph":"X","ts":',
        b"\\ud800",
        b'"[TP01] 7"',
        b'"dur": -5, ',
        b"[" * 3000,
    ),
)
NUMBER_TOKENS = TOKENS[13:22]

ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, "", "x", "\x1b[31m", "\ud800", "9" * 40, "NaN", "1e999", "a" * 5000),
    *(0, -1, 1, 7, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, 2**63, 10**30, 0.5, -0.0, 1e18),
    *(1e300, float("nan"), float("inf"), [], {}, [None], [[1, 2], []], {"a": None}, [1e300, -1]),
)
"""What a field may hold that no program means to write."""


# Bytes


def mutate(data: bytes, rng: random.Random) -> bytes:
    """`data` with one to three injuries."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        data = rng.choice(INJURIES)(data, rng)
    return data


def _flip(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 8, 64)) if out else 0):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def _delete(data: bytes, rng: random.Random) -> bytes:
    at, size = _range(data, rng)
    return data[:at] + data[at + size :]


def _duplicate(data: bytes, rng: random.Random) -> bytes:
    at, size = _range(data, rng)
    return data[: at + size] + data[at:]


def _truncate(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _splice(data: bytes, rng: random.Random) -> bytes:
    at, size = _range(data, rng)
    to = rng.randrange(len(data) + 1)
    return data[:to] + data[at : at + size] + data[to + rng.choice((0, size)) :]


def _insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    token = rng.choice(TOKENS)
    return data[:at] + token + data[at + rng.choice((0, len(token))) :]


def _number(data: bytes, rng: random.Random) -> bytes:
    """Put something absurd in place of a digit near a random spot."""
    at = rng.randrange(len(data) + 1)
    near = next((i for i in range(at, min(at + 500, len(data))) if data[i : i + 1].isdigit()), at)
    return data[:near] + rng.choice(NUMBER_TOKENS) + data[near + 1 :]


def _range(data: bytes, rng: random.Random) -> tuple[int, int]:
    size = rng.choice((1, 4, 64, 1024, max(1, len(data) // 10)))
    return rng.randrange(len(data) + 1), size


INJURIES = (_flip, _flip, _delete, _duplicate, _truncate, _splice, _insert, _insert, _number)


# JSON documents

Node = tuple[Any, Any]
"""A container and the key or index of one value in it."""


def mutate_json(data: bytes, rng: random.Random) -> bytes:
    """A JSON document with odd values, missing and doubled parts; it stays valid JSON."""
    document = json.loads(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        rng.choice((_odd_value, _odd_value, _odd_field, _without_field, _doubled_rows, _cut_rows))(
            document, rng
        )
    return json.dumps(document).encode()


def mutate_json_lines(data: bytes, rng: random.Random) -> bytes:
    """The same for a file of one document per line."""
    lines = [json.loads(line) for line in data.splitlines()]
    return b"\n".join(
        json.dumps(line).encode()
        for line in json.loads(mutate_json(json.dumps(lines).encode(), rng))
    )


def _odd_value(document: Any, rng: random.Random) -> None:
    container, key = _descend(document, rng)
    if container is None:
        return
    if rng.random() < 0.2:
        del container[key]
    else:
        container[key] = deepcopy(rng.choice(ODD_VALUES))


def _odd_field(document: Any, rng: random.Random) -> None:
    """The same field of many rows: all of them, or each with a chance."""
    rows, name = _field(document, rng)
    value, share = rng.choice(ODD_VALUES), rng.choice((0.1, 0.5, 1, 1))
    for row in rows:
        if rng.random() < share:
            row[name] = deepcopy(value)


def _without_field(document: Any, rng: random.Random) -> None:
    rows, name = _field(document, rng)
    share = rng.choice((0.1, 0.5, 1, 1))
    for row in rows:
        if rng.random() < share:
            row.pop(name, None)


def _doubled_rows(document: Any, rng: random.Random) -> None:
    lists = [node for node in _lists(document) if node]
    if lists:
        rows = rng.choice(lists[:20])
        share = rng.choice((0.1, 0.5, 1))
        rows[:] = [deepcopy(row) for each in rows for row in [each] * (1 + (rng.random() < share))]


def _cut_rows(document: Any, rng: random.Random) -> None:
    lists = [node for node in _lists(document) if len(node) > 1]
    if lists:
        rows = rng.choice(lists[:20])
        begin = rng.randrange(len(rows))
        rows[:] = rows[begin : begin + rng.choice((1, 5, 50, len(rows)))]


def _field(document: Any, rng: random.Random) -> tuple[list[dict[str, Any]], str]:
    """Rows of one list, perhaps of one category, and the name of a field of theirs."""
    lists = [[row for row in node if isinstance(row, dict) and row] for node in _lists(document)]
    lists = [rows for rows in lists if rows]
    if not lists:
        return [], ""
    rows = rng.choice(lists[:10])
    example = rng.choice(rows)
    if "cat" in example and rng.random() < 0.8:
        rows = [row for row in rows if row.get("cat") == example["cat"]]
    name = rng.choice(list(example))
    inner = [row[name] for row in rows if isinstance(row.get(name), dict) and row[name]]
    if inner and rng.random() < 0.8:
        return inner, rng.choice(list(rng.choice(inner)))
    return rows, name


def _descend(document: Any, rng: random.Random) -> Node:
    """A random value of the document, rather deep inside."""
    container, key, node = None, None, document
    while isinstance(node, (dict, list)) and node and (container is None or rng.random() < 0.9):
        keys = list(node) if isinstance(node, dict) else range(len(node))
        container, key = node, rng.choice(keys)
        node = node[key]
    return container, key


def _lists(document: Any, depth: int = 6) -> list[list[Any]]:
    """Lists of the document, outer ones first; of rows only the first two are searched."""
    found, level = [], [document]
    for _ in range(depth):
        below: list[Any] = []
        for node in level:
            if isinstance(node, list):
                found.append(node)
                below += node[:2]
            elif isinstance(node, dict):
                below += node.values()
        level = below
    return found


# Tables


def mutate_csv(data: bytes, rng: random.Random) -> bytes:
    """Cells with odd values, columns renamed or missing, rows doubled."""
    rows = list(csv.reader(io.StringIO(data.decode())))
    for _ in range(rng.choice((1, 2, 5))):
        width = max(map(len, rows), default=0)
        if width == 0:
            break
        row, column = rng.choice(rows), rng.randrange(width)
        action = rng.randrange(4)
        if action == 0 and row:
            row[rng.randrange(len(row))] = str(rng.choice(ODD_VALUES))
        elif action == 1:
            value = str(rng.choice(ODD_VALUES))
            for other in rows[1:]:
                other[column : column + 1] = [value]
        elif action == 2:
            for other in rows:
                del other[column : column + 1]
        else:
            rows += [list(other) for other in rows[1:]]
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode(errors="replace")


def mutate_sqlite(path: Path, rng: random.Random) -> None:
    """Cells with odd values, columns dropped, rows doubled or deleted; still a valid database."""
    with sqlite3.connect(path) as database:
        tables = [name for (name,) in database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
        )]  # fmt: skip
        for _ in range(rng.choice((1, 1, 3))):
            table = rng.choice(tables)
            columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
            column = rng.choice(columns)
            some = f"WHERE rowid % {rng.choice((1, 1, 2, 7))} = 0"
            action = rng.randrange(4)
            try:
                if action == 0:
                    database.execute(f'DELETE FROM "{table}" {some}')
                elif action == 1:
                    database.execute(f'ALTER TABLE "{table}" DROP COLUMN "{column}"')
                elif action == 2:
                    database.execute(f'INSERT INTO "{table}" SELECT * FROM "{table}" {some}')
                else:
                    value = rng.choice([v for v in ODD_VALUES if not isinstance(v, (list, dict))])
                    value = (
                        value if not isinstance(value, int) or abs(value) < 2**63 else str(value)
                    )
                    value = value if value != "\ud800" else b"\xff"
                    database.execute(f'UPDATE "{table}" SET "{column}" = ? {some}', (value,))
            except sqlite3.Error:
                continue
    database.close()


def mutate_parquet(path: Path, rng: random.Random) -> None:
    """Columns of nulls, extremes or another type, or none; rows doubled or shuffled."""
    table = pl.read_parquet(path)
    for _ in range(rng.choice((1, 1, 2, 4))):
        action = rng.choice(_TABLE_INJURIES)
        if table.width and table.height:
            table = action(table, rng.choice(table.columns), rng)
    table.write_parquet(path)


def _nulls(table: pl.DataFrame, name: str, rng: random.Random) -> pl.DataFrame:
    every = rng.choice((1, 1, 2, 9))
    hit = pl.int_range(pl.len()) % every == 0
    return table.with_columns(pl.when(hit).then(None).otherwise(pl.col(name)).alias(name))


def _extremes(table: pl.DataFrame, name: str, rng: random.Random) -> pl.DataFrame:
    dtype = table[name].dtype
    if not dtype.is_integer():
        return table
    lowest = table.select(dtype.min()).item() if hasattr(dtype, "min") else 0
    highest = table.select(dtype.max()).item() if hasattr(dtype, "max") else 0
    value = rng.choice((lowest, highest, 0, -1 if lowest < 0 else 1, 2**31 - 1, highest // 2))
    every = rng.choice((1, 2, 9))
    hit = pl.int_range(pl.len()) % every == 0
    changed = pl.when(hit).then(pl.lit(value, dtype=dtype)).otherwise(pl.col(name))
    return table.with_columns(changed.alias(name))


def _texts(table: pl.DataFrame, name: str, rng: random.Random) -> pl.DataFrame:
    if table[name].dtype not in (pl.String, pl.Categorical):
        return table
    value = rng.choice(("", "\x1b[31m", "9" * 40, "[" * 2000, "x" * 5000, "NaN"))
    every = rng.choice((1, 2, 9))
    hit = pl.int_range(pl.len()) % every == 0
    text = pl.when(hit).then(pl.lit(value)).otherwise(pl.col(name).cast(pl.String))
    return table.with_columns(text.cast(table[name].dtype).alias(name))


def _twice(table: pl.DataFrame, _: str, rng: random.Random) -> pl.DataFrame:
    return pl.concat([table, table.gather_every(rng.choice((1, 3)))])


def _shuffled(table: pl.DataFrame, _: str, rng: random.Random) -> pl.DataFrame:
    return table.sample(fraction=1, shuffle=True, seed=rng.randrange(2**31))


def _other_type(table: pl.DataFrame, name: str, rng: random.Random) -> pl.DataFrame:
    dtype = rng.choice((pl.String, pl.Float64, pl.Int64, pl.UInt8))
    texts = pl.col(name).cast(pl.String, strict=False)
    return table.with_columns(texts.cast(dtype, strict=False))


def _without_column(table: pl.DataFrame, name: str, _: random.Random) -> pl.DataFrame:
    return table.drop(name)


_TABLE_INJURIES: tuple[Callable[[pl.DataFrame, str, random.Random], pl.DataFrame], ...] = (
    *(_nulls, _nulls, _extremes, _extremes, _texts, _twice, _shuffled, _other_type),
    _without_column,
)
