"""The commands of the program, one line each; a command's module is imported when it is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = {
    "show": "Say where the GPU time goes.",
    "kernels": "List what ran on the GPU.",
    "layers": "One layer, kernel by kernel, profiles side by side.",
    "operators": "Hold operators against the speed of light.",
    "hotspots": "Rank what to fix first.",
    "compare": "The same work on several platforms or versions.",
    "gate": "Fail when a profile is slower than another.",
    "report": "Write one HTML file to look at and to mail.",
    "serve": "Show profiles in a local dashboard.",
    "diagnose": "What changed between two runs, and why.",
    "export": "Write a profile for Perfetto, spreadsheets or Parquet.",
    "suite": "Suites of operators: the public one, decode, your own.",
    "corpus": "A store of many profiles: what matters in all of them.",
    "bench": "Is this kernel really better: check, time and score solutions.",
    "hardware": "What each GPU can do at most, and what this one reaches.",
    "capture": "Record sensors of a process, beside its profile.",
    "lab": "Record faults with a known cause, and score the diagnosis.",
    "demo": "Try every command on bundled recordings.",
    "doctor": "Say what this installation can do.",
}
"""Name and short help; `solscope.cli.NAME` holds the object, as `command`.

The short help is the one that the command declares: a test compares them.
"""


class LazyCommands(MutableMapping[str, click.Command]):
    """Commands by name, each imported when it is first asked for."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._loaded: dict[str, click.Command | None] = dict.fromkeys(names)

    def __getitem__(self, name: str) -> click.Command:
        command = self._loaded[name]
        if command is None:
            command = import_module(f"solscope.cli.{name}").command
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

        found = [
            CompletionItem(name, help=COMMANDS[name])
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)
