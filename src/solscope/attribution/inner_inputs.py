"""Inputs of operators that read their weights inside: what the operators in them were called with.

Serving engines hide a whole part of a layer behind one operator that gets its activations and the
name of the layer (`vllm::moe_forward`). Its weights are no inputs, but operators inside it take
them, views if nothing else. Their tensors are appended to the inputs of the operator itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import polars as pl

from solscope.arrays import holds, numbers, series, take, where
from solscope.attribution.stacks import enclosing
from solscope.events import json_list
from solscope.names import OPAQUE

INPUTS = ("input_dims", "input_types", "input_strides", "concrete_inputs")
"""Columns of what an operator was called with."""
MOST_TENSORS = 64
"""Distinct tensors of inner operators that are appended at most."""

_Texts = tuple[str | None, ...]


def inputs_of(events: pl.DataFrame, rows: pl.Series) -> dict[str, pl.Series]:
    """`INPUTS` of the operators in these rows of the event table; null for null."""
    columns = {name: take(events[name], rows) for name in INPUTS}
    hidden = holds(take(events["name"], rows), lambda texts: texts.is_in(list(OPAQUE)))
    wanted = set(take(rows, where(hidden)).to_list())
    if not wanted:
        return columns
    extended = _extended(events, wanted)
    for position, (name, values) in enumerate(columns.items()):
        texts = {row: inputs[position] for row, inputs in extended.items()}
        own = rows.replace_strict(texts, default=None, return_dtype=pl.String)
        columns[name] = own.fill_null(values.cast(pl.String)).cast(pl.Categorical).alias(name)
    return columns


def _extended(events: pl.DataFrame, wanted: set[int]) -> dict[int, _Texts]:
    """`INPUTS` of each of these operators, with the tensors of the operators inside it."""
    rows = where(events["kind"] == "cpu_op")
    rows = rows.filter(take(events["input_dims"], rows).is_not_null())
    outer = numbers(enclosing(events, rows.alias("launch_row").to_frame(), "cpu_op", OPAQUE))
    inside = np.isin(outer, list(wanted)) & (outer != numbers(rows))
    by_outer: dict[int, dict[_Texts, None]] = {}
    called = _texts(events, rows.filter(series("", inside)), INPUTS[:3])
    for holder, texts in zip(outer[inside].tolist(), called, strict=True):
        by_outer.setdefault(holder, {})[texts] = None
    holders = [row for row in rows.to_list() if row in by_outer]
    own = dict(zip(holders, _texts(events, series("", np.array(holders)), INPUTS), strict=True))
    # Layers are alike: each distinct list of inputs is put together once.
    made: dict[tuple[_Texts, tuple[_Texts, ...]], _Texts] = {}
    out: dict[int, _Texts] = {}
    for row, inputs in own.items():
        key = inputs, tuple(by_outer[row])
        out[row] = made[key] if key in made else made.setdefault(key, _appended(*key))
    return out


def _texts(events: pl.DataFrame, rows: pl.Series, columns: Sequence[str]) -> Iterator[_Texts]:
    """These columns of these events, row by row."""
    return zip(*(take(events[name], rows).cast(pl.String) for name in columns), strict=True)


def _appended(own: _Texts, inner: Iterable[_Texts]) -> _Texts:
    """The operator's own inputs, then each distinct tensor with two dimensions or more."""
    inputs = [json_list(text) for text in own]
    width = max(map(len, inputs))
    columns: list[list[Any]] = [values + [""] * (width - len(values)) for values in inputs]
    seen: set[str] = set()
    for texts in inner:
        for shape, kind, stride in zip_longest(*map(json_list, texts), fillvalue=""):
            key = json.dumps([shape, kind])
            if isinstance(shape, list) and len(shape) > 1 and key not in seen:
                seen.add(key)
                for column, value in zip(columns, (shape, kind, stride, ""), strict=True):
                    column.append(value)
            if len(seen) == MOST_TENSORS:
                return tuple(map(json.dumps, columns))
    return tuple(map(json.dumps, columns))
