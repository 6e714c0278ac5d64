"""`solscope suite`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from solscope.cli import completion
from solscope.cli.options import bound_option, name_option, suite_option
from solscope.cli.output import Output, form_options, json_option, present

if TYPE_CHECKING:
    from solscope.roofline import BoundKind


def _names(_context: click.Context, _option: click.Parameter, text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise click.BadParameter("expected at least one GPU, e.g. H20,H200")
    return names


hardware_option = name_option(
    "--hardware",
    metavar="NAME,...",
    complete=completion.several_hardware,
    help_text="GPUs to compute bounds for.",
    default="H20,XPU-A",
    callback=_names,
)
chosen_suite_option = suite_option("atrex (public), decode, or a suite file.", "NAME|FILE")


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
@chosen_suite_option
@form_options
def list_operators(suite: str, output: Output) -> None:
    """List the operators, most important first.

    \b
    Examples:
      solscope suite list
      solscope suite list --suite my-suite.json
    """
    from solscope.suite import listed_rows, load, suite_list

    rows = suite_list() if suite == "atrex" else listed_rows(load(suite))
    present({"operators": rows}, output)


@command.command("show", short_help="Show inputs, outputs, tolerances and shapes.")
@click.argument("operator", metavar="OP", shell_complete=completion.operator_of_suite)
@chosen_suite_option
@form_options
def show(operator: str, suite: str, output: Output) -> None:
    """Show operator OP: its math, the inputs and outputs of a solution, and the tolerances.

    \b
    Examples:
      solscope suite show rms_norm
    """
    from solscope.suite import describe, load

    present(describe(load(suite), operator), output, suite=suite)


@command.command("roofline", short_help="Show the roofline bound of every operator.")
@hardware_option
@bound_option("published")
@form_options
def roofline(hardware: list[str], bound: BoundKind, output: Output) -> None:
    """Show regime, arithmetic intensity and bound per operator, as published or on any GPU.

    \b
    Examples:
      solscope suite roofline --hardware H200,MI300X
      solscope suite roofline --hardware H200 --bound corrected
    """
    from solscope.suite import suite_roofline

    present({"operators": suite_roofline(hardware, bound=bound)}, output)


@command.command("shapes", short_help="Show S and the bounds of every shape.")
@click.argument(
    "operator", metavar="[OP]", required=False, shell_complete=completion.operator_of_suite
)
@chosen_suite_option
@hardware_option
@form_options
def shapes(operator: str | None, suite: str, hardware: list[str], output: Output) -> None:
    """Show every shape of operator OP with the published S and solscope's own bound.

    Without OP, list the median S of every operator of the public suite, lowest first.

    \b
    Examples:
      solscope suite shapes
      solscope suite shapes rms_norm --hardware H200
    """
    from solscope.suite import listed_shapes, load, suite_medians, suite_shapes

    if operator is None:
        if suite != "atrex":
            raise click.UsageError(f"S was published for atrex only; name an operator of {suite}")
        present({"operators": suite_medians()}, output, form="suite_shapes_medians")
        return
    if suite == "atrex":
        present({"shapes": suite_shapes(operator, hardware)}, output, operator=operator)
    else:
        rows = listed_shapes(load(suite), operator, hardware)
        present({"shapes": rows}, output, form="suite_shapes_listed", operator=operator)


@command.command("verify", short_help="Check references, inputs and tolerances without a GPU.")
@click.argument(
    "operators", metavar="[OP]...", nargs=-1, shell_complete=completion.operator_of_suite
)
@chosen_suite_option
@json_option
def verify(operators: tuple[str, ...], suite: str, output: Output) -> int:
    """Check that the suite itself is correct, at small sizes on the CPU.

    Every shape must produce inputs, seeds must be reproducible, the plain torch solution must pass,
    and solutions that skip the work (zeros, copies, missing rows, too few bits) must fail on every
    output. Exit code 1: a check failed.

    \b
    Examples:
      solscope suite verify rms_norm
    """
    from solscope.bench.verify import verify_suite
    from solscope.suite import load

    def progress(name: str) -> None:
        click.echo(f"verifying {name}", err=True)

    checked = verify_suite(load(suite), operators, progress=progress)
    failed = any(verification.failures for verification in checked)
    return present({"operators": checked}, output, failed=failed)
