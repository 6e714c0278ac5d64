"""`solscope lab`."""

from __future__ import annotations

from pathlib import Path

import click

from solscope.cli.arguments import OutputPath
from solscope.cli.commands.lab.results import pack, score
from solscope.cli.options import Decorator, choice_option, flag_option, number_option
from solscope.cli.output import Output, emit, json_option, present


def _names(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _list_option(name: str, values: str, metavar: str, expected: str, help_text: str) -> Decorator:
    """Some of `values`, separated by commas; all of them unless given."""

    def parse(context: click.Context, option: click.Parameter, text: str) -> tuple[str, ...]:
        names = _names(context, option, text)
        if not names or not set(names) <= set(values.split(",")):
            raise click.BadParameter(expected)
        return names

    return click.option(
        name, default=values, show_default=True, callback=parse, metavar=metavar, help=help_text
    )


@click.group("lab", short_help="Inject known faults and score the diagnosis.")
def command() -> None:
    """Inject faults into a small serving loop, record them, and score the diagnosis.

    \b
    Examples:
      solscope lab record --out lab --half tune
      solscope lab record --out lab --faults cpu_contention,none --modes eager
      solscope lab pack lab -o results/lab/tune
      solscope lab score
    """


command.add_command(pack)
command.add_command(score)


out_option: Decorator = click.option(
    "--out",
    required=True,
    type=OutputPath("folder"),
    metavar="DIR",
    help="Folder for the recordings, pairs.jsonl and machine.json.",
)


@command.command("record", short_help="Record pairs of a normal and an abnormal run.")
@out_option
@choice_option(
    "--half",
    ["tune", "test", "all"],
    "Faults used to choose thresholds, to test them, or both.",
    default="all",
)
@_list_option(
    "--modes",
    "eager,graph",
    "MODE,...",
    "expected eager, graph or eager,graph",
    "How decode steps are launched.",
)
@_list_option(
    "--strengths",
    "1,2,3",
    "N,...",
    "expected some of 1,2,3",
    "Strengths, aiming at steps 1.1, 1.4 and more than 2 times as long.",
)
@click.option(
    "--faults", callback=_names, metavar="NAME,...", help="Only these faults. Default: all."
)
@click.option(
    "--steps",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Steps to profile. Default: 24 eager, 40 with a graph.",
)
@number_option(
    "--seconds", 240.0, click.FloatRange(min=1), "Start no new recording after this time."
)
@choice_option("--device", ["cuda", "cpu"], "Where the model runs. Use the CPU for a trial run.")
@flag_option("--tiny", "Use a model with two small layers, for a trial run.")
@flag_option("--archive", "Pack all recordings into a few files.")
@json_option
def record(
    out: Path,
    half: str,
    modes: tuple[str, ...],
    strengths: tuple[str, ...],
    faults: tuple[str, ...],
    steps: int | None,
    seconds: float,
    device: str,
    tiny: bool,
    archive: bool,
    output: Output,
) -> int:
    """Record faults injected into a serving loop, each preceded by a normal run.

    Exit code 1: nothing was recorded, or a fault could not be injected.

    \b
    Examples:
      solscope lab record --out lab --faults extra_sync,pcie --modes eager
      solscope lab record --out trial --device cpu --tiny --seconds 60
    """
    from typing import Any

    from solscope.lab.record import Options, record

    chosen: dict[str, Any] = {
        "which": half,
        "modes": modes,
        "strengths": tuple(map(int, strengths)),
        "faults": faults,
        "steps": steps,
        "seconds": seconds,
        "device": device,
        "tiny": tiny,
        "archive": archive,
    }
    summary = record(Options(out, **chosen), lambda text: click.echo(text, err=True))
    failed = not summary.pairs or bool(summary.failed)
    return present(summary, output, failed=failed, folder=out)


@command.command("unpack", short_help="Unpack recordings of `record --archive`.")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def unpack(folder: Path) -> None:
    """Unpack the archive files in FOLDER into the same folder.

    \b
    Examples:
      solscope lab unpack lab
    """
    from solscope.lab.archive import unpack

    emit(f"{len(unpack(folder))} files in {folder}")
