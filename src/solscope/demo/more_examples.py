"""Something to try for each command that is not in the tour of `examples.py`.

Written by `make generated` from the examples in the help texts.
"""

from __future__ import annotations

MORE_EXAMPLES: dict[str, tuple[str, str]] = {}
