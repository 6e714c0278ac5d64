"""The JSON Schema of every form, made from the types of the results.

`make generated` writes them to `docs/reference/schemas/`; a test runs the commands and checks what
they print against these.
"""

from __future__ import annotations

from typing import Any, is_typeddict

import msgspec

from solscope.report.forms import all_forms
from solscope.report.json import schema_id

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of one form."""
    document = all_forms()[name].document
    made = msgspec.json.schema(document)
    parts = made.pop("$defs", {})
    own = made["$ref"].rpartition("/")[2]
    main = parts.pop(own)
    if msgspec.json.encode(made["$ref"]) in msgspec.json.encode([main, parts]):
        parts[own] = main  # It contains others of its kind.
    if is_typeddict(document):
        main.pop("description", None)  # It only names the command, as `$id` does.
        # msgspec sorts the keys of a typed dictionary; commands print them as declared.
        keys = list(document.__annotations__)
        main["properties"] = {key: main["properties"][key] for key in keys}
        main["required"] = keys
    identity = schema_id(name)
    return {
        "$schema": DIALECT,
        "$id": identity,
        **main,
        "properties": {"schema": {"const": identity}, **main["properties"]},
        "required": ["schema", *main.get("required", [])],
        **({"$defs": dict(sorted(parts.items()))} if parts else {}),
    }
