"""Results as JSON: the field names are those of the result types in `views/`."""

from __future__ import annotations

from typing import Any

import msgspec

SCHEMA_VERSION = 1


def schema_id(name: str) -> str:
    """What the JSON of a command says that it is; `name` is `show`, `corpus_importance`, ..."""
    return f"solscope.{name}/{SCHEMA_VERSION}"


def render_json(result: Any, schema: str | None = None) -> str:
    """`result` (Structs, lists, dicts) as indented JSON; what is not finite becomes null.

    `schema` names the form of an object, as its first field.
    """
    encoded = msgspec.json.encode(result)
    if schema is not None:
        head = msgspec.json.encode({"schema": schema_id(schema)}).removesuffix(b"}")
        encoded = head + (b"}" if encoded == b"{}" else b"," + encoded.removeprefix(b"{"))
    return msgspec.json.format(encoded, indent=2).decode()
