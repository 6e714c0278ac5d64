"""Write the sections of docs/reference/operators.md, one per operator, from their files."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable

from generate import ROOT, Files, main, replace_part

from solscope.operators import OPERATOR_MODULES, operator
from solscope.operators.base import Operator

PAGE = ROOT / "docs" / "reference" / "operators.md"


def files() -> Files:
    """The page."""
    sections = [section(operator(name)) for name in OPERATOR_MODULES]
    return replace_part(PAGE, "operators", "\n".join(sections))


def section(op: Operator) -> str:
    """One operator: what, axes, and the docstring of its file, which has the formulas."""
    optional = f"; optional {_words(op.optional)}" if op.optional else ""
    suite = f", in the suite as `{op.suite_id}`" if op.suite_id else ""
    text = inspect.getdoc(sys.modules[OPERATOR_MODULES[op.name]]) or ""
    return (
        f"### {op.name}\n\n{op.title}. Category `{op.category}`{suite}.\n"
        f"Axes: {_words(op.axes)}{optional}.\n\n```text\n{text}\n```\n"
    )


def _words(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.exit(main([files]))
