"""Hooks of the documentation site: pages that live outside docs/, and links that leave it.

README, CHANGELOG and benchmarks/README.md become pages of the site. A link between any two pages is
resolved as on the forge, relative to the file it is written in, and rewritten for the site; a link
to a file that is not a page (LICENSE, a source file) keeps only its text.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "docs/README.md": "overview.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
}
"""Page of the site by file of the repository; files in docs/ keep their path."""
SOURCES = {page: file for file, page in PAGES.items()}

_FENCE = re.compile(r"(^[ ]*```.*?^[ ]*```[ ]*$)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside docs/; docs/README.md moves, since the README is the home page."""
    old = files.get_file_from_path("README.md")
    if old is not None:
        files.remove(old)
    for source, page in PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, files: Files, **_: Any) -> str:
    """Rewrite the links of a page, except in code blocks."""
    own = page.file.src_uri
    source = SOURCES.get(own, f"docs/{own}")

    def rewritten(match: re.Match[str]) -> str:
        mark, text, target = match.groups()
        path, hash_, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return match.group()
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        to = PAGES.get(file, file.removeprefix("docs/") if file.startswith("docs/") else "")
        if not to or files.get_file_from_path(to) is None:
            if not (ROOT / file).exists():
                return match.group()  # MkDocs reports it
            return text
        to = os.path.relpath(to, posixpath.dirname(own) or ".")
        return f"{mark}[{text}]({to}{hash_}{anchor})"

    parts = _FENCE.split(markdown)
    return "".join(p if i % 2 else _LINK.sub(rewritten, p) for i, p in enumerate(parts))
