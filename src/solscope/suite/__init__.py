"""Suites: operators, their importance, and the shapes that matter.

`files.py` has the one format of a suite and loads those that ship and those of a user. The public
suite has more: `atrex.py` loads its file, `axes.py` turns its shapes into axes of our operators,
`published.py` computes the figures as its public page prints them, and `tables.py` adds our own
bounds. `show.py` describes one operator; `scale.py` makes shapes small.
"""

from __future__ import annotations

from solscope.suite.files import SuiteFile, load
from solscope.suite.show import describe
from solscope.suite.tables import (
    listed_rows,
    listed_shapes,
    suite_list,
    suite_medians,
    suite_roofline,
    suite_shapes,
)

__all__ = [
    "SuiteFile",
    "describe",
    "listed_rows",
    "listed_shapes",
    "load",
    "suite_list",
    "suite_medians",
    "suite_roofline",
    "suite_shapes",
]
