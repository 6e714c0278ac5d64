"""Lines about a profile that several pages print: what is known of it, and what is unsafe."""

from __future__ import annotations

from collections.abc import Sequence

from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.tables import share_known, warning_lines
from solscope.text import clean
from solscope.views.summary import Summary
from solscope.views.verdict import Verdict


def verdict_lines(verdict: Verdict) -> list[Printable]:
    """What is wrong, and what to run next."""
    lines: list[Printable] = [Text(clean(verdict.sentence), style="bold")]
    if verdict.next is not None:
        lines.append(Text(f"next: {clean(verdict.next)}"))
    return lines


def coverage_line(s: Summary) -> str:
    """What is known, in one line."""
    c = s.coverage
    shares = (
        ("linked to a launch", c.linked_pct),
        ("classified", c.classified_pct),
        ("matched only by a generic rule", c.generic_pct),
        ("with operator", c.op_pct),
        ("with shapes", c.shapes_pct),
        ("placed in a layer", c.layer_pct),
        ("with role", c.role_pct),
    )
    known = [f"{label} {share_known(value)}" for label, value in shares if value is not None]
    return "coverage of GPU time: " + (", ".join(known) or "nothing ran")


def warnings_by_name(summaries: Sequence[Summary], names: Sequence[str]) -> list[Printable]:
    """The warnings of several profiles, each below its name."""
    parts: list[Printable] = [Text("")]
    for name, s in zip(names, summaries, strict=True):
        if s.warnings:
            parts += [Text(clean(name), style="bold"), *warning_lines(s.warnings)]
    return parts if len(parts) > 1 else []
