"""What the commands of `solscope corpus` share: options and arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from solscope.cli.options import Decorator

if TYPE_CHECKING:
    from solscope.corpus.ingest.engines.base import Limits

where_option: Decorator = click.option(
    "--where",
    multiple=True,
    metavar="KEY=VALUE",
    help="Only profiles with this metadata or tag, or phase=decode. May be repeated.",
)
store_argument: Decorator = click.argument("store", metavar="DIR")


def limit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--max-seconds` and `--max-memory`, for one file each."""
    for name, metavar, help_text in (
        ("--max-memory", "GB", "Memory for reading one file, on Linux. 0 (default): no limit."),
        ("--max-seconds", "S", "Give up on a file after so many seconds. 0 (default): never."),
    ):
        limit = click.option(
            name, type=click.FloatRange(min=0), default=0, metavar=metavar, help=help_text
        )
        command = limit(command)
    return command


def make_limits(max_seconds: float, max_memory: float) -> Limits:
    """The limits that both options give."""
    from solscope.corpus.ingest.engines.base import Limits

    return Limits(max_seconds or None, round(max_memory * 1e9) or None)


def parse_where(given: tuple[str, ...]) -> dict[str, str]:
    """`KEY=VALUE` options as a dictionary."""
    where = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--where")
        where[key] = value
    return where
