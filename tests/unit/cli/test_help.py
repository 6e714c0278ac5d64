from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from solscope.cli import app
from solscope.cli.command_table import COMMANDS


def pages(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    # With the command's own settings: click keeps the help option of the first context it sees.
    settings = {**command.context_settings, "terminal_width": 80}
    context = click.Context(command, info_name=name, **settings)
    yield name, command.get_help(context)
    if isinstance(command, click.Group) and command is not app:
        for part in command.list_commands(context):
            child = command.get_command(context, part)
            assert child is not None
            yield from pages(child, f"{name} {part}")


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_fits_eighty_columns(name: str) -> None:
    command = app.commands[name] if name else app
    for page, text in pages(command, f"solscope {name}".strip()):
        long = [line for line in text.splitlines() if len(line) > 80]
        assert not long, page
