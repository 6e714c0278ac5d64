"""The commands of the program; the module of a command is imported on first use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = {
    "show": "Say where the GPU time goes.",
    "kernels": "List kernels, copies and fills with statistics.",
    "layers": "Break one decoder layer down by role and kernel.",
    "operators": "Compare each operator with its roofline bound.",
    "ranks": "Find the rank that the others wait for, and why.",
    "hotspots": "Rank what to fix first, by time saved.",
    "host": "Say what the host did while the GPU waited.",
    "memory": "Show GPU memory: peak, fragmentation, who allocates.",
    "efficiency": "Compute MFU, MBU and the speed of light of a step.",
    "whatif": "Predict a step on other hardware, sizes or settings.",
    "compare": "Compare profiles of the same work.",
    "gate": "Fail a CI job when a profile got slower.",
    "report": "Write one self-contained HTML file.",
    "serve": "Start a local dashboard.",
    "diagnose": "Find out what changed between two runs, or within one, and why.",
    "export": "Export a profile to Perfetto, Parquet or CSV.",
    "suite": "Show operator suites: shapes, bounds, importance.",
    "corpus": "Analyze many profiles in a store.",
    "bench": "Check, time and score kernels.",
    "hardware": "Show the peak figures of GPUs, or measure one.",
    "capture": "Record host and GPU sensors while a process runs.",
    "lab": "Inject known faults and score the diagnosis.",
    "demo": "Try every command on bundled recordings.",
    "cache": "Show or clear the cache of profiles that were read.",
    "schema": "Print the JSON Schema of a command's output.",
    "doctor": "Show what this installation can do.",
}
"""Name and short help; the command object is `solscope.cli.commands.NAME.command`.

The short help repeats the one that the command declares; a test compares them.
"""


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
