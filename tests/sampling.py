"""Cases of which some run by default, and all of them in `make test-long`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def some(cases: Iterable[Any], one_in: int) -> list[Any]:
    """Parameters of a test: the first of every `one_in` cases as it is, the others marked long."""
    return some_rows(((case,) for case in cases), one_in)


def some_rows(rows: Iterable[Sequence[Any]], one_in: int) -> list[Any]:
    """The same for tests of several parameters: each row has them all."""
    return [
        pytest.param(*row, marks=pytest.mark.long if number % one_in else ())
        for number, row in enumerate(rows)
    ]
