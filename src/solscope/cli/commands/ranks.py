"""`solscope ranks`."""

from __future__ import annotations

from pathlib import Path

import click

from solscope.cli.arguments import ProfilePath
from solscope.cli.opening import open_ranks
from solscope.cli.options import OpeningOptions, opening_options
from solscope.cli.output import Output, form_options, present


@click.command("ranks", short_help="Find the rank that the others wait for, and why.")
@click.argument("runs", type=ProfilePath(), nargs=-1, required=True, metavar="RUN [RUN2]...")
@opening_options
@form_options
def command(
    runs: tuple[str, ...],
    opening: OpeningOptions,
    output: Output,
) -> None:
    """Say which rank the others wait for, how much of a step that is, how sure it is, and why.

    A RUN is a folder with one trace per rank, a glob, or one file that merges ranks; several files
    are one run. Collectives are matched across ranks and clocks are aligned by them. Several
    folders are printed one after the other.

    \b
    Examples:
      solscope ranks profiles/
      solscope ranks 'profiles/*TP-*.trace.json.gz' --json
      solscope ranks before/ after/
    """
    from solscope.views.ranks import rank_table

    # Folders and globs are runs of their own; files are the ranks of one.
    alone = [name for name in runs if not Path(name).is_file()]
    files = [name for name in runs if Path(name).is_file()]
    given = [(name,) for name in alone] + ([tuple(files)] if files else [])
    results = [rank_table(open_ranks(names, opening)) for names in given]
    if len(results) == 1:
        present(results[0], output)
    else:
        present({"runs": results}, output, form="ranks_several")
