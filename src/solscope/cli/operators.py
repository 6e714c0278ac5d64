"""`solscope operators`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from solscope.cli.common import (
    ProfilePath,
    emit,
    expansion_option,
    hardware_option,
    json_option,
    model_options,
    open_attributed,
    open_model,
    rules_option,
    terminal_width,
    use_color,
)

if TYPE_CHECKING:
    from solscope.views.operators import OperatorsBy


@click.command("operators", short_help="Hold operators against the speed of light.")
@click.argument("file", type=ProfilePath(), metavar="FILE")
@hardware_option
@click.option(
    "--by",
    type=click.Choice(["shape", "operator"]),
    default="shape",
    show_default=True,
    help="What a row stands for.",
)
@click.option("--top", type=click.IntRange(min=1), help="Rows to print; all of them when left out.")
@model_options
@rules_option
@expansion_option
@json_option
def command(
    file: str,
    hardware: str | None,
    by: OperatorsBy,
    top: int | None,
    model: Path | None,
    batch: int | None,
    context: int | None,
    rule_files: tuple[Path, ...],
    max_expansion: int,
    as_json: bool,
) -> None:
    """List operators by shape: time, FLOP, bytes, the least time on this GPU, and what limits it.

    S = bound / time: 100 % is the speed of light. Figures are means per call; shares are of all GPU
    activity time. What has no cost is listed with the reason.

    \b
    Examples:
      solscope operators --top 20 trace.json.gz
      solscope operators --by operator trace.json.gz
      solscope operators --hardware H200 trace.json.gz --json
      solscope operators --model config.json --batch 32 --context 1024 trace.json.gz
    """
    from solscope.views.operators import named_hardware, operator_table

    card = None if hardware is None else named_hardware(hardware)
    config = open_model(model, batch, context)
    result = operator_table(open_attributed(file, rule_files, max_expansion), card, by, config)
    if as_json:
        import msgspec

        from solscope.report.json import render_json

        emit(render_json(msgspec.structs.replace(result, operators=result.operators[:top])))
        return
    from solscope.report.operators import render_operators

    emit(render_operators(result, top=top, width=terminal_width(), color=use_color()))
