"""Lines about a profile that several pages print: what is known of it, and what is unsafe."""

from __future__ import annotations

from collections.abc import Sequence

from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.quantities import pct, share_known
from solscope.report.layout.tables import warning_lines
from solscope.text import clean
from solscope.views.execution import Execution, GraphUse, Share
from solscope.views.summary import Summary
from solscope.views.verdict import Verdict


def verdict_lines(verdict: Verdict) -> list[Printable]:
    """What is wrong, and what to run next."""
    lines: list[Printable] = [Text(clean(verdict.sentence), style="bold")]
    if verdict.next is not None:
        lines.append(Text(f"next: {clean(verdict.next)}"))
    return lines


def execution_lines(e: Execution) -> list[Printable]:
    """How the program runs, in one line; facts that are not known are left out."""
    facts = [
        _graphs(e),
        None
        if e.compiled_pct is None or e.compiled_pct < 0.05
        else f"compiled kernels {pct(e.compiled_pct)} of kernel time",
        _dtypes(e.dtypes),
        _list("attention ", e.attention or []),
        _list("experts ", e.moe or []),
        None if not e.speculative else "speculative decoding",
        None if not e.chunked_prefill else "chunked prefill",
        None if e.overlap_pct is None else f"communication {pct(e.overlap_pct)} overlapped",
    ]
    stated = [fact for fact in facts if fact]
    return [Text(clean("how it runs: " + "; ".join(stated)))] if stated else []


def _graphs(e: Execution) -> str | None:
    if e.graphs is None:
        return None
    if not e.graphs.kernels_pct:
        return "no graphs"
    by_phase = [f"{use.phase} {_replayed(use)}" for use in e.graphs_by_phase]
    parts = f" ({', '.join(by_phase)})" if by_phase else ""
    return f"graphs {_replayed(e.graphs)} of kernel time{parts}"


def _replayed(use: GraphUse) -> str:
    return pct(use.time_pct)


def _dtypes(shares: Sequence[Share]) -> str | None:
    """Types with their shares of the time of products and attention, the unknown part included."""
    if all(s.name == "unknown" for s in shares):
        return None
    return "products and attention: " + ", ".join(f"{s.name} {pct(s.pct)}" for s in shares)


def _list(head: str, shares: Sequence[Share]) -> str | None:
    """Names with their shares; the share is left out where one has everything."""
    named = [s for s in shares if s.name != "unknown"]
    if not named:
        return None
    if len(shares) == 1:
        return head + named[0].name
    return head + " + ".join(f"{s.name} {pct(s.pct)}" for s in named)


_COVERAGE = {
    "linked to a launch": "linked_pct",
    "classified": "classified_pct",
    "matched only by a generic rule": "generic_pct",
    "with operator": "op_pct",
    "with shapes": "shapes_pct",
    "placed in a layer": "layer_pct",
    "with role": "role_pct",
}


def coverage_line(*summaries: Summary) -> str:
    """What is known, in one line; of several profiles the least and the most."""
    shares = []
    for label, name in _COVERAGE.items():
        stated = [getattr(s.coverage, name) for s in summaries]
        values = sorted(value for value in stated if value is not None)
        if values:
            ends = dict.fromkeys(share_known(value) for value in (values[0], values[-1]))
            shares.append(f"{label} {' to '.join(ends)}")
    return "coverage of GPU time: " + (", ".join(shares) or "nothing ran")


def warnings_by_name(summaries: Sequence[Summary], names: Sequence[str]) -> list[Printable]:
    """The warnings of several profiles, each below its name."""
    parts: list[Printable] = [Text("")]
    for name, s in zip(names, summaries, strict=True):
        if s.warnings:
            parts += [Text(clean(name), style="bold"), *warning_lines(s.warnings)]
    return parts if len(parts) > 1 else []
