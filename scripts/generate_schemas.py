"""Write docs/reference/schemas/NAME.json, the JSON Schema of every command's output.

    python scripts/generate_schemas.py [--check]

With --check nothing is written and the exit code is 1 if a file is missing, out of date or of a
form that no longer exists; a test does the same.
"""

from __future__ import annotations

import sys

import msgspec
from generate import ROOT, Files, main

from solscope.report.forms import all_forms
from solscope.report.schemas import json_schema

FOLDER = ROOT / "docs" / "reference" / "schemas"


def files() -> Files:
    """A file per form; those of forms that no longer exist are removed."""
    return dict.fromkeys(FOLDER.glob("*.json")) | {
        FOLDER / f"{name}.json": render(name) for name in all_forms()
    }


def render(name: str) -> str:
    """The schema of one form."""
    schema = msgspec.json.encode(json_schema(name))
    return msgspec.json.format(schema, indent=2).decode() + "\n"


if __name__ == "__main__":
    sys.exit(main([files]))
