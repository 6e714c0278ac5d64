"""Results as JSON: the field names are those of the result types in `views/`."""

from __future__ import annotations

from typing import Any

import msgspec


def render_json(result: Any) -> str:
    """`result` (Structs, lists, dicts) as indented JSON; what is not finite becomes null."""
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode()
