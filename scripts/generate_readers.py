"""Write the sections of docs/reference/readers.md, one per reader, from their docstrings."""

from __future__ import annotations

import inspect
import sys
from importlib import import_module

from generate import ROOT, Files, main, replace_part

from solscope.readers import READER_MODULES
from solscope.readers.base import Reader

PAGE = ROOT / "docs" / "reference" / "readers.md"


def files() -> Files:
    """The page."""
    readers = [import_module(module).READER for module in READER_MODULES.values()]
    return replace_part(PAGE, "readers", "\n".join(map(section, readers)))


def section(reader: Reader) -> str:
    """The docstring of the class, which is Markdown."""
    return f"## {reader.name}\n\n{inspect.getdoc(type(reader))}\n"


if __name__ == "__main__":
    sys.exit(main([files]))
