"""Progress on stderr: a bar while a file is read, a line for all else that takes long."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import click

LOG_EVERY_S = 5.0
"""Interval of progress lines in a log, where no line can be overwritten."""


def start_bar(bars: ExitStack, name: str) -> Callable[[int, int], None]:
    """Show a bar until `bars` is closed; returns a function that takes bytes done and in total."""
    from rich.console import Console
    from rich.progress import Progress

    from solscope.text import shorten

    bar = bars.enter_context(Progress(console=Console(stderr=True), transient=True))
    task = bar.add_task(f"reading {shorten(name, 40)}")
    return lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def progress_line() -> Iterator[Callable[[str], None]]:
    """A function that says on stderr how far a long command is.

    A terminal shows one line that changes; a log gets a line every few seconds.
    """
    from solscope.text import clean, shorten

    start = last = time.monotonic()
    if sys.stderr.isatty():
        # A text that wraps would leave its first line behind.
        most = shutil.get_terminal_size().columns - 1
        try:
            yield lambda text: click.echo(f"\r\x1b[K{shorten(text, most)}", nl=False, err=True)
        finally:
            click.echo("\r\x1b[K", nl=False, err=True)
        return

    def log(text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= LOG_EVERY_S:
            last = time.monotonic()
            click.echo(f"solscope: {last - start:.0f} s: {clean(text)}", err=True)

    yield log
