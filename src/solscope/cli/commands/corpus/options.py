"""What the commands of `solscope corpus` share: options, and how a result is printed."""

from __future__ import annotations

from typing import Any

import click

from solscope.cli.options import Decorator
from solscope.cli.output import emit, emit_json
from solscope.cli.screen import terminal_width, use_color

FAILED = 1

where_option: Decorator = click.option(
    "--where",
    multiple=True,
    metavar="KEY=VALUE",
    help="Only profiles with this metadata or tag, or phase=decode. May be repeated.",
)
store_argument: Decorator = click.argument("store", metavar="DIR")


def parse_where(given: tuple[str, ...]) -> dict[str, str]:
    """`KEY=VALUE` options as a dictionary."""
    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--where")
        found[key] = value
    return found


def fail() -> None:
    """End with the exit code for "worse / failed"."""
    click.get_current_context().exit(FAILED)


def show(result: Any, as_json: bool, render: Any, *arguments: Any, **options: Any) -> None:
    """Print a result as JSON, or as `render` does."""
    if as_json:
        emit_json(result)
        return
    emit(render(*arguments, **options, width=terminal_width(), color=use_color()))
