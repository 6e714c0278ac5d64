"""`solscope suite`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from solscope.cli.common import (
    Decorator,
    bound_option,
    emit,
    json_option,
    terminal_width,
    use_color,
)

if TYPE_CHECKING:
    from solscope.roofline import BoundKind


def _names(_context: click.Context, _option: click.Parameter, text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise click.BadParameter("name at least one GPU, e.g. H20,H200")
    return names


hardware_option: Decorator = click.option(
    "--hardware",
    default="H20,XPU-A",
    show_default=True,
    callback=_names,
    metavar="NAME,...",
    help="GPUs to compute for, by name.",
)


@click.group("suite", short_help="The public suite: 30 operators and 440 shapes.")
def command() -> None:
    """Show the public operator suite: importance, speed of light, deployed kernels.

    30 operators with 440 shapes from 1,303 production profiles (alibaba/atrex-bench).

    \b
    Examples:
      solscope suite list
      solscope suite roofline --hardware H20,XPU-A,H200
      solscope suite shapes rms_norm
    """


@command.command("list", short_help="The operators and their importance.")
@json_option
def list_operators(as_json: bool) -> None:
    """List the operators, most important first."""
    from solscope.suite import suite_list

    rows = suite_list()
    if as_json:
        from solscope.report.json import render_json

        emit(render_json({"operators": rows}))
        return
    from solscope.report.suite import render_list

    emit(render_list(rows, width=terminal_width(), color=use_color()))


@command.command("roofline", short_help="Regime, intensity and speed of light per operator.")
@hardware_option
@bound_option("published")
@json_option
def roofline(hardware: list[str], bound: BoundKind, as_json: bool) -> None:
    """Print the roofline, on the published platforms or any other GPU."""
    from solscope.suite import suite_roofline

    rows = suite_roofline(hardware, bound=bound)
    if as_json:
        from solscope.report.json import render_json

        emit(render_json({"operators": rows}))
        return
    from solscope.report.suite import render_roofline

    emit(render_roofline(rows, width=terminal_width(), color=use_color()))


@command.command("shapes", short_help="S and the bounds of every shape of an operator.")
@click.argument("operator", metavar="OP")
@hardware_option
@json_option
def shapes(operator: str, hardware: list[str], as_json: bool) -> None:
    """Print every shape of operator OP: S as published, and our own bound."""
    from solscope.suite import suite_shapes

    rows = suite_shapes(operator, hardware)
    if as_json:
        from solscope.report.json import render_json

        emit(render_json({"shapes": rows}))
        return
    from solscope.report.suite import render_shapes

    emit(render_shapes(operator, rows, width=terminal_width(), color=use_color()))
