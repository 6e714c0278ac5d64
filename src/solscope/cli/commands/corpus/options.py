"""What the commands of `solscope corpus` share: options and arguments."""

from __future__ import annotations

import click

from solscope.cli.options import Decorator

where_option: Decorator = click.option(
    "--where",
    multiple=True,
    metavar="KEY=VALUE",
    help="Only profiles with this metadata or tag, or phase=decode. May be repeated.",
)
store_argument: Decorator = click.argument("store", metavar="DIR")


def parse_where(given: tuple[str, ...]) -> dict[str, str]:
    """`KEY=VALUE` options as a dictionary."""
    where = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--where")
        where[key] = value
    return where
