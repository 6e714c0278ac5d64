"""`solscope bench tune`: check, time and compare a solution whenever its files change."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from solscope.cli import completion
from solscope.cli.arguments import BundledPath
from solscope.cli.commands.bench.options import (
    allow_busy_option,
    candidate_option,
    device_option,
    shapes_option,
    shapes_suite_option,
    timeout_option,
)
from solscope.cli.interrupts import ended_as_by_hand
from solscope.cli.options import bounds_option, flag_option
from solscope.cli.output import FAILED, Output, json_option, present
from solscope.cli.progress import running_line

if TYPE_CHECKING:
    from solscope.bench.results.attempts import Tuning
    from solscope.bench.run.agenda import Options
    from solscope.bench.tune import Tuner

POLL_S = 0.25
"""How often files are looked at."""
ROUNDS, EXTRA, SECONDS = 1, 2, 0.2
"""A quick check: draws, extra cases, and seconds of timing per shape and process."""
RESTARTS = {"cuda": 3, "cpu": 1}
"""Processes by device: in one, times differ by up to 8 % for no reason; CPU times say little."""


@click.command("tune", short_help="Check, time and compare a solution on every save.")
@click.argument("operator", metavar="OP", shell_complete=completion.operator_with_template)
@candidate_option("Python file or folder to watch. Default: OP-solution, as bench new writes it.")
@shapes_option("top3")
@click.option(
    "--results",
    "files",
    type=BundledPath("results", exists=True, path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Results to compare with, the fastest per shape. May be repeated. Without any for this "
    "device and these sizes, torch-eager is timed.",
)
@click.option(
    "--restarts",
    type=click.IntRange(1, 20),
    metavar="N",
    help="Processes in which each attempt is timed. One is quicker, but tells only large "
    "differences. Default: 3, on the CPU 1.",
)
@shapes_suite_option
@device_option
@flag_option("--small", "Make every size small enough for any CPU. There is no bound then.")
@timeout_option
@bounds_option("the device")
@allow_busy_option
@flag_option("--once", "Make one attempt and exit.")
@json_option
def tune(
    operator: str,
    solution: str | None,
    shapes: str,
    files: tuple[Path, ...],
    restarts: int | None,
    suite: str,
    device: str,
    small: bool,
    timeout: float,
    hardware: str | None,
    allow_busy: bool,
    once: bool,
    output: Output,
) -> int:
    """Check and time a solution of operator OP on a few shapes, again whenever its files change.

    Each attempt is compared with the bound, with the best known result and with the attempt before.
    It runs in processes of its own, and a wrong kernel is an attempt like any other. Saving the
    files while an attempt runs, e.g. one that hangs, ends it and begins the next. Stop with Ctrl-C.
    With --json, each attempt is one document. Exit code 1: the last attempt failed. Exit code 2:
    nothing of it could be checked.

    \b
    Examples:
      solscope bench new rms_norm --language triton
      solscope bench tune rms_norm --results results/bench/h200.jsonl
      solscope bench tune rms_norm --solution mine.py --device cpu --small --once
    """
    from solscope.bench.tune import Tuner
    from solscope.cli.results_files import results_of
    from solscope.operators import operator as find_operator

    find_operator(operator)
    place = solution or f"{operator}-solution"
    if solution is None and not Path(place).is_dir():
        raise click.UsageError(
            f"no folder {place}: name a solution with --solution, or write one with "
            f"`solscope bench new {operator}`"
        )
    with results_of(*files) as earlier:
        options = _options(
            operator, shapes, restarts, suite, device, small, timeout, hardware, allow_busy
        )
    with ended_as_by_hand(), Tuner(options, place, earlier) as tuner:
        return _once(tuner, output) if once else _watch(tuner, output)


def _options(
    operator: str,
    shapes: str,
    restarts: int | None,
    suite: str,
    device: str,
    small: bool,
    timeout_s: float,
    hardware: str | None,
    allow_busy: bool,
) -> Options:
    from solscope.bench.base import METHODS
    from solscope.bench.pool.process import Limits
    from solscope.bench.run.agenda import Options
    from solscope.bench.run.machine import command_line
    from solscope.bench.workloads import SMALL

    processes = restarts or RESTARTS[device]
    return Options(
        operators=[operator],
        solutions=[],
        shapes=shapes,
        suite=suite,
        device=device,
        scale=SMALL if small else 1.0,
        methods=(METHODS["cold"],),
        restarts=processes,
        rounds=ROUNDS,
        extra=EXTRA,
        seconds_per_shape=processes * SECONDS,
        hardware=hardware,
        allow_busy=allow_busy,
        limits=Limits(timeout_s=timeout_s, first_s=5 * timeout_s),
        command=command_line(),
    )


def _once(tuner: Tuner, output: Output) -> int:
    from solscope.errors import InputError

    with running_line("attempt 1") as progress:
        tuning = tuner.attempt(progress)
    code = present(tuning, output, failed=tuning.failed)
    if tuning.unchecked:
        raise InputError(
            f"nothing could be checked: every shape is unsupported ({tuning.shapes[0].reason})"
        )
    return code


def _watch(tuner: Tuner, output: Output) -> int:
    """Make an attempt per change until Ctrl-C; what is wrong with one is said and left at that."""
    from solscope.bench.tune import Outdated
    from solscope.errors import SolscopeError

    wrong, tried = False, None
    on_screen = sys.stdout.isatty() and not output.as_json
    try:
        while True:
            tried = _changed(tuner, tried)
            start = time.monotonic()
            try:
                tuning = _attempt(tuner, tried)
            except Outdated:
                took = f"ended after {time.monotonic() - start:.0f} s"
                why = f"{tuner.place} was saved again"
                click.echo(f"solscope: attempt {tuner.number} {took}: {why}", err=True)
                continue
            except SolscopeError as error:
                click.echo(f"solscope: {error}", err=True)
                wrong = True
            else:
                if on_screen:
                    click.clear()
                present(tuning, output)
                wrong = tuning.failed or tuning.unchecked
            click.echo(f"solscope: waiting for a change of {tuner.place}; Ctrl-C ends", err=True)
    except KeyboardInterrupt:
        click.echo("", err=True)
        return FAILED if wrong else 0


def _attempt(tuner: Tuner, tried: str) -> Tuning:
    """An attempt at files that are watched while it runs."""
    look = _looks(tuner, tried)
    with running_line(f"attempt {tuner.number + 1}") as progress:
        return tuner.attempt(progress, lambda: look() is not None)


def _changed(tuner: Tuner, tried: str | None) -> str:
    """Wait until the files are others than those that were tried, and no longer being written."""
    look = _looks(tuner, tried)
    while True:
        found = look()
        if found is not None:
            return found
        time.sleep(POLL_S)


def _looks(tuner: Tuner, tried: str | None) -> Callable[[], str | None]:
    """A function that looks at the files, to be called again and again.

    It returns their digest when they are others than those that were tried, and the same as at the
    last look: they are no longer being written.
    """
    before: str | None = None

    def look() -> str | None:
        nonlocal before
        found, last = tuner.fingerprint(), before
        before = found
        return found if found != tried and (tried is None or found == last) else None

    return look
