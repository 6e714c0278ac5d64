"""`solscope hotspots`."""

from __future__ import annotations

from pathlib import Path

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


@click.command("hotspots", short_help="Rank what to fix first.")
@click.argument("file", type=ProfilePath(), metavar="FILE")
@hardware_option
@click.option(
    "--target",
    type=click.FloatRange(0, 100, min_open=True),
    default=80.0,
    show_default=True,
    metavar="PCT",
    help="Share of its bound that an operator is held to.",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    help="Rows to print; JSON has them all.",
)
@model_options
@rules_option
@expansion_option
@json_option
def command(
    file: str,
    hardware: str | None,
    target: float,
    top: int,
    model: Path | None,
    batch: int | None,
    context: int | None,
    rule_files: tuple[Path, ...],
    max_expansion: int,
    as_json: bool,
) -> None:
    """Rank what could be saved per step: slow operators, tiny kernels, communication, idle time.

    \b
    Examples:
      solscope hotspots trace.json.gz
      solscope hotspots --hardware H200 --target 70 trace.json.gz --json
    """
    from solscope.views.hotspots import hotspots
    from solscope.views.operators import named_hardware

    card = None if hardware is None else named_hardware(hardware)
    config = open_model(model, batch, context)
    result = hotspots(open_attributed(file, rule_files, max_expansion), card, target, config)
    if as_json:
        from solscope.report.json import render_json

        emit(render_json(result))
        return
    from solscope.report.hotspots import render_hotspots

    emit(render_hotspots(result, top=top, width=terminal_width(), color=use_color()))
