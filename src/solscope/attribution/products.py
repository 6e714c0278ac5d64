"""Products of a layer: their shapes, and the kernels that only serve them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
import polars as pl

from solscope.arrays import take
from solscope.attribution.sequence import Letter

_SERVING = frozenset((Letter.FILL, Letter.QUANT))
_BETWEEN = f"{Letter.FILL}{Letter.QUANT}{Letter.COPY}"
_SENT = frozenset(
    (
        Letter.COMMUNICATION,
        Letter.REDUCE_WITH_NORM,
        Letter.EXPERT_SEND,
        Letter.EXPERT_RETURN,
    )
)


class Product(NamedTuple):
    """Shape of a product with weights: [.., inner] times [inner, outer], `batch` times."""

    batch: int
    inner: int
    outer: int


def product_role(text: str, position: int, products: Mapping[int, str]) -> str | None:
    """The role of a product, or of the one that a helper serves; else null."""
    return products.get(position) or served_role(text, position, products)


def served_role(text: str, position: int, products: Mapping[int, str]) -> str | None:
    """The role of the product that a helper serves: the one before it, or the next for fills."""
    if text[position] == Letter.GEMM_HELPER:
        return next((products[i] for i in range(position - 1, -1, -1) if i in products), None)
    if text[position] not in _SERVING:
        return None
    following = next((i for i in range(position + 1, len(text)) if i in products), None)
    if following is None or text[position + 1 : following].strip(_BETWEEN):
        return None
    return products[following]


def closing_role(text: str, position: int) -> str:
    """Role of a unit after the last product of a section."""
    letter = text[position]
    if letter in _SENT or is_copy_for_communication(text, position):
        return "all_reduce"
    return "post_norm" if letter == Letter.NORM else "residual"


def is_copy_for_communication(text: str, position: int) -> bool:
    """A copy next to communication moves data into or out of its buffer."""
    return (
        text[position] == Letter.COPY
        and Letter.COMMUNICATION in text[max(0, position - 1) : position + 2]
    )


def products_of(
    events: pl.DataFrame, activities: pl.DataFrame, sequence: pl.Series
) -> list[Product | None]:
    """Shape of each product whose operator recorded its inputs; None for everything else."""
    rows = activities["op_row"].set(sequence != Letter.GEMM.value, None)
    dims = take(events["input_dims"], rows).cast(pl.String)
    shapes = {text: product_of(text) for text in dims.unique().drop_nulls()}
    products: list[Product | None] = [None] * dims.len()
    rows_with = dims.is_not_null().arg_true()
    for row, text in zip(rows_with.to_list(), dims.drop_nulls().to_list(), strict=True):
        products[row] = shapes[text]
    return products


def product_of(dims: str) -> Product | None:
    """Two matrices [M, K] and [K, N], or batches of them, among the inputs of an operator."""
    try:
        shapes = msgspec.json.decode(dims)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(shapes, list):
        return None
    matrices = [s for s in shapes if _is_matrix(s)]
    if len(matrices) < 2:
        return None
    left, right = matrices[-2:]
    if len(left) != len(right) or left[-1] != right[-2]:
        return None
    return Product(left[0] if len(left) == 3 else 1, right[-2], right[-1])


def _is_matrix(shape: object) -> bool:
    return (
        isinstance(shape, list)
        and len(shape) in (2, 3)
        and all(isinstance(size, int) for size in shape)
    )
