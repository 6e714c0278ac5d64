"""Cases of which some run by default, and all of them in `make test-long`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def some(cases: Iterable[Any], one_in: int) -> list[Any]:
    """Parameters of a test: the first of every `one_in` cases as it is, the others marked long."""
    return [
        case if number % one_in == 0 else pytest.param(case, marks=pytest.mark.long)
        for number, case in enumerate(cases)
    ]
