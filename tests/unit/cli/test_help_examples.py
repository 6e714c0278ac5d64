"""Help shows how a command is called: every command has examples, and they parse."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Iterator

import click
import pytest

from solscope.cli import app


def context_of(
    command: click.Command, name: str, parent: click.Context | None = None
) -> click.Context:
    """With the command's own settings: click keeps the help option of the first context it sees."""
    return click.Context(command, info_name=name, parent=parent, **command.context_settings)


def leaves(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, with the words that call it."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = context_of(command, name, context)
        if isinstance(command, click.Group):
            yield from leaves(command, inner)
        elif not command.hidden:
            yield inner.command_path, command


COMMANDS = dict(leaves(app, context_of(app, "solscope")))


def examples(command: click.Command) -> list[str]:
    """The lines below `Examples:`, which come last."""
    _, _, block = inspect.cleandoc(command.help or "").partition("\b\nExamples:\n")
    return [line.strip() for line in block.splitlines()]


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_has_examples_that_parse(path: str) -> None:
    lines = examples(COMMANDS[path])
    assert any(line.startswith(f"{path} ") or line == path for line in lines), path
    for line in lines:
        # Two spaces set off what an example is for.
        words = shlex.split(line.split("  ")[0], comments=True)
        assert words, "nothing follows the examples: the reference takes the rest for commands"
        if words[0] != "solscope":
            continue
        called = next(
            " ".join(words[:count]) for count in (3, 2) if " ".join(words[:count]) in COMMANDS
        )
        command = COMMANDS[called]
        rest = words[len(called.split()) :]
        rest = rest[: rest.index("--")] if "--" in rest else rest
        context = context_of(command, called)
        _, _, given = command.make_parser(context).parse_args(list(rest))
        needed = [p for p in command.params if isinstance(p, click.Argument) and p.required]
        assert not needed or given, f"{line}: {called} takes {needed[0].make_metavar(context)}"
