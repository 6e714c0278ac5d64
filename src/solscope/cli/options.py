"""Options that several commands take, each declared once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import click

from solscope.cli import completion

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def choice_option(
    name: str, choices: Sequence[str], help_text: str, default: str | None = None
) -> Decorator:
    """One of `choices`; the default, which the help shows, is the first unless given."""
    return click.option(
        name,
        type=click.Choice(choices),
        default=choices[0] if default is None else default,
        show_default=True,
        help=help_text,
    )


def flag_option(name: str, help_text: str, parameter: str | None = None) -> Decorator:
    """A switch; `parameter` is what the command calls it where that is not the name itself."""
    names = [name] if parameter is None else [name, parameter]
    return click.option(*names, is_flag=True, help=help_text)


def number_option(
    name: str,
    default: float,
    numbers: click.IntRange | click.FloatRange,
    help_text: str,
    metavar: str | None = None,
) -> Decorator:
    """A number in a range; the help shows its default."""
    return click.option(
        name, type=numbers, default=default, show_default=True, metavar=metavar, help=help_text
    )


def name_option(
    *names: str,
    metavar: str,
    complete: completion.Complete,
    help_text: str,
    default: str | None = None,
    **others: Any,
) -> Decorator:
    """A name that the shell completes; the help shows its default where there is one."""
    return click.option(
        *names,
        default=default,
        show_default=default is not None,
        metavar=metavar,
        shell_complete=complete,
        help=help_text,
        **others,
    )


def context_flag(name: str, key: str, help_text: str) -> Decorator:
    """A flag that the command does not take: it is stored under `key` in `Context.meta`."""

    def store(context: click.Context, _: click.Parameter, given: bool) -> None:
        context.meta[key] = given

    return click.option(name, is_flag=True, expose_value=False, callback=store, help=help_text)


def phase_option(help_text: str) -> Decorator:
    """`--phase`: only steps of one phase."""
    phases = click.Choice(["prefill", "decode", "mixed", "draft", "verify"])
    return click.option("--phase", type=phases, help=help_text)


full_names_option: Decorator = flag_option(
    "--full-names", "Print kernel names whole, templates and arguments included."
)
rules_option: Decorator = click.option(
    "--rules",
    "rule_files",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Extra classification rules (TOML), tried before the built-in ones. May be repeated.",
)


def bounds_option(default_hardware: str) -> Decorator:
    """`--hardware`: the GPU to compute bounds for, which is otherwise `default_hardware`."""
    return name_option(
        "--hardware",
        metavar="NAME",
        complete=completion.hardware_or_file,
        help_text=f"GPU to compute bounds for, or a hardware file. Default: {default_hardware}.",
    )


def suite_option(help_text: str, metavar: str = "NAME") -> Decorator:
    """`--suite`: the public one, unless another is named."""
    return name_option(
        "--suite",
        metavar=metavar,
        complete=completion.suite_or_file,
        help_text=help_text,
        default="atrex",
    )


hardware_option = bounds_option("the GPU of the profile")
companion_option: Decorator = click.option(
    "--with",
    "companion",
    metavar="PATH",
    help="Eager profile of the same program, or recordings of its graph captures (a file or a "
    "folder), to get operators and inputs of graph kernels.",
)


def step_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--step` and `--slowest`, which `pick_step` takes."""
    slowest = flag_option(
        "--slowest", "Only the step that exceeds the median of its phase by most."
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
    return choice_option(
        "--bound",
        ["corrected", "published"],
        "Our bound, which no kernel can beat, or the formula of the public suite.",
        default,
    )


_NO_CACHE = "solscope.no_cache"


def cache_forbidden() -> bool:
    """Whether the command was given `--no-cache`."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_NO_CACHE))


expansion_option: Decorator = number_option(
    "--max-expansion",
    200,
    click.IntRange(min=1),
    "Reject a compressed file that expands by more than this factor.",
    metavar="FACTOR",
)
no_cache_option: Decorator = context_flag(
    "--no-cache", _NO_CACHE, "Read the file again, and do not cache what was read."
)


class OpeningOptions(NamedTuple):
    """What `--rules` and `--max-expansion` were given; `open_attributed` and `open_ranks` obey."""

    rule_files: tuple[Path, ...]
    max_expansion: int


def opening_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--rules`, `--max-expansion` and `--no-cache`: how profiles are opened."""
    return rules_option(expansion_option(no_cache_option(_takes_opening(command))))


def _takes_opening(command: Callable[..., Any]) -> Callable[..., Any]:
    """Pass both options to the command as one `OpeningOptions`."""

    @wraps(command)
    def with_opening(
        *arguments: Any, rule_files: tuple[Path, ...], max_expansion: int, **others: Any
    ) -> Any:
        return command(*arguments, opening=OpeningOptions(rule_files, max_expansion), **others)

    return with_opening


class ModelOptions(NamedTuple):
    """What `--model`, `--batch` and `--context` were given; `open_model` opens it."""

    path: Path | None
    batch: int | None
    context: int | None


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--model`, `--batch` and `--context`, which the command takes as one `ModelOptions`."""

    @wraps(command)
    def with_model(
        *arguments: Any, model: Path | None, batch: int | None, context: int | None, **others: Any
    ) -> Any:
        return command(*arguments, model=ModelOptions(model, batch, context), **others)

    count = click.IntRange(1, 1 << 32)
    config = click.Path(dir_okay=False, path_type=Path)
    options = (
        (
            "--model",
            config,
            "CONFIG",
            "The model's config.json, for kernels without recorded shapes.",
        ),
        ("--batch", count, "N", "Requests in a decode step, if not in the profile; for --model."),
        (
            "--context",
            count,
            "N",
            "Keys per request in a decode step, if not in the profile; for --model.",
        ),
    )
    decorated: Callable[..., Any] = with_model
    for name, kind, metavar, help_text in reversed(options):
        decorated = click.option(name, type=kind, metavar=metavar, help=help_text)(decorated)
    return decorated


class CostOptions(NamedTuple):
    """What costs and bounds of operators are computed from, besides the profile."""

    hardware: str | None
    companion: str | None
    model: ModelOptions
    opening: OpeningOptions


def cost_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--with`, the options of a model and how to open; with `--hardware` as one `CostOptions`."""

    @wraps(command)
    def with_costs(
        *arguments: Any,
        hardware: str | None,
        companion: str | None,
        model: ModelOptions,
        opening: OpeningOptions,
        **others: Any,
    ) -> Any:
        costs = CostOptions(hardware, companion, model, opening)
        return command(*arguments, costs=costs, **others)

    return companion_option(model_options(opening_options(with_costs)))
