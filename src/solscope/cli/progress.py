"""Progress on stderr: a bar while a file is read, a line for all else that takes long."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import click

LOG_EVERY_S = 5.0
"""Interval of progress lines in a log, where no line can be overwritten."""
TICK_S = 1.0
"""How often the time of something that runs is shown anew."""


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


@contextmanager
def running_line(what: str) -> Iterator[Callable[[str], None]]:
    """The same, and also how long `what` has been running, even while it does not get further."""
    start, said = time.monotonic(), "starting"
    on_terminal, lock, over = sys.stderr.isatty(), threading.Lock(), threading.Event()

    with progress_line() as show:

        def say(text: str | None = None) -> None:
            nonlocal said
            with lock:
                said = said if text is None else text
                # Lines of a log begin with the time.
                for_s = f" for {time.monotonic() - start:.0f} s" if on_terminal else ""
                show(f"{what} is running{for_s}: {said}")

        def tick() -> None:
            while not over.wait(TICK_S):
                say()

        ticking = threading.Thread(target=tick, name="running_line", daemon=True)
        ticking.start()
        try:
            say()
            yield say
        finally:
            over.set()
            ticking.join()
