"""`solscope hardware`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from solscope.cli import completion
from solscope.cli.arguments import STDOUT, OutputPath
from solscope.cli.options import json_option
from solscope.cli.output import check_one_stdout, emit, emit_json, written
from solscope.cli.screen import terminal_width, use_color

if TYPE_CHECKING:
    from collections.abc import Sequence

    from solscope.hardware import Hardware


@click.group("hardware", short_help="Show the peak figures of GPUs, or measure one.")
def command() -> None:
    """Show the peak figures of GPUs with their sources, or measure the GPU of this machine.

    \b
    Examples:
      solscope hardware list
      solscope hardware show H100
      solscope hardware show H100 H200 MI300X
      solscope hardware measure --out h200.measured.toml
    """


@command.command("list")
@json_option
def list_command(as_json: bool) -> None:
    """List all GPUs with hardware data."""
    from solscope.hardware import find, names
    from solscope.report.results.hardware import render_list

    known = [find(name) for name in names()]
    if as_json:
        _emit_json(known)
    else:
        emit(render_list(known, width=terminal_width(), color=use_color()))


@command.command("show")
@click.argument(
    "names",
    nargs=-1,
    required=True,
    metavar="NAME...",
    shell_complete=completion.hardware_or_file,
)
@click.option("--measured", is_flag=True, help="Use measured figures where available.")
@json_option
def show_command(names: tuple[str, ...], measured: bool, as_json: bool) -> None:
    """Show all figures of one GPU with unit, source and date, or several GPUs side by side.

    NAME is a short name (H100 is the SXM module, H100-PCIe the card; case is ignored) or a .toml
    file.
    """
    from solscope.hardware import find
    from solscope.report.results.hardware import render_show

    chosen = [find(name, measured=measured) for name in names]
    if as_json:
        _emit_json(chosen)
    else:
        emit(render_show(chosen, width=terminal_width(), color=use_color()))


@command.command("measure")
@click.option(
    "--out",
    type=OutputPath(stdout=True),
    metavar="FILE",
    help="File to write, or - for standard output. Default: NAME.measured.toml next to the "
    "vendor's file.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@json_option
def measure_command(out: Path | None, force: bool, as_json: bool) -> None:
    """Measure the GPU of this machine and write a hardware file.

    Needs PyTorch and takes one to three minutes on an idle GPU. It changes no GPU settings.
    """
    from solscope.hardware import load, measured_path
    from solscope.hardware.measure import card_name, check_free, measure, write
    from solscope.report.results.hardware import render_show

    check_one_stdout(out, as_json=as_json)
    path = out or measured_path(card_name())
    if path != STDOUT:
        check_free(path, force=force)
    measured = measure(lambda line: click.echo(line, err=True))
    with written(path) as work:
        write(measured, work, force=force)
    if path == STDOUT:
        return
    click.echo(f"wrote {path}", err=True)
    if as_json:
        _emit_json([load(path)])
    else:
        emit(render_show([load(path)], width=terminal_width(), color=use_color()))


def _emit_json(hardware: Sequence[Hardware]) -> None:
    emit_json({"hardware": list(hardware)})
