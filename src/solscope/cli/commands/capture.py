"""`solscope capture`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from solscope.cli.arguments import OutputPath
from solscope.cli.options import flag_option, number_option
from solscope.cli.output import Output, json_option, present

if TYPE_CHECKING:
    from solscope.capture.attach import Recording


@click.command("capture", short_help="Record host and GPU sensors while a process runs.")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option("--pid", type=click.IntRange(1), metavar="P", help="Record this process.")
@click.option(
    "--find",
    metavar="TEXT",
    help="Record the process whose command line contains TEXT; with COMMAND, one of its children.",
)
@click.option(
    "-o",
    "--output",
    "target",
    type=OutputPath(),
    metavar="FILE",
    help="NAME.metrics.csv or NAME.metrics.parquet; loaded with NAME.trace.json.gz.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.01),
    metavar="S",
    help="Stop after this time. Default: when the process ends, or on Ctrl-C.",
)
@number_option(
    "--period-ms", 100.0, click.FloatRange(10, 60_000), "Time between samples.", metavar="MS"
)
@flag_option("--spin", "Also time a fixed loop, to detect a slow core.")
@flag_option("--force", "Replace FILE.")
@flag_option("--list", "List available and missing sensors.", "list_only")
@json_option
def command(
    argv: tuple[str, ...],
    pid: int | None,
    find: str | None,
    target: Path | None,
    seconds: float | None,
    period_ms: float,
    spin: bool,
    force: bool,
    list_only: bool,
    output: Output,
) -> int:
    """Record sensors of the host, its GPUs and one process into a metrics file.

    Attach to a running process, or start COMMAND. Name the file after the profile:
    `run.metrics.csv` is loaded with `run.trace.json.gz`. If COMMAND fails, its exit code is
    passed on.

    \b
    Examples:
      solscope capture --pid 4711 --seconds 30 -o run.metrics.csv
      solscope capture --find EngineCore --period-ms 10 -o run.metrics.csv
      solscope capture -o run.metrics.csv -- python server.py
      solscope capture --list
    """
    from solscope.capture import attach
    from solscope.errors import UsageError

    if list_only:
        _list(pid, spin, output)
        return 0
    if target is None:
        raise UsageError("missing output file: add -o NAME.metrics.csv")
    if not target.name.endswith((".metrics.csv", ".metrics.parquet")):
        better = target.with_suffix("" if target.suffix in (".csv", ".parquet") else target.suffix)
        raise UsageError(
            f"{target} would not be loaded with a profile: name it {better}.metrics.csv or "
            f"{better}.metrics.parquet"
        )
    if argv and pid is not None:
        raise UsageError("pass either --pid or a command to start, not both")
    if not argv and (pid is None) == (find is None):
        raise UsageError("nothing to record: add --pid P, --find TEXT or -- COMMAND")
    options = attach.Target(target, period_ms, seconds, spin, force)
    if argv:
        recording = attach.run(argv, options, find)
    else:
        recording = attach.attach(pid or attach.find_process(find or ""), options)
    present(recording, output, to_stderr=True)
    return _exit_code(recording)


def _exit_code(recording: Recording) -> int:
    """That of the command, as a shell gives it; 1 if only the recording failed."""
    if recording.command_failed and recording.exit_code is not None:
        code = recording.exit_code
        return code if code > 0 else 128 - code
    return 1 if recording.failed else 0


def _list(pid: int | None, spin: bool, output: Output) -> None:
    import os

    from solscope.capture.sensors import find_sensors
    from solscope.report.results.capture import sensor_list

    sensors = find_sensors(os.getpid() if pid is None else pid, spin)
    present(sensor_list(sensors), output, form="capture_list")
