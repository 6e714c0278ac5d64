"""Tables in the docs that are made from committed data, between marks of their name."""

from __future__ import annotations

import os
import re
from pathlib import Path


def check_block(page: Path, name: str, wanted: str) -> None:
    """The page has `wanted` between its marks; with SOLSCOPE_UPDATE_GOLDEN it is written there."""
    block = re.compile(rf"(<!-- {name} -->\n)(.*?)(<!-- end of {name} -->)", re.DOTALL)
    text = page.read_text(encoding="utf-8")
    if os.environ.get("SOLSCOPE_UPDATE_GOLDEN"):
        page.write_text(block.sub(lambda m: m[1] + wanted + m[3], text), encoding="utf-8")
        return
    found = block.search(text)
    assert found
    assert found[2] == wanted
