"""`solscope bench profile`: counters of one call beside its bound."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from solscope.cli import completion
from solscope.cli.commands.bench.options import candidate_option, shapes_suite_option
from solscope.cli.options import bounds_option, number_option
from solscope.cli.output import Output, form_options, present

if TYPE_CHECKING:
    from solscope.bench.workloads import Workload
    from solscope.hardware import Hardware


@click.command("profile", short_help="Show counters of a solution's kernels beside the bound.")
@click.argument("operator", metavar="OP", shell_complete=completion.operator_with_template)
@click.argument("shape", metavar="SHAPE")
@candidate_option("Name of a built-in solution, a Python file, or a folder.")
@click.option(
    "--from",
    "export",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Read an export of Nsight Compute (ncu --csv) instead of running anything.",
)
@click.option(
    "--kernel", metavar="PATTERN", help="Only kernels whose name has a match of this pattern."
)
@number_option(
    "--calls", 1, click.IntRange(1, 1_000_000), "Calls of the operator in FILE.", metavar="N"
)
@shapes_suite_option
@bounds_option("the GPU of this machine; none with --from")
@form_options
def profile(
    operator: str,
    shape: str,
    solution: str | None,
    export: Path | None,
    kernel: str | None,
    calls: int,
    suite: str,
    hardware: str | None,
    output: Output,
) -> int:
    """Show what the kernels of one call move and how busy they are, beside the bound.

    With a GPU, one call of the solution runs under Nsight Compute if `ncu` is installed, which
    counts bytes and occupancy, otherwise under Kineto, which gives times. It runs in a separate
    process. Without a GPU, --from reads an export that was made elsewhere.

    \b
    Examples:
      solscope bench profile rms_norm 53 --solution torch-eager
      ncu --csv --set full python my_call.py > counters.csv
      solscope bench profile rms_norm 53 --from counters.csv --hardware H200
    """
    from solscope.bench import counters as profiled
    from solscope.bench.catalog import find_solution
    from solscope.bench.results.ncu_export import read_export

    if (export is None) == (solution is None):
        raise click.UsageError("name a solution to run with --solution, or a file with --from")
    work = _workload(operator, shape, suite)
    tool: profiled.Tool
    if export is not None:
        launches, tool = read_export(export), "file"
    elif calls > 1:
        raise click.UsageError("--calls goes with --from: one call is run otherwise")
    else:
        hardware = hardware or _this_gpu()
        launches, tool = profiled.record(work, find_solution(solution or ""))
    return present(
        profiled.counters(
            work,
            profiled.chosen_kernels(launches, kernel),
            tool,
            solution=solution,
            hardware=_hardware(hardware),
            calls=calls,
        ),
        output,
    )


def _workload(operator: str, shape: str, suite: str) -> Workload:
    from solscope.bench.workloads import choose, workloads
    from solscope.errors import UsageError

    listed = workloads(suite)
    if operator not in listed:
        raise UsageError(f"no operator {operator!r} in {suite} (available: {', '.join(listed)})")
    chosen = choose(listed[operator], shape)
    if len(chosen) != 1:
        raise click.UsageError(f"{shape!r} means {len(chosen)} shapes: name one")
    return chosen[0]


def _this_gpu() -> str:
    """The GPU of this machine; an error where there is none."""
    from solscope.bench.run.machine import device_name
    from solscope.errors import MissingToolError

    try:
        return device_name("cuda")
    except MissingToolError as error:
        reason = str(error).partition(";")[0]
        raise MissingToolError(
            f"{reason}; read an export of ncu with --from FILE instead"
        ) from None


def _hardware(name: str | None) -> Hardware | None:
    from solscope.hardware import find, with_measured

    return None if name is None else with_measured(find(name))
