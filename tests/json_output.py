"""The JSON of a command, checked against the schema that it names."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from solscope.report.schemas import json_schema


def document(out: str) -> Any:
    """What a command printed; it must have the form it says, and no field that is not declared."""
    found = json.loads(out)
    name = found["schema"].removeprefix("solscope.").partition("/")[0]
    problems = [
        f"{'/'.join(map(str, error.absolute_path))}: {error.message[:300]}"
        for error in _validator(name).iter_errors(found)
    ]
    assert problems == []
    return found


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(_closed(json_schema(name)))


def _closed(schema: Any) -> Any:
    """The schema without room for more fields than it names, as a later version may have."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: _closed(value) for key, value in schema.items()}
    return {"additionalProperties": False, **parts} if "properties" in schema else parts
