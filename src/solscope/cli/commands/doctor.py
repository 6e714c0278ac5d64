"""`solscope doctor`."""

from __future__ import annotations

import click

from solscope.cli.output import Output, json_option, present


@click.command("doctor", short_help="Show what this installation can do.")
@json_option
def command(output: Output) -> None:
    """Show what this installation can do: scanner, formats, extras, tools, sensors, GPUs.

    \b
    Examples:
      solscope doctor
    """
    from solscope.environment import examine

    present(examine(), output)
