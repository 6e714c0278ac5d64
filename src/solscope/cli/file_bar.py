"""A bar on stderr for runs over many files: how many are done, how fast, and the time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TimeRemainingColumn,
)
from rich.text import Text


class _Rate(ProgressColumn):
    """Files per second."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:.1f}/s")


@contextmanager
def file_bar() -> Iterator[Callable[[str, str, str | None, int], None]]:
    """A function to call with each file that is done."""
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
        "{task.fields[last]}",
    )
    with Progress(
        *columns, console=Console(stderr=True), transient=True, speed_estimate_period=60
    ) as bar:
        task = bar.add_task("profiles", total=None, last="")
        failed = 0

        def show(_path: str, state: str, _reason: str | None, total: int) -> None:
            nonlocal failed
            failed += state == "failed"
            done = int(state == "read")
            bar.update(task, advance=done, total=total, last=f"{failed} failed" if failed else "")

        yield show
