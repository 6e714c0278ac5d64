"""`solscope lab pack` and `solscope lab score`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from solscope.cli.arguments import BundledPath, OutputPath
from solscope.cli.options import flag_option
from solscope.cli.output import Output, form_options, json_option, present
from solscope.cli.progress import progress_line

if TYPE_CHECKING:
    from solscope.lab.strip import Part


def _say(name: str) -> None:
    click.echo(f"solscope: {name}", err=True)


@click.command("pack", short_help="Reduce recordings to small observation files.")
@click.argument(
    "raw",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR...",
)
@click.option(
    "-o",
    "--output",
    "target",
    required=True,
    type=OutputPath("folder"),
    metavar="DIR",
    help="Folder to write.",
)
@flag_option("--force", "Replace the folder if it exists.")
@json_option
def pack(raw: tuple[Path, ...], target: Path, force: bool, output: Output) -> None:
    """Reduce the recordings in DIR to observations of some ten kilobytes each.

    DIR is a folder written by `solscope lab record`: pairs.jsonl, traces and metrics.

    \b
    Examples:
      solscope lab pack lab -o packed
    """
    from solscope.lab.pack import pack as pack_recordings

    packed = pack_recordings(list(raw), target, force=force, progress=_say)
    for pair, reason in packed.left_out.items():
        click.echo(f"solscope: left out {pair}: {reason}", err=True)
    present(packed, output)


@click.command("score", short_help="Measure how often the diagnosis is right.")
@click.argument(
    "folders",
    nargs=-1,
    type=BundledPath("lab", exists=True, file_okay=False, path_type=Path),
    metavar="[DIR]...",
)
@flag_option("--all", "List all pairs, not only the misdiagnosed ones.", "every")
@click.option(
    "--without",
    multiple=True,
    type=click.Choice(["counters", "gpu_counters", "sections", "operators"]),
    help="Score as if this had not been recorded. May be repeated.",
)
@form_options
def score(
    folders: tuple[Path, ...],
    every: bool,
    without: tuple[Part, ...],
    output: Output,
) -> None:
    """Diagnose every pair in DIR or its subfolders and compare the result with the injected fault.

    Three baselines are scored as well: suspicion score, max |Z log mu| and median |log ratio|.
    Without DIR, the recordings in results/lab of the repository are used. This takes minutes.

    \b
    Examples:
      solscope lab score demo:lab
      solscope lab score lab --all --without counters
    """
    from solscope.lab.score import committed, packed
    from solscope.lab.score import score as score_pairs

    chosen = packed(folders) or committed(Path.cwd())
    with progress_line() as progress:
        result = score_pairs(chosen, without=without, progress=progress)
    present(result, output, every=every)
