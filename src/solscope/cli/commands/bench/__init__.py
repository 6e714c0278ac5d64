"""`solscope bench`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from solscope.cli import completion
from solscope.cli.arguments import OutputPath, output_folder_option
from solscope.cli.commands.bench.options import (
    allow_busy_option,
    device_option,
    shapes_option,
    shapes_suite_option,
    timeout_option,
)
from solscope.cli.commands.bench.profiling import profile
from solscope.cli.commands.bench.results import compare, leaderboard, score, verify
from solscope.cli.commands.bench.tuning import tune
from solscope.cli.interrupts import ended_as_by_hand
from solscope.cli.options import (
    Decorator,
    bounds_option,
    choice_option,
    flag_option,
    name_option,
    number_option,
)
from solscope.cli.output import FAILED, Output, json_option, present
from solscope.cli.progress import progress_line

if TYPE_CHECKING:
    from solscope.bench.base import ShapeResult
    from solscope.bench.run.agenda import Agenda, Options


def _run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options shared by `run` and `check`."""
    options: tuple[Decorator, ...] = (
        name_option(
            "--op",
            "operators",
            metavar="OP,...",
            complete=completion.operators_of_suite,
            help_text="Operators to run, or all that have a reference.",
            default="all",
        ),
        shapes_option("all"),
        shapes_suite_option,
        device_option,
        click.option(
            "--out",
            type=OutputPath(),
            metavar="FILE",
            help="Append one JSON line per shape and solution to FILE.",
        ),
        flag_option(
            "--resume", "Skip results that the --out file already has for the same solution."
        ),
        number_option(
            "--rounds", 2, click.IntRange(1, 100), "Random inputs to check per shape.", metavar="N"
        ),
        number_option(
            "--extra",
            6,
            click.IntRange(0, 100),
            "Extra cases per operator, besides the listed shapes.",
            metavar="N",
        ),
        number_option(
            "--jobs",
            1,
            click.IntRange(1, 64),
            "Operators to build and check in parallel.",
            metavar="N",
        ),
        number_option(
            "--scale",
            1.0,
            click.FloatRange(0, 1, min_open=True),
            "Scale down sizes that may vary. Such results get no score.",
            metavar="FACTOR",
        ),
        flag_option(
            "--small", "Make every size small enough for any CPU. Such results get no score."
        ),
        click.option(
            "--max-bytes",
            type=click.FloatRange(1),
            metavar="BYTES",
            help="Skip shapes that must move more than this. Default: 256 MB on the CPU, 15 % of "
            "the memory of a GPU.",
        ),
        timeout_option,
        click.option(
            "--memory-limit",
            type=click.FloatRange(1),
            metavar="GIB",
            help="Address space limit of a CPU worker.",
        ),
        click.option(
            "--time-budget",
            type=click.FloatRange(1),
            metavar="SECONDS",
            help="Stop after this long. The most important shapes run first.",
        ),
        json_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.group("bench", short_help="Check, time and score kernels.")
def command() -> None:
    """Check kernels ("solutions") for correctness, time them, and compare them with their bound.

    \b
    Examples:
      solscope bench new rms_norm -o mine
      solscope bench check mine --op rms_norm --device cpu --scale 0.01
      solscope bench tune rms_norm --solution mine
      solscope bench run --op rms_norm --solution mine --out r.jsonl
      solscope bench score r.jsonl
      solscope bench compare before.jsonl after.jsonl
    """


@command.command("run", short_help="Check and time solutions.")
@name_option(
    "--solution",
    "solutions",
    metavar="S",
    complete=completion.solution_or_file,
    help_text="Name of a built-in solution, a Python file, or a folder. May be repeated.",
    multiple=True,
    required=True,
)
@click.option(
    "--methods",
    default="cold,warm,graph",
    show_default=True,
    metavar="M,...",
    help="Timing methods on a GPU. The first one determines the score.",
)
@number_option(
    "--restarts",
    3,
    click.IntRange(1, 20),
    "Processes in which each solution is timed.",
    metavar="N",
)
@number_option(
    "--seconds-per-shape",
    0.4,
    click.FloatRange(0.01),
    "Sampling time per shape, over all processes.",
    metavar="SECONDS",
)
@click.option(
    "--renew",
    type=click.IntRange(2),
    metavar="EVALUATOR",
    help="With --resume, measure again what an evaluator before this version checked, or what "
    "lacks one of --methods. Example: --renew 4.",
)
@click.option(
    "--near",
    type=click.FloatRange(0),
    metavar="PCT",
    help="Only what is at most PCT percent slower than the fastest of its shape in the --out file. "
    "With --resume, only what was timed in fewer processes than --restarts. Example: --near 5.",
)
@bounds_option("the device")
@allow_busy_option
@_run_options
def run(solutions: tuple[str, ...], output: Output, **values: Any) -> int:
    """Build, check and time solutions, each in its own process.

    Exit code 1: a solution failed (wrong result, crash, timeout or cheating). Exit code 2: nothing
    could be run, because every shape is unsupported or the time budget is too short.

    \b
    Examples:
      solscope bench run --op rms_norm --solution mine --out r.jsonl
      solscope bench run --solution a --solution b --restarts 1 --out r.jsonl
      solscope bench run --solution a --solution b --near 5 --resume --out r.jsonl
    """
    return _evaluate(_options(solutions, check_only=False, **values), output)


@command.command("check", short_help="Check a solution without timing it.")
@click.argument("solution", metavar="SOLUTION", shell_complete=completion.solution_or_file)
@_run_options
def check(solution: str, output: Output, **values: Any) -> int:
    """Check that SOLUTION is correct, without timing it.

    SOLUTION is the name of a built-in solution, a Python file, or a folder. Exit code 1: it failed.
    Exit code 2: nothing could be checked.

    \b
    Examples:
      solscope bench check mine --op rms_norm
      solscope bench check mine --op rms_norm --device cpu --small
      solscope bench check torch-eager --op rms_norm --shapes top3
    """
    return _evaluate(_options((solution,), check_only=True, **values), output)


def _options(solutions: tuple[str, ...], *, check_only: bool, **values: Any) -> Options:
    from solscope.bench.catalog import find_solution
    from solscope.bench.pool.process import Limits
    from solscope.bench.run.agenda import Options
    from solscope.bench.run.machine import command_line
    from solscope.bench.workloads import SMALL

    if values["resume"] and values["out"] is None:
        raise click.UsageError("--resume needs --out FILE")
    names = [name.strip() for name in values["operators"].split(",") if name.strip()]
    if not names:
        raise click.BadParameter(f"{values['operators']!r}: expected operator names or all")
    memory = values["memory_limit"]
    limits = Limits(
        timeout_s=values["timeout"],
        first_s=5 * values["timeout"],
        memory_bytes=int(memory * 2**30) if memory and values["device"] == "cpu" else None,
    )
    more: dict[str, Any] = {}
    if not check_only:
        more = {
            name: values[name]
            for name in ("restarts", "seconds_per_shape", "hardware", "allow_busy")
        }
        more |= {"methods": _methods(values["methods"]), **_again(values)}
    return Options(
        operators=[] if names == ["all"] else names,
        solutions=[find_solution(name) for name in solutions],
        check_only=check_only,
        limits=limits,
        command=command_line(),
        time_budget_s=values["time_budget"],
        scale=SMALL if values["small"] else values["scale"],
        **{
            name: values[name]
            for name in (
                "shapes",
                "suite",
                "device",
                "out",
                "resume",
                "rounds",
                "extra",
                "jobs",
                "max_bytes",
            )
        },
        **more,
    )


def _again(values: dict[str, Any]) -> dict[str, Any]:
    """What of the --out file is measured again."""
    from solscope.bench.base import EVALUATOR

    renew, near = values["renew"], values["near"]
    if renew is not None and not values["resume"]:
        raise click.UsageError("--renew needs --resume")
    if renew is not None and renew > EVALUATOR:
        raise click.BadParameter(f"--renew {renew}: the newest evaluator is {EVALUATOR}")
    if near is not None and not math.isfinite(near):
        raise click.BadParameter(f"--near {near}: expected a finite number of percent")
    if near is not None and values["out"] is None:
        raise click.UsageError("--near needs --out FILE")
    return {"renew": renew, "near_pct": near}


def _methods(text: str) -> tuple[str, ...]:
    from solscope.bench.base import METHODS

    given = [name.strip() for name in text.split(",")]
    names = [next((n for n, full in METHODS.items() if full == name), name) for name in given]
    unknown = [name for name in names if name not in METHODS]
    if unknown or names[0] == "graph":
        raise click.BadParameter(
            f"{text!r}: choose from cold, warm and graph; graph cannot come first"
        )
    if "cold" not in names:
        raise click.BadParameter("cold is required: the other methods are checked against it")
    return tuple(METHODS[name] for name in dict.fromkeys(names))


def _evaluate(options: Options, output: Output) -> int:
    from solscope.bench.run.evaluate import Evaluation

    with ended_as_by_hand(), progress_line() as progress:
        evaluation = Evaluation(options, progress)
        results = evaluation.run()
    return _finish(results, evaluation.agenda, output, options.out)


def _finish(results: list[ShapeResult], agenda: Agenda, output: Output, out: Path | None) -> int:
    """Print the results; what was asked for and is in the file already counts for the exit code."""
    from solscope.bench.base import FAILURES
    from solscope.bench.run.failures import why_nothing
    from solscope.errors import InputError

    before = agenda.earlier
    present({"results": results}, output)
    if out is not None:
        plural = "" if len(results) == 1 else "s"
        click.echo(f"solscope: {len(results)} result{plural} appended to {out}", err=True)
    if before:
        had = ", ".join(f"{n} {name}" for name, n in Counter(r.status for r in before).items())
        click.echo(f"solscope: skipped {len(before)}, already in {out}: {had}", err=True)
    for name, count in agenda.untimed.items():
        lines, them = (f"{count} lines", "them") if count > 1 else ("1 line", "it")
        have = f"{lines} of {name} {'have' if count > 1 else 'has'}"
        click.echo(f"solscope: {have} no time in {out}: run {them} without --near", err=True)
    why = why_nothing([*results, *before])
    if why is not None:
        raise InputError(f"nothing could be checked: {why}")
    return FAILED if any(result.status in FAILURES for result in [*results, *before]) else 0


@command.command("new", short_help="Write a working solution to start from.")
@click.argument("operator", metavar="OP", shell_complete=completion.operator_with_template)
@output_folder_option("Folder to write. Default: OP-solution.")
@choice_option("--language", ["torch", "triton", "cuda"], "Language of the solution.")
@flag_option("--force", "Overwrite files that exist.")
@json_option
def new(operator: str, target: Path | None, language: str, force: bool, output: Output) -> None:
    """Write a folder with a correct solution of operator OP for you to optimize.

    \b
    Examples:
      solscope bench new rms_norm
      solscope bench new rms_norm -o mine --language triton
    """
    from solscope.bench.template import write_template
    from solscope.bench.workloads import DEFAULT_SUITE, suite_with

    folder = target or Path(f"{operator}-solution")
    written = write_template(operator, folder, language, force=force)
    present({"files": [str(path) for path in written]}, output)
    if output.as_json:
        return
    hint = " (without a GPU: --device cpu --small)" if language == "torch" else ""
    suite = suite_with(operator) or "FILE"
    named = "" if suite == DEFAULT_SUITE else f" --suite {suite}"
    check = f"solscope bench check {folder} --op {operator}{named}"
    click.echo(f"solscope: next: {check}{hint}", err=True)


for _command in (tune, profile, score, compare, leaderboard, verify):
    command.add_command(_command)
