"""`solscope doctor`."""

from __future__ import annotations

import click

from solscope.cli.options import json_option
from solscope.cli.output import emit, emit_json
from solscope.cli.screen import terminal_width, use_color


@click.command("doctor", short_help="Show what this installation can do.")
@json_option
def command(as_json: bool) -> None:
    """Show what this installation can do: scanner, formats, extras, tools, sensors, GPUs.

    \b
    Examples:
      solscope doctor
    """
    from solscope.environment import examine

    found = examine()
    if as_json:
        emit_json(found)
        return
    from solscope.report.results.doctor import render_doctor

    emit(render_doctor(found, width=terminal_width(), color=use_color()))
