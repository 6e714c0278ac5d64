"""Columns from decoded events, for the pure-Python scanner.

Nearly all of that scanner's time is spent here, so the common case of each column (all integers,
all floats, mostly absent) is handled whole, and single values only where that fails.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np

NULL = np.iinfo(np.int64).min
NONE = np.iinfo(np.uint32).max
MAX_TIME_NS = 4_000_000_000_000_000_000
MAX_DUR_NS = 100_000_000_000_000
EXACT_US = 2**53 / 1000
"""Above this many microseconds a float no longer holds whole nanoseconds."""

Column = np.ndarray[Any, Any]
ABSENT = msgspec.Raw()
"""Default of a raw argument that an event does not have."""


class Interned:
    """Codes for hashable values, in order of first sight."""

    def __init__(self) -> None:
        self.codes: dict[Any, int] = {}

    def texts(self, values: Sequence[Any]) -> Column:
        """Codes of strings; anything else is null."""
        try:
            distinct = dict.fromkeys(values)
        except TypeError:  # lists or objects where a string belongs
            return self.texts([value if isinstance(value, str) else None for value in values])
        lookup = {
            value: self.codes.setdefault(value, len(self.codes)) if isinstance(value, str) else NONE
            for value in distinct
        }
        return np.array([lookup[value] for value in values], np.uint32)

    def raws(self, values: Sequence[msgspec.Raw]) -> Column:
        """Codes of raw JSON values; absent and null ones are null."""
        column = np.full(len(values), NONE, np.uint32)
        present = [at for at, value in enumerate(values) if value is not ABSENT]
        raws = [bytes(values[at]) for at in present]
        lookup = {
            raw: NONE if raw == b"null" else self.codes.setdefault(raw, len(self.codes))
            for raw in dict.fromkeys(raws)
        }
        column[present] = [lookup[raw] for raw in raws]
        return column


class Numbers:
    """Number columns; counts values that are out of any sensible range."""

    def __init__(self) -> None:
        self.wild = 0

    def integers(self, values: Sequence[Any], *, count_wild: bool = True) -> Column:
        """Whole numbers; numbers in quotes count, other text is null."""
        types = set(map(type, values))
        if types == {int}:
            try:
                return np.array(values, np.int64)
            except OverflowError:
                pass
        column = np.full(len(values), NULL, np.int64)
        if types == {type(None)}:
            return column
        most = 2**63 - 1
        present = [at for at, value in enumerate(values) if value is not None]
        column[present] = [
            value
            if type(value := values[at]) is int and -most <= value <= most
            else self.scaled(value, 1, most, count_wild)
            for at in present
        ]
        return column

    def nanoseconds(self, values: Sequence[Any], most: int) -> Column:
        """Microseconds of any form as nanoseconds, exact where the text is."""
        types = set(map(type, values))
        if types <= {int, float} and values:
            numbers = np.array(values, np.float64)
            if np.abs(numbers).max() * 1000 < min(most, 2**53):
                return _rounded(numbers * 1000)
        if types == {int} and max(map(abs, values)) * 1000 <= most:
            return np.array(values, np.int64) * 1000
        return np.fromiter((self.scaled(v, 1000, most, True) for v in values), np.int64)

    def scaled(self, value: Any, scale: int, most: int, count_wild: bool) -> int:
        """`value` times `scale`, rounded half up; `NULL` for what is no number."""
        if value is None or isinstance(value, (bool, list, dict)):
            return NULL
        if type(value) is float and abs(value) < EXACT_US:
            product = value * scale
            whole = round(product) if abs(product) >= 2**51 else math.floor(product + 0.5)
        else:
            number = _decimal(value)
            if number is None or not number.is_finite():
                return NULL
            if number.adjusted() > 30:
                whole = most + 1
            else:
                whole = int((number * scale).to_integral_value("ROUND_HALF_UP"))
        if abs(whole) > most:
            self.wild += count_wild
            return NULL
        return whole


def _rounded(scaled: Column) -> Column:
    # From 2**51 on, adding a half is itself rounded; the product is whole enough there.
    large = np.abs(scaled) >= 2**51
    return np.where(large, np.rint(scaled), np.floor(scaled + 0.5)).astype(np.int64)


def _decimal(value: Any) -> Decimal | None:
    try:
        return Decimal(value.strip() if isinstance(value, str) else value)
    except (ArithmeticError, ValueError, TypeError):
        return None
