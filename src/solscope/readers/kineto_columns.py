"""Columns from decoded events, for the pure-Python scanner.

Nearly all of that scanner's time is spent here, so the common case of each column (all integers,
all floats, mostly absent) is handled whole, and single values only where that fails.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np

from solscope.patterns import lazy_pattern

NULL = np.iinfo(np.int64).min
NONE = np.iinfo(np.uint32).max
EXACT_US = 2.0**43
"""From this many microseconds on, a float cannot resolve single nanoseconds."""
NUMBER = lazy_pattern(r"[ \n\r\t]*[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?[ \n\r\t]*", re.ASCII)
"""What counts as a number, bare or in quotes."""

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
        present = [index for index, value in enumerate(values) if value is not ABSENT]
        raws = [bytes(values[index]) for index in present]
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
        present = [index for index, value in enumerate(values) if value is not None]
        column[present] = [
            value
            if type(value := values[index]) is int and -most <= value <= most
            else self.scaled(value, 1, most, count_wild)
            for index in present
        ]
        return column

    def nanoseconds(self, values: Sequence[Any], most: int) -> Column:
        """Microseconds of any form as nanoseconds, exact where the text is."""
        types = set(map(type, values))
        if types <= {int, float} and values:
            try:
                numbers = np.array(values, np.float64)
            except OverflowError:  # an integer beyond any float
                numbers = np.array([np.inf])
            if np.abs(numbers).max() < min(most / 1000, EXACT_US):
                return self._rounded(numbers, most)
        if types == {int} and max(map(abs, values)) * 1000 <= most:
            return np.array(values, np.int64) * 1000
        return np.fromiter((self.scaled(v, 1000, most, True) for v in values), np.int64)

    def scaled(self, value: Any, scale: int, most: int, count_wild: bool) -> int:
        """`value` times `scale`, rounded half away from zero; `NULL` if it is not a number."""
        if value is None or isinstance(value, (bool, list, dict)):
            return NULL
        # The shortest text of a float is the one it was read from, up to EXACT_US.
        text = value if isinstance(value, str) else repr(value)
        if not NUMBER.fullmatch(text):
            return NULL
        whole = most + 1
        try:
            number = Decimal(text.strip())
            if number.adjusted() < 30:
                whole = int((number * scale).to_integral_value("ROUND_HALF_UP"))
        except ArithmeticError:  # an exponent beyond any decimal
            pass
        if abs(whole) > most:
            self.wild += count_wild
            return NULL
        return whole

    def _rounded(self, values: Column, most: int) -> Column:
        """Microseconds below EXACT_US as nanoseconds."""
        # Whole and fraction apart, so that no digit is lost in a product.
        size = np.abs(values)
        whole = np.floor(size)
        fraction = (size - whole) * 1000
        rounded = (whole * 1000 + np.floor(fraction + 0.5)).astype(np.int64)
        column = np.where(values < 0, -rounded, rounded)
        # A tie in decimals is none in floats.
        ties = (np.abs(fraction % 1 - 0.5) < 1e-3) & (size < 2**31)
        for index in np.flatnonzero(ties):
            column[index] = self.scaled(float(values[index]), 1000, most, True)
        return column
