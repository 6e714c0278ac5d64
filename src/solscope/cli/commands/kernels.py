"""`solscope kernels`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from solscope.cli.arguments import ProfilePath
from solscope.cli.opening import open_with_companion, pick_step
from solscope.cli.options import (
    OpeningOptions,
    choice_option,
    companion_option,
    full_names_option,
    opening_options,
    step_options,
)
from solscope.cli.output import Output, form_options, present

if TYPE_CHECKING:
    from solscope.views.kernels import GroupBy


@click.command("kernels", short_help="List kernels, copies and fills with statistics.")
@click.argument("file", type=ProfilePath(), required=False, metavar="[FILE]")
@choice_option(
    "--by",
    ["name", "short", "category", "op", "call"],
    "What a row represents; a call is a kernel together with its helper kernels.",
)
@click.option("--top", type=click.IntRange(min=1), help="Rows to print. Default: all.")
@click.option(
    "--explain", metavar="NAME", help="Show which rule classifies this kernel name, and why."
)
@click.option("--op", metavar="NAME", help="With --explain: the operator that launched the kernel.")
@step_options
@companion_option
@full_names_option
@opening_options
@form_options
def command(
    file: str | None,
    by: GroupBy,
    top: int | None,
    explain: str | None,
    op: str | None,
    step: int | None,
    slowest: bool,
    companion: str | None,
    full_names: bool,
    opening: OpeningOptions,
    output: Output,
) -> None:
    """List what ran on the GPU: kernels, copies and fills, with call counts and times.

    Times are µs per call unless a column says otherwise. Shares are of all GPU activity time and
    add up to 100 %.

    \b
    Examples:
      solscope kernels --top 20 trace.json.gz
      solscope kernels --by category report.sqlite
      solscope kernels --by op trace.json.gz --json
      solscope kernels --slowest --top 10 trace.json.gz
      solscope kernels --explain nvjet_tst_128x8_64x12_2x1_v_bz_TNT
    """
    if explain is not None:
        _explain(explain, op, opening, output)
        return
    if file is None:
        raise click.UsageError("missing profile: add FILE, or use --explain NAME")
    attributed = open_with_companion(file, opening, companion)
    from solscope import kernels, summarize

    attributed = pick_step(attributed, step, slowest)
    result = kernels(attributed, by)
    if output.as_json:
        import msgspec

        result = msgspec.structs.replace(result, kernels=result.kernels[:top])
        present({"profiles": [result]}, output)
        return
    summary = summarize(attributed, 0)
    present({"profiles": [result]}, output, summary=summary, top=top, full_names=full_names)


def _explain(name: str, op: str | None, opening: OpeningOptions, output: Output) -> None:
    from solscope import load_rules

    # Arguments that are not valid UTF-8 arrive as surrogates, which cannot be printed.
    printable = name.encode(errors="replace").decode()
    present(load_rules(opening.rule_files).explain(printable, op), output, form="kernels_explain")
