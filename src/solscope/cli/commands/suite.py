"""`solscope suite`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from solscope.cli import completion
from solscope.cli.options import Decorator, bound_option, json_option, markdown_option
from solscope.cli.output import emit, emit_json
from solscope.cli.screen import terminal_width, use_color

if TYPE_CHECKING:
    from solscope.roofline import BoundKind


def _names(_context: click.Context, _option: click.Parameter, text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise click.BadParameter("expected at least one GPU, e.g. H20,H200")
    return names


hardware_option: Decorator = click.option(
    "--hardware",
    default="H20,XPU-A",
    show_default=True,
    callback=_names,
    metavar="NAME,...",
    shell_complete=completion.several_hardware,
    help="GPUs to compute bounds for.",
)


suite_option: Decorator = click.option(
    "--suite",
    "suite",
    default="atrex",
    show_default=True,
    metavar="NAME|FILE",
    shell_complete=completion.suite_or_file,
    help="atrex (public), decode, or a suite file.",
)


@click.group("suite", short_help="Show operator suites: shapes, bounds, importance.")
def command() -> None:
    """Show operator suites: importance, shapes, bounds and tolerances.

    atrex has 30 operators with 440 shapes from 1,303 production profiles (alibaba/atrex-bench).
    decode adds decode attention at long context, prefix-cached prefill, mixed batches and GEMM.

    \b
    Examples:
      solscope suite list
      solscope suite show rms_norm
      solscope suite roofline --hardware H20,XPU-A,H200
      solscope suite shapes unified_attention --suite decode --hardware H200
      solscope suite verify
    """


@command.command("list", short_help="List operators by importance.")
@suite_option
@markdown_option
@json_option
def list_operators(suite: str, markdown: bool, as_json: bool) -> None:
    """List the operators, most important first."""
    from solscope.suite import listed_rows, load, suite_list

    rows = suite_list() if suite == "atrex" else listed_rows(load(suite))
    if as_json:
        emit_json({"operators": rows})
        return
    from solscope.report.results.suite import markdown_list, render_list

    if markdown:
        emit(markdown_list(rows))
        return
    emit(render_list(rows, width=terminal_width(), color=use_color()))


@command.command("show", short_help="Show inputs, outputs, tolerances and shapes.")
@click.argument("operator", metavar="OP", shell_complete=completion.operator_of_suite)
@suite_option
@markdown_option
@json_option
def show(operator: str, suite: str, markdown: bool, as_json: bool) -> None:
    """Show operator OP: its math, the inputs and outputs of a solution, and the tolerances."""
    from solscope.suite import describe, load

    card = describe(load(suite), operator)
    if as_json:
        emit_json(card)
        return
    from solscope.report.results.suite.card import markdown_card, render_card

    if markdown:
        emit(markdown_card(card, suite))
        return
    emit(render_card(card, suite, width=terminal_width(), color=use_color()))


@command.command("roofline", short_help="Show the roofline bound of every operator.")
@hardware_option
@bound_option("published")
@markdown_option
@json_option
def roofline(hardware: list[str], bound: BoundKind, markdown: bool, as_json: bool) -> None:
    """Show regime, arithmetic intensity and bound per operator, as published or on any GPU."""
    from solscope.suite import suite_roofline

    rows = suite_roofline(hardware, bound=bound)
    if as_json:
        emit_json({"operators": rows})
        return
    from solscope.report.results.suite import markdown_roofline, render_roofline

    if markdown:
        emit(markdown_roofline(rows))
        return
    emit(render_roofline(rows, width=terminal_width(), color=use_color()))


@command.command("shapes", short_help="Show S and the bounds of every shape.")
@click.argument("operator", metavar="OP", shell_complete=completion.operator_of_suite)
@suite_option
@hardware_option
@markdown_option
@json_option
def shapes(operator: str, suite: str, hardware: list[str], markdown: bool, as_json: bool) -> None:
    """Show every shape of operator OP with the published S and solscope's own bound."""
    from solscope.suite import listed_shapes, load, suite_shapes

    if suite != "atrex":
        listed = listed_shapes(load(suite), operator, hardware)
        if as_json:
            emit_json({"shapes": listed}, "suite_shapes_listed")
            return
        from solscope.report.results.suite.card import markdown_listed, render_listed

        if markdown:
            emit(markdown_listed(operator, listed))
            return
        emit(render_listed(operator, listed, width=terminal_width(), color=use_color()))
        return
    rows = suite_shapes(operator, hardware)
    if as_json:
        emit_json({"shapes": rows})
        return
    from solscope.report.results.suite import markdown_shapes, render_shapes

    if markdown:
        emit(markdown_shapes(operator, rows))
        return
    emit(render_shapes(operator, rows, width=terminal_width(), color=use_color()))


@command.command("verify", short_help="Check references, inputs and tolerances without a GPU.")
@click.argument(
    "operators", metavar="[OP]...", nargs=-1, shell_complete=completion.operator_of_suite
)
@suite_option
@json_option
def verify(operators: tuple[str, ...], suite: str, as_json: bool) -> None:
    """Check that the suite itself is correct, at small sizes on the CPU.

    Every shape must produce inputs, seeds must be reproducible, the plain torch solution must pass,
    and solutions that skip the work (zeros, copies, missing rows, too few bits) must fail on every
    output. Exit code 1: a check failed.
    """
    from solscope.bench.verify import verify_suite
    from solscope.suite import load

    def progress(name: str) -> None:
        click.echo(f"verifying {name}", err=True)

    found = verify_suite(load(suite), operators, progress=progress)
    if as_json:
        emit_json({"operators": found})
    else:
        from solscope.report.results.suite.card import render_verified

        emit(render_verified(found, width=terminal_width(), color=use_color()))
    if any(one.failures for one in found):
        click.get_current_context().exit(1)
