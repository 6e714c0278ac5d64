"""The public suite: 30 operators, 440 hot shapes, their importance, and how far kernels are.

`data.py` loads the file that ships with solscope, `axes.py` turns its shapes into axes of our
operators, `published.py` computes the figures as the suite's public page prints them, and
`tables.py` puts them beside our own bounds.
"""

from __future__ import annotations

from solscope.suite.tables import suite_list, suite_roofline, suite_shapes

__all__ = ["suite_list", "suite_roofline", "suite_shapes"]
