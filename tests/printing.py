"""Results as a terminal shows them, for tests of layouts."""

from __future__ import annotations

from typing import Any

from solscope.report.forms import Layout, Screen
from solscope.report.layout.tables import to_text


def printed(
    layout: Layout,
    result: Any,
    *,
    width: int,
    color: bool = False,
    draw: bool = False,
    **options: Any,
) -> str:
    """What `layout` makes of a result in a terminal of this width."""
    parts = layout(result, Screen(width, color, draw), **options)
    assert parts is not None
    return parts if isinstance(parts, str) else to_text(parts, width, color)
