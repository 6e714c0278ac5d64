"""Types of answers as TypeScript; `test_generated.py` compares the committed ones."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[3] / "scripts"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return import_module("generate_types")


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
def test_schemas_as_typescript(script: ModuleType, schema: dict[str, Any], expected: str) -> None:
    assert script._type(schema) == expected
