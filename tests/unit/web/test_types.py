"""The types of the front end are those of the answers."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "generate_types.py"))


def test_the_committed_types_are_those_of_the_api(script: dict[str, Any]) -> None:
    committed = (ROOT / "frontend" / "src" / "types.ts").read_text(encoding="utf-8")
    assert committed == script["render"](), "run `make types`"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "integer"}, "number"),
        ({}, "unknown"),
        ({"enum": ["a", 1]}, '"a" | 1'),
        ({"$ref": "#/components/schemas/solscope.a.b.Row"}, "BRow"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string | null"),
        (
            {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "null"}]}},
            "(number | null)[]",
        ),
        (
            {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]},
            "[string, number]",
        ),
        (
            {"type": "object", "additionalProperties": {"type": "number"}},
            "Record<string, number>",
        ),
        ({"type": "object"}, "Record<string, unknown>"),
    ],
)
def test_schemas_as_typescript(
    script: dict[str, Any], schema: dict[str, Any], expected: str
) -> None:
    assert script["_type"](schema) == expected
