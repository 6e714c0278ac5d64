"""`solscope corpus`: profiles into a store and out of it, many at a time."""

from __future__ import annotations

from pathlib import Path

import click

from solscope.cli.commands.corpus.options import (
    limit_options,
    make_limits,
    parse_where,
    store_argument,
    where_option,
)
from solscope.cli.options import flag_option
from solscope.cli.output import Output, json_option, present


@click.command("spool", short_help="Add recordings that other machines drop in a folder.")
@store_argument
@click.argument("folder", metavar="SPOOL", type=click.Path(path_type=Path))
@flag_option("--once", "Stop when the folder is empty.")
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Move added files here. Default: delete them.",
)
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="Tag for all profiles.")
@click.option("--workers", type=click.IntRange(1, 1000), metavar="N", help="Default: one per core.")
@limit_options
@flag_option("--verbose", "Print each finished file on stderr.")
@json_option
def spool_command(
    store: str,
    folder: Path,
    once: bool,
    keep: Path | None,
    tags: tuple[str, ...],
    workers: int | None,
    max_seconds: float,
    max_memory: float,
    verbose: bool,
    output: Output,
) -> int:
    """Add the recordings in a folder to a store, and go on with those that come.

    Machines write a recording under a hidden name (.name.part) and rename it when it is complete;
    sidecars go first. A file leaves the folder after it was added, and nothing is added twice,
    however often this command is killed. Files that cannot be added are moved to SPOOL/failed, with
    the reason next to them; the exit code is then 1.

    \b
    Examples:
      solscope corpus spool store incoming/
      solscope corpus spool store incoming/ --once --keep done/
    """
    from solscope import ReadOptions
    from solscope.corpus.ingest.describe import parse_tag
    from solscope.corpus.ingest.extract import ExtractOptions
    from solscope.corpus.spool import SpoolOptions, spool
    from solscope.corpus.store import open_corpus

    options = SpoolOptions(
        ExtractOptions(tags=tuple(map(parse_tag, tags)), read=ReadOptions(cache=False)),
        make_limits(max_seconds, max_memory),
        workers,
        keep,
    )
    report = _say if verbose else None
    result = spool(open_corpus(store), folder, options, report, once=once)
    return present(result, output, failed=bool(result.failed))


def _say(path: str, state: str, reason: str | None) -> None:
    from solscope.text import clean

    click.echo(clean(f"{state} {reason or path}"), err=True)


@click.command("backup", short_help="Copy a store as it is at one moment.")
@store_argument
@click.argument("target", metavar="TARGET")
@json_option
def backup_command(store: str, target: str, output: Output) -> None:
    """Copy a store in a folder to a new folder, while others may read and write it.

    \b
    Examples:
      solscope corpus backup store store-backup
    """
    from solscope.corpus.maintenance.backup import backup
    from solscope.corpus.store import open_corpus

    present(backup(open_corpus(store), target), output)


@click.command("restore", short_help="Make a store from a backup.")
@click.argument("source", metavar="BACKUP")
@click.argument("target", metavar="DIR")
@json_option
def restore_command(source: str, target: str, output: Output) -> None:
    """Copy a backup to a new folder. Afterwards, `corpus verify` shows that it is whole.

    \b
    Examples:
      solscope corpus restore store-backup store
      solscope corpus verify store
    """
    from solscope.corpus.maintenance.backup import restore

    present(restore(source, target), output)


@click.command("export", short_help="Write profiles to a folder of Parquet files.")
@store_argument
@click.argument("target", metavar="OUT")
@where_option
@json_option
def export_command(store: str, target: str, where: tuple[str, ...], output: Output) -> None:
    """Write all profiles of a store, or those that --where chooses, to a new folder.

    `corpus import` adds them to another store.

    \b
    Examples:
      solscope corpus export store out
      solscope corpus export store out --where branch=main
    """
    from solscope.corpus.maintenance.exchange import export_profiles
    from solscope.corpus.queries.select import select
    from solscope.corpus.store import open_corpus

    chosen = select(open_corpus(store), parse_where(where))
    present(export_profiles(chosen.corpus, chosen.profiles, target), output)


@click.command("import", short_help="Add the profiles of an export.")
@store_argument
@click.argument("source", metavar="EXPORT")
@json_option
def import_command(store: str, source: str, output: Output) -> None:
    """Add the profiles of an export that the store does not have, and check them on the way.

    \b
    Examples:
      solscope corpus import other-store out
    """
    from solscope.corpus.maintenance.exchange import import_profiles
    from solscope.corpus.store import open_corpus

    present(import_profiles(open_corpus(store), source), output)


COMMANDS = (spool_command, backup_command, restore_command, export_command, import_command)
"""Commands of the group `solscope corpus`."""
