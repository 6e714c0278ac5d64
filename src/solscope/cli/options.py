"""Options that several commands take, each declared once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from solscope.cli import completion

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

full_names_option: Decorator = click.option(
    "--full-names", is_flag=True, help="Print kernel names whole, templates and arguments included."
)
rules_option: Decorator = click.option(
    "--rules",
    "rule_files",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Extra classification rules (TOML), tried before the built-in ones. May be repeated.",
)
hardware_option: Decorator = click.option(
    "--hardware",
    metavar="NAME",
    shell_complete=completion.hardware_or_file,
    help="GPU to compute bounds for, or a hardware file. Default: the GPU of the profile.",
)
companion_option: Decorator = click.option(
    "--with",
    "companion",
    metavar="FILE",
    help="Eager profile of the same program, to get operators and inputs of graph kernels.",
)


def step_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--step` and `--slowest`, which `pick_step` takes."""
    slowest = click.option(
        "--slowest",
        is_flag=True,
        help="Only the step that exceeds the median of its phase by most.",
    )
    number = click.option(
        "--step",
        type=click.IntRange(min=0),
        metavar="N",
        help="Only step N; `show --slowest` lists them.",
    )
    return number(slowest(command))


def bound_option(default: str) -> Decorator:
    """`--bound`: ours, or as the public suite computes it."""
    return click.option(
        "--bound",
        type=click.Choice(["corrected", "published"]),
        default=default,
        show_default=True,
        help="Our bound, which no kernel can beat, or the formula of the public suite.",
    )


_NO_CACHE = "solscope.no_cache"


def _forbid_cache(context: click.Context, _: click.Parameter, forbidden: bool) -> None:
    context.meta[_NO_CACHE] = forbidden


def cache_forbidden() -> bool:
    """Whether the command was given `--no-cache`."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_NO_CACHE))


expansion_option: Decorator = click.option(
    "--max-expansion",
    default=200,
    show_default=True,
    type=click.IntRange(min=1),
    metavar="FACTOR",
    help="Reject a compressed file that expands by more than this factor.",
)
no_cache_option: Decorator = click.option(
    "--no-cache",
    is_flag=True,
    expose_value=False,
    callback=_forbid_cache,
    help="Read the file again, and do not cache what was read.",
)


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--max-expansion`, which the command takes; `--no-cache`, which `open_attributed` obeys."""
    return expansion_option(no_cache_option(command))


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--model`, `--batch` and `--context`, which `open_model` takes."""
    for option in (
        click.option(
            "--context",
            type=click.IntRange(1, 1 << 32),
            metavar="N",
            help="Keys per request in a decode step, if not in the profile; for --model.",
        ),
        click.option(
            "--batch",
            type=click.IntRange(1, 1 << 32),
            metavar="N",
            help="Requests in a decode step, if not in the profile; for --model.",
        ),
        click.option(
            "--model",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="CONFIG",
            help="The model's config.json, for kernels without recorded shapes.",
        ),
    ):
        command = option(command)
    return command
