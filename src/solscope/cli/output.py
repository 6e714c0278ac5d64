"""Printing the result of a command, as text, Markdown or JSON; writing it to a file."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from solscope.cli.arguments import STDOUT
from solscope.cli.options import Decorator, context_flag
from solscope.cli.screen import can_draw, terminal_width, use_color

FAILED = 1
"""Exit code when the answer is "worse" or "failed"."""
_MARKDOWN = "solscope.markdown"


def emit(text: str) -> None:
    """Write a result to stdout."""
    click.echo(text, nl=not text.endswith("\n"))


class Output:
    """In which form a command prints its result: what `--json` and `--markdown` choose."""

    def __init__(self, context: click.Context, *, as_json: bool) -> None:
        self._context = context
        self.as_json = as_json

    @property
    def markdown(self) -> bool:
        """Whether the result is printed as Markdown; JSON comes first."""
        return bool(self._context.meta.get(_MARKDOWN)) and not self.as_json

    @property
    def draws(self) -> bool:
        """Whether bars and sparklines are shown, so that a command computes what they need."""
        return can_draw() and not self.as_json and not self.markdown

    @property
    def form(self) -> str:
        """The form that the command's output has by default: `corpus importance` has its own."""
        words = self._context.command_path.split()[1:]
        return "_".join(words).replace("-", "_")


def _choose_json(context: click.Context, _: click.Parameter, as_json: bool) -> Output:
    return Output(context, as_json=as_json)


json_option: Decorator = click.option(
    "--json", "output", is_flag=True, callback=_choose_json, help="Print JSON."
)
"""`--json`; the command takes an `Output`, which `present` needs."""
markdown_option: Decorator = context_flag("--markdown", _MARKDOWN, "Print Markdown.")


def form_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--markdown` and `--json`."""
    return markdown_option(json_option(command))


def present(
    result: Any,
    output: Output,
    *,
    form: str | None = None,
    failed: bool = False,
    to_stderr: bool = False,
    **options: Any,
) -> int:
    """Print the result of a command in the form that the user chose; returns the exit code.

    `form` names the form where an option of the command changes it. `failed` says that the answer
    is "worse" or "failed". With `to_stderr`, text goes there, because stdout is not ours. All
    other options are those of the layout.
    """
    name = form or output.form
    if output.as_json:
        from solscope.report.json import render_json

        emit(render_json(result, name))
        return FAILED if failed else 0
    from solscope.report.forms import Screen, render_markdown, render_text

    if output.markdown:
        emit(render_markdown(name, result, options))
        return FAILED if failed else 0
    screen = Screen(terminal_width(), use_color(), can_draw())
    text = render_text(name, result, screen, options)
    if text is not None:
        click.echo(text, nl=not text.endswith("\n"), err=to_stderr)
    return FAILED if failed else 0


def check_one_stdout(*targets: Path | None, as_json: bool) -> None:
    """Reject more than one result on standard output, counting `--json`."""
    wanted = targets.count(STDOUT)
    if wanted and wanted + as_json > 1:
        raise click.UsageError(
            "only one result can go to standard output; write the others to files"
        )


@contextmanager
def written(target: Path) -> Iterator[Path]:
    """Yield a path to write to; a file for standard output is copied there once it is complete."""
    if target != STDOUT:
        yield target
        return
    with tempfile.TemporaryDirectory(prefix="solscope-") as folder:
        work = Path(folder) / "output"
        yield work
        sys.stdout.flush()
        with work.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.buffer.flush()
