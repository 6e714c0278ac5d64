"""`solscope lab`."""

from __future__ import annotations

from pathlib import Path

import click

from solscope.cli.common import Decorator, emit, json_option
from solscope.cli.lab_results import pack, score
from solscope.cli.output import OutputPath


def _names(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _modes(context: click.Context, option: click.Parameter, text: str) -> tuple[str, ...]:
    names = _names(context, option, text)
    if not names or not set(names) <= {"eager", "graph"}:
        raise click.BadParameter("eager, graph or eager,graph")
    return names


def _strengths(context: click.Context, option: click.Parameter, text: str) -> tuple[int, ...]:
    names = _names(context, option, text)
    if not names or not set(names) <= {"1", "2", "3"}:
        raise click.BadParameter("some of 1,2,3")
    return tuple(int(name) for name in names)


@click.group("lab", short_help="Record faults with a known cause, and score the diagnosis.")
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
    help="Folder for recordings, pairs.jsonl and machine.json.",
)


@command.command("record", short_help="Record pairs of a normal and an abnormal run.")
@out_option
@click.option(
    "--half",
    type=click.Choice(["tune", "test", "all"]),
    default="all",
    show_default=True,
    help="Faults for choosing thresholds, for testing them, or both.",
)
@click.option(
    "--modes",
    default="eager,graph",
    show_default=True,
    callback=_modes,
    metavar="MODE,...",
    help="How decoding is launched.",
)
@click.option(
    "--strengths",
    default="1,2,3",
    show_default=True,
    callback=_strengths,
    metavar="N,...",
    help="Aimed at a step 1.1, 1.4 and more than 2 times as long.",
)
@click.option(
    "--faults", callback=_names, metavar="NAME,...", help="Only these; all when left out."
)
@click.option(
    "--steps",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Profiled steps; 24 eager and 40 with a graph when left out.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=1),
    default=240.0,
    show_default=True,
    help="Begin nothing new after this time.",
)
@click.option(
    "--device",
    type=click.Choice(["cuda", "cpu"]),
    default="cuda",
    show_default=True,
    help="Where the model runs; a CPU serves for trying out.",
)
@click.option("--tiny", is_flag=True, help="A model of two small layers, for trying out.")
@click.option("--archive", is_flag=True, help="Pack everything into a few files, to be sent.")
@json_option
def record(
    out: Path,
    half: str,
    modes: tuple[str, ...],
    strengths: tuple[int, ...],
    faults: tuple[str, ...],
    steps: int | None,
    seconds: float,
    device: str,
    tiny: bool,
    archive: bool,
    as_json: bool,
) -> int:
    """Record faults injected into a serving loop, each with a normal run before it.

    Exit code 1 when nothing was recorded, or a fault failed.
    """
    import json
    from dataclasses import asdict
    from typing import Any

    from solscope.lab.record import Options, record

    chosen: dict[str, Any] = {
        "which": half,
        "modes": modes,
        "strengths": strengths,
        "faults": faults,
        "steps": steps,
        "seconds": seconds,
        "device": device,
        "tiny": tiny,
        "archive": archive,
    }
    summary = record(Options(out, **chosen), lambda text: click.echo(text, err=True))
    if as_json:
        emit(json.dumps(asdict(summary)))
    else:
        emit(f"{summary.pairs} pairs in {out}, {summary.seconds} s")
        for name, reason in (*summary.unavailable.items(), *summary.failed.items()):
            emit(f"  not recorded: {name}: {reason}")
    return 0 if summary.pairs and not summary.failed else 1


@command.command("unpack", short_help="Unpack what `record --archive` packed.")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def unpack(folder: Path) -> None:
    """Write the recordings in the parts of FOLDER beside them."""
    from solscope.lab.archive import unpack

    emit(f"{len(unpack(folder))} files in {folder}")
