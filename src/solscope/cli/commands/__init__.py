"""The commands of the program; the module of a command is imported on first use.

The command NAME is the object `command` of the module NAME in this folder. Its short help stands
also in `cli/command_table.py`, which `make generated` writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING

import click

from solscope.cli.command_table import COMMANDS

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class LazyCommands(MutableMapping[str, click.Command]):
    """Commands by name, each imported on first use."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._loaded: dict[str, click.Command | None] = dict.fromkeys(names)

    def __getitem__(self, name: str) -> click.Command:
        command = self._loaded[name]
        if command is None:
            command = import_module(f"solscope.cli.commands.{name}").command
            assert isinstance(command, click.Command)
            self._loaded[name] = command
        return command

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded)

    def __len__(self) -> int:
        return len(self._loaded)

    def __contains__(self, name: object) -> bool:
        return name in self._loaded  # the inherited test would import the command


class Program(click.Group):
    """A group whose help and completion list `COMMANDS` without importing them."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands, as `click.Group` does."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands from the table, and options as every command does."""
        from click.shell_completion import CompletionItem

        items = [
            CompletionItem(name, help=COMMANDS[name])
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]
        return items + click.Command.shell_complete(self, ctx, incomplete)
