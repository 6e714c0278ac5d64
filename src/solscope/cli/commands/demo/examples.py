"""Running the examples of `solscope demo run`, in this process."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import click

from solscope.demo.ended import Ended
from solscope.demo.examples import EXAMPLES, Example
from solscope.errors import UsageError


def choose(names: Sequence[str]) -> list[Example]:
    """The examples with these names; all that end by themselves when there are none."""
    by_name = {example.name: example for example in EXAMPLES}
    for name in names:
        if name not in by_name:
            raise UsageError(f"no example {name!r} (available: {', '.join(by_name)})")
        if not by_name[name].runs:
            line = by_name[name].lines[0]
            raise UsageError(f"{name} runs until it is stopped; start it yourself: {line}")
    return [by_name[name] for name in names or [e.name for e in EXAMPLES if e.runs]]


def run_examples(examples: Sequence[Example], folder: Path | None, *, echo: bool) -> list[Ended]:
    """Run all commands, in `folder` or a temporary one; `echo` shows commands and output."""
    with _inside(folder):
        return [ended for example in examples for ended in _run(example, echo)]


@contextlib.contextmanager
def _inside(folder: Path | None) -> Iterator[None]:
    """Work in a folder: the command lines then read as they are listed."""
    before = Path.cwd()
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="solscope-")))
        folder.mkdir(parents=True, exist_ok=True)
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def _run(example: Example, echo: bool) -> Iterator[Ended]:
    reason = _lacks(example)
    for index, (command, line) in enumerate(zip(example.commands, example.lines, strict=True)):
        expected = example.exit_code if index == len(example.commands) - 1 else 0
        if echo:
            click.secho(f"$ {line}", bold=True)
        if reason is not None:
            if echo:
                click.echo(f"skipped: {reason}\n")
            yield Ended(example.name, line, None, expected, reason, None)
            continue
        code, output = _command(shlex.split(command), echo)
        if echo:
            click.echo(_said(code, expected))
        yield Ended(example.name, line, code, expected, None, output)


def _lacks(example: Example) -> str | None:
    """Why it cannot be run here."""
    if example.needs is not None and find_spec(example.needs) is None:
        return f"needs pip install 'solscope[{example.extra}]'"
    return "needs Linux" if example.linux and sys.platform != "linux" else None


def _command(arguments: list[str], echo: bool) -> tuple[int, str | None]:
    from solscope.cli import run

    if echo:
        return run(arguments), None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = run(arguments)
    return code, printed.getvalue()


def _said(code: int, expected: int) -> str:
    if code != expected:
        return f"(exit code {code}, expected {expected})\n"
    return "(exit code 1: it got slower)\n" if code == 1 else ""
