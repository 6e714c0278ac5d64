"""Write every generated file, or name those that are out of date.

    python scripts/generate.py [--check]

With --check nothing is written and the exit code is 1 if a file is out of date; a test does the
same. Each `generate_*.py` is also a program that writes, or checks, its own files only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[1]
GENERATORS = (
    "generate_command_table",
    "generate_commands",
    "generate_schemas",
    "generate_types",
    "generate_readers",
    "generate_operators",
    "generate_causes",
)
"""Modules with a function `files`, imported one after the other: the table of commands must be
written before the program is imported whose help texts the next one reads."""

Files = Mapping[Path, str | None]
"""Contents by path; null for a file that must not exist."""


def stale(files: Files) -> list[Path]:
    """Files that differ from what they should contain."""
    return sorted(path for path, text in files.items() if text != _current(path))


def write(files: Files) -> list[Path]:
    """Write or remove the files that are out of date, and return them."""
    changed = stale(files)
    for path in changed:
        text = files[path]
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return changed


def replace_part(page: Path, name: str, text: str) -> dict[Path, str | None]:
    """A page with `text` between its marks `<!-- NAME -->` and `<!-- end of NAME -->`."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, first, rest = page.read_text(encoding="utf-8").partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise SystemExit(f"{page}: the marks {begin.strip()} and {end} are missing")
    return {page: f"{before}{begin}\n{text}\n{end}{after}"}


def main(generators: Iterable[Callable[[], Files]]) -> int:
    """Write the files, or check them."""
    check = "--check" in sys.argv[1:]
    changed = [path for files in generators for path in (stale if check else write)(files())]
    for path in changed:
        name = path.relative_to(ROOT).as_posix()
        print(f"{name} is out of date: run `make generated`" if check else f"{name} is rewritten")
    return int(check and bool(changed))


def _current(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main(import_module(name).files for name in GENERATORS))
