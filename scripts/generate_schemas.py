"""Write docs/reference/schemas/NAME.json, the JSON Schema of every command's output.

    python scripts/generate_schemas.py [--check]

With --check nothing is written and the exit code is 1 if a file is missing, out of date or of a
form that no longer exists; a test does the same.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from solscope.report.forms import all_forms
from solscope.report.schemas import json_schema

FOLDER = Path(__file__).parents[1] / "docs" / "reference" / "schemas"


def render() -> dict[str, str]:
    """Contents by file name."""
    return {
        f"{name}.json": msgspec.json.format(
            msgspec.json.encode(json_schema(name)), indent=2
        ).decode()
        + "\n"
        for name in all_forms()
    }


def outdated() -> list[str]:
    """Files that are not what `render` makes."""
    made = render()
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    return sorted(name for name in made.keys() | there.keys() if made.get(name) != there.get(name))


def main() -> int:
    """Write the files, or check them."""
    if "--check" in sys.argv:
        for name in outdated():
            sys.stderr.write(f"{FOLDER / name} is out of date: run `make schemas`\n")
        return 1 if outdated() else 0
    FOLDER.mkdir(exist_ok=True)
    made = render()
    for path in FOLDER.glob("*.json"):
        if path.name not in made:
            path.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
