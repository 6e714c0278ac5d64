"""The classic comparison as Markdown: its sections, its columns, and what they do not say."""

from __future__ import annotations

from collections.abc import Sequence

from solscope.diagnose.classic import FINDING_FROM, Classic, ClassicFinding, ClassicRow
from solscope.names import short_name
from solscope.report.forms import Screen, form
from solscope.text import clean, shorten

NAME_WIDTH = 60
"""Characters of a function's name, unless names are printed whole."""
_SIGNIFICANT = 0.05
"""p below which a change is called significant: the usual one."""


def markdown_classic(result: Classic, top: int | None = None, *, full_names: bool = False) -> str:
    """The whole report, one per process; `top` limits the rows of its two long tables."""
    reports = (result, *result.others)
    return "\n".join(
        _report(report, top, full_names, several=len(reports) > 1) for report in reports
    )


def _report(result: Classic, top: int | None, full_names: bool, *, several: bool) -> str:
    a, b = _label(result.normal.label), _label(result.abnormal.label)
    before, after = (f", process {pid}" if several else "" for pid in result.processes)
    parts = [
        f"# Cross Performance Comparison: {a}{before} vs {b}{after}",
        *_warnings(result),
        "## 1. High-Level Performance Summary",
        _summary(result, a, b),
        "## 2. Cycle Duration Distribution Comparison",
        _durations(result, a, b, top),
        "## 3. In-depth Core Metric Comparison",
        "### Overview",
        _overview(result, a, b),
        "### Key Findings:",
        _findings(result, full_names),
        "### Detailed comparison table",
        "This table aggregates the performance of each (function, metric, device) triplet across "
        "both runs, sorted by **Suspicion Score** in descending order.",
        _details(result, a, b, top, full_names),
        "## 4. Formulas",
        "\n".join(f"- **{name}**: {text}" for name, text in result.formulas.items()),
        "## 5. Legend",
        _LEGEND,
    ]
    return "\n\n".join(parts) + "\n"


_LEGEND = """\
- **β (Beta)**: The percentage of total cycle time consumed by this function.
- **μ (Mu)**: The average utilization or counter value of an associated resource during the function's execution.
- **Device**: The device associated with the metric (e.g., GPU ID, CPU core).
- **Z-Score(β/log_μ)**: The change in units of the spread of the normal run; large when that spread is small, however small the change.
- **p-value/U-test p**: The p-value from a statistical test; 1 with fewer than two cycles on a side, where nothing was tested.
- **n**: Cycles behind the figures, normal/abnormal.
- **Suspicion Score**: A composite score `|Δβ| * (|Z-Score(β)| + |Z-Score(log_μ)|)` to rank potential issues. It measures neither time nor cause: see `solscope diagnose` without `--classic`."""  # noqa: E501


def _label(text: str) -> str:
    return _cell(text)


def _code(text: str) -> str:
    """For a span of code."""
    return clean(text).replace("|", "\\|").replace("`", "'")


def _cell(text: str) -> str:
    """For plain text, where the parameters of a template would be read as HTML."""
    return _code(text).replace("<", "&lt;")


def _warnings(result: Classic) -> list[str]:
    if not result.warnings:
        return []
    lines = [f"> - **{w.code}**: {_cell(w.message)}" for w in result.warnings]
    return ["> **What this report does not say by itself**\n>\n" + "\n".join(lines)]


def _summary(result: Classic, a: str, b: str) -> str:
    n, m = result.normal, result.abnormal
    delta = "not comparable" if result.delta_us is None else f"{result.delta_us:,.2f}"
    change = "not comparable" if result.change_pct is None else f"{result.change_pct:.2f}%"
    rows = [
        ["Unit of a cycle", _cell(n.unit), _cell(m.unit), "-", "-"],
        ["Total Cycles", f"{n.cycles:,}", f"{m.cycles:,}", f"{m.cycles - n.cycles:,}", "-"],
        ["Avg Cycle Time (us)", f"{n.mean_us:,.2f}", f"{m.mean_us:,.2f}", delta, change],
    ]
    return _table(["Metric", a, b, f"Δ ({b} - {a})", "Change (%)"], rows, "lllll")


def _durations(result: Classic, a: str, b: str, top: int | None) -> str:
    first, second = result.normal.durations_us, result.abnormal.durations_us
    count = max(len(first), len(second))
    shown = count if top is None else min(top, count)
    rows = []
    for index in range(shown):
        x = first[index] if index < len(first) else None
        y = second[index] if index < len(second) else None
        both = None if x is None or y is None or not result.like_units else y - x
        rows.append(
            [
                str(index + 1),
                _number(x),
                _number(y),
                _number(both),
                "-" if both is None or not x else f"{100 * both / x:.2f}%",
            ]
        )
    heads = ["Time Rank", f"{a} Time (us)", f"{b} Time (us)", "Δ (us)", "Δ (%)"]
    rest = "" if shown == count else f"\n\n{count - shown} more ranks: --json has all."
    return _table(heads, rows, "rrrrr") + rest


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"


def _overview(result: Classic, a: str, b: str) -> str:
    if not result.findings:
        return f"No function has a Suspicion Score above {FINDING_FROM:g}."
    row = result.findings[0].rows[0]
    moved = "an increase" if row.delta_beta_pct > 0 else "a decrease"
    return (
        f"The highest Suspicion Score between `{a}` and `{b}` has **`{_code(row.function)}`**, "
        f"with {moved} in its contribution to total cycle time. A score is not a cause: read the "
        "warnings above first."
    )


def _findings(result: Classic, full_names: bool) -> str:
    if not result.findings:
        return "None."
    lines = [line for finding in result.findings for line in _finding(finding, full_names)]
    return "\n".join(lines)


def _finding(finding: ClassicFinding, full_names: bool) -> list[str]:
    row = finding.rows[0]
    name = _code(finding.function if full_names else short_name(finding.function))
    lines = [
        f"- **`{name}` on device `{finding.device}`:**",
        f"  - Its contribution to total cycle time (β) **{_direction(row.delta_beta_pct)}** from "
        f"**{row.beta_normal_pct:.2f}%** to **{row.beta_abnormal_pct:.2f}%** "
        f"({row.delta_beta_pct:+.2f} ppt), {_significance(row)}.",
    ]
    if row.call_us_normal and row.call_us_abnormal:
        lines.append(
            f"  - Its time per call went from {row.call_us_normal:,.2f} to "
            f"{row.call_us_abnormal:,.2f} us (×{row.call_us_abnormal / row.call_us_normal:.2f})."
        )
    lines.append("  - Resource metrics (μ) read while it ran:")
    lines += [
        f"    - **`{_code(r.metric)}`**: {_direction(r.delta_mu)} from {r.mu_normal:,.2f} to "
        f"{r.mu_abnormal:,.2f}."
        for r in finding.rows
    ]
    return lines


def _direction(delta: float) -> str:
    return "increased" if delta > 0 else "decreased" if delta < 0 else "unchanged"


def _significance(row: ClassicRow) -> str:
    if not row.tested:
        return f"not tested (n = {row.n_normal}/{row.n_abnormal})"
    if row.p_beta is None:
        return "p-value not defined"
    if row.p_beta < _SIGNIFICANT:
        return f"which is statistically significant (p-value: {_p(row.p_beta, True)})"
    return f"though this change may not be statistically significant (p-value: {row.p_beta:.3f})"


def _details(result: Classic, a: str, b: str, top: int | None, full_names: bool) -> str:
    heads = [
        "Function Name", "Metric Name", "Device", "Suspicion Score",
        f"β_{a}(%)", f"β_{b}(%)", "Δβ(%)", "Z-Score(β)", "p-value(β)", "U-test p(β)",
        f"μ_{a}", f"μ_{b}", "Δμ", "Z-Score(μ)", "Z-Score(log_μ)", "p-value(μ)", "U-test p(μ)", "n",
    ]  # fmt: skip
    shown = result.rows if top is None else result.rows[:top]
    rows = [_detail(row, full_names) for row in shown]
    lost = len(result.rows) - len(shown)
    rest = f"\n\n{lost} more rows: --json has all." if lost else ""
    return _table(heads, rows, "lll" + "r" * 15) + rest


def _detail(row: ClassicRow, full_names: bool) -> list[str]:
    name = row.function if full_names else shorten(short_name(row.function), NAME_WIDTH)
    return [
        _cell(name),
        _cell(row.metric),
        row.device,
        f"{row.suspicion_score:.4f}",
        *(f"{v:.2f}" for v in (row.beta_normal_pct, row.beta_abnormal_pct)),
        *(_plain(v) for v in (row.delta_beta_pct, row.z_beta)),
        _p(row.p_beta, row.tested),
        _p(row.u_p_beta, row.tested),
        *(f"{v:,.2f}" for v in (row.mu_normal, row.mu_abnormal)),
        *(_plain(v) for v in (row.delta_mu, row.z_mu, row.z_log_mu)),
        _p(row.p_mu, row.tested),
        _p(row.u_p_mu, row.tested),
        f"{row.n_normal}/{row.n_abnormal}",
    ]


def _plain(value: float) -> str:
    """Two decimals, and no minus sign before a zero."""
    return f"{round(value, 2) + 0.0:,.2f}"


def _p(value: float | None, tested: bool) -> str:
    if not tested:
        return "1 (not tested)"
    if value is None:
        return "nan"
    return "<0.001" if value < 0.0005 else f"{value:.3f}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> str:
    widths = [max(len(row[index]) for row in (heads, *rows)) for index in range(len(heads))]
    ruler = [
        ":" + "-" * (width + 1) if side == "l" else "-" * (width + 1) + ":"
        for width, side in zip(widths, align, strict=True)
    ]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if side == "l" else cell.rjust(width)
            for cell, width, side in zip(cells, widths, align, strict=True)
        )
        return "| " + " | ".join(padded) + " |"

    return "\n".join([line(heads), "|" + "|".join(ruler) + "|", *map(line, rows)])


@form("diagnose_classic", Classic)
def _classic(result: Classic, _: Screen, *, top: int | None) -> str:
    return markdown_classic(result, top)
