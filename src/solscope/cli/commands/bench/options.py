"""Options that several commands of `solscope bench` share."""

from __future__ import annotations

import click

from solscope.cli import completion
from solscope.cli.options import (
    Decorator,
    choice_option,
    flag_option,
    name_option,
    number_option,
    suite_option,
)


def candidate_option(help_text: str) -> Decorator:
    """`--solution`: what is run, by name or as files."""
    return name_option(
        "--solution", metavar="S", complete=completion.solution_or_file, help_text=help_text
    )


def shapes_option(default: str) -> Decorator:
    """`--shapes`: which shapes of the operator."""
    return click.option(
        "--shapes",
        default=default,
        show_default=True,
        metavar="IDS",
        help="Shape ids (1,4,7), all, or topN for the N with the largest weight.",
    )


shapes_suite_option = suite_option("Suite that provides the shapes.")
device_option = choice_option(
    "--device", ["cuda", "cpu"], "Where to run. Times taken on the CPU are CPU times."
)
timeout_option = number_option(
    "--timeout",
    60.0,
    click.FloatRange(1),
    "Limit for one request to a worker; 5 times as long for one that may compile.",
    metavar="SECONDS",
)
allow_busy_option = flag_option("--allow-busy", "Measure even if another process uses the GPU.")
