"""`solscope hardware`."""

from __future__ import annotations

from pathlib import Path

import click

from solscope.cli import completion
from solscope.cli.arguments import STDOUT, OutputPath
from solscope.cli.options import flag_option
from solscope.cli.output import Output, check_one_stdout, json_option, present, written


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
def list_command(output: Output) -> None:
    """List all GPUs with hardware data.

    \b
    Examples:
      solscope hardware list
    """
    from solscope.hardware import find, names

    present({"hardware": [find(name) for name in names()]}, output)


@command.command("show")
@click.argument(
    "names",
    nargs=-1,
    required=True,
    metavar="NAME...",
    shell_complete=completion.hardware_or_file,
)
@flag_option("--measured", "Use measured figures where available.")
@json_option
def show_command(names: tuple[str, ...], measured: bool, output: Output) -> None:
    """Show all figures of one GPU with unit, source and date, or several GPUs side by side.

    NAME is a short name (H100 is the SXM module, H100-PCIe the card; case is ignored) or a .toml
    file.

    \b
    Examples:
      solscope hardware show B200
      solscope hardware show H200 --measured
      solscope hardware show H100 B200
    """
    from solscope.hardware import find

    present({"hardware": [find(name, measured=measured) for name in names]}, output)


@command.command("measure")
@click.option(
    "--out",
    type=OutputPath(stdout=True),
    metavar="FILE",
    help="File to write, or - for standard output. Default: NAME.measured.toml next to the "
    "vendor's file.",
)
@flag_option("--force", "Overwrite an existing file.")
@json_option
def measure_command(out: Path | None, force: bool, output: Output) -> None:
    """Measure the GPU of this machine and write a hardware file.

    Needs PyTorch and takes one to three minutes on an idle GPU. It changes no GPU settings.

    \b
    Examples:
      solscope hardware measure
      solscope hardware measure --out mine.toml
    """
    from solscope.hardware import load, measured_path
    from solscope.measure import card_name, measure
    from solscope.measure.file import check_free, write

    check_one_stdout(out, as_json=output.as_json)
    path = out or measured_path(card_name())
    if path != STDOUT:
        check_free(path, force=force)
    measured = measure(lambda line: click.echo(line, err=True))
    with written(path) as work:
        write(measured, work, force=force)
    if path == STDOUT:
        return
    click.echo(f"wrote {path}", err=True)
    present({"hardware": [load(path)]}, output)
