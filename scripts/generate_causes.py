"""Write the sections of docs/reference/causes.md, one per cause, from their declarations."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable

from generate import ROOT, Files, main, replace_part

from solscope.diagnose.causes import OWN_CAUSES
from solscope.diagnose.causes.base import Cause
from solscope.diagnose.evidence.base import Check, statement

PAGE = ROOT / "docs" / "reference" / "causes.md"
WIDTH = 132


def files() -> Files:
    """The page."""
    return replace_part(PAGE, "causes", "\n".join(map(section, OWN_CAUSES)))


def section(cause: Cause) -> str:
    """What the cause is, what it takes, and what to do next."""
    parts = {
        "Required": _sentences(cause.required),
        "Supporting": _sentences(support.check for support in cause.supporting),
        "Ruled out by": _sentences(cause.forbidden),
        "To confirm": cause.confirm and f"{cause.confirm}.",
    }
    items = [_wrapped(f"- **{name}**: {text}", "  ") for name, text in parts.items() if text]
    title = f"### {cause.id}\n\n**{cause.title}**. Family: {cause.family}.\n"
    return "\n".join([title, _wrapped(cause.summary), "", *items, ""])


def _sentences(checks: Iterable[Check]) -> str:
    return " ".join(map(statement, checks))


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


if __name__ == "__main__":
    sys.exit(main([files]))
