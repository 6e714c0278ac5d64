"""`solscope corpus`: maintenance of a store."""

from __future__ import annotations

import time

import click

from solscope.cli.commands.corpus.options import parse_where, store_argument, where_option
from solscope.cli.options import flag_option
from solscope.cli.output import Output, json_option, present


@click.command("verify", short_help="Check hashes and sums.")
@store_argument
@flag_option("--full", "Also read files that an earlier check found in order.")
@json_option
def verify_command(store: str, full: bool, output: Output) -> int:
    """Check counts, hashes and sums of a store. Exit code 1: something is wrong.

    Finds rows that are doubled, missing or changed, files that cannot be read, and commits that
    were lost. Files that an earlier check on this machine read, and that have not changed since,
    are not read again.

    \b
    Examples:
      solscope corpus verify store
      solscope corpus verify store --full
    """
    from solscope.corpus.maintenance.verify import verify
    from solscope.corpus.store import open_corpus

    corpus = open_corpus(store)
    result = verify(corpus, full=full)
    return present(result, output, failed=not result.ok, url=corpus.url)


@click.command("repair", short_help="Remove duplicate rows.")
@store_argument
@flag_option("--dry-run", "Show what would be removed and change nothing.")
@flag_option("--accept-loss", "Stop reporting commits that are lost for good.")
@json_option
def repair_command(store: str, dry_run: bool, accept_loss: bool, output: Output) -> int:
    """Remove duplicate rows, which a faulty writer can leave in a store.

    A profile's duplicates are removed only if the remaining rows match the count and hash that
    were stored when it was added. Events have no hash: their duplicates are removed only if every
    event is there the same multiple of times. Lost commits cannot be repaired; they are listed,
    until --accept-loss says that their profiles are given up. The exit code is 1 while duplicates
    or lost commits remain.

    \b
    Examples:
      solscope corpus repair store --dry-run
      solscope corpus repair store
    """
    from solscope.corpus.maintenance.repair import repair
    from solscope.corpus.store import open_corpus

    corpus = open_corpus(store)
    result = repair(corpus, dry_run=dry_run, accept=accept_loss)
    return present(result, output, failed=not result.clean, url=corpus.url)


@click.command("compact", short_help="Merge small files and remove unused ones.")
@store_argument
@json_option
def compact(store: str, output: Output) -> None:
    """Merge small files, and remove leftovers of killed runs.

    Others may read and write meanwhile. Only one process at a time compacts a store in a folder.

    \b
    Examples:
      solscope corpus compact store
    """
    from solscope.corpus.maintenance.compaction import compact as compact_store
    from solscope.corpus.store import open_corpus

    corpus = open_corpus(store)
    compact_store(corpus)
    present(corpus.status(), output, url=corpus.url)


@click.command("migrate", short_help="Bring an older store to the current schema.")
@store_argument
@json_option
def migrate_command(store: str, output: Output) -> None:
    """Bring a store that an earlier solscope wrote to the current schema, in place.

    No other process may write to the store meanwhile. Make a backup first.

    \b
    Examples:
      solscope corpus backup store store-backup
      solscope corpus migrate store
    """
    from solscope.corpus.maintenance.migrate import migrate

    present(migrate(store), output, url=store)


@click.command("remove", short_help="Remove profiles, by id, age or tag.")
@store_argument
@click.argument("profiles", nargs=-1, metavar="[ID...]")
@click.option("--before", metavar="DATE", help="Profiles recorded before a date, e.g. 2026-08-01.")
@click.option(
    "--older-than",
    type=click.FloatRange(min=0),
    metavar="DAYS",
    help="Profiles recorded more than so many days ago.",
)
@where_option
@flag_option("--dry-run", "Show what would be removed and change nothing.")
@flag_option(
    "--forget",
    "Also delete replaced files and the log, so that no trace of removed profiles is left.",
)
@json_option
def remove_command(
    store: str,
    profiles: tuple[str, ...],
    before: str | None,
    older_than: float | None,
    where: tuple[str, ...],
    dry_run: bool,
    forget: bool,
    output: Output,
) -> None:
    """Remove profiles.

    ID is an id, its first digits, or the path a profile was added from. Without one, --before,
    --older-than and --where choose profiles; together they choose those that match all. A profile
    without a recording date counts as recorded when it was added.

    \b
    Examples:
      solscope corpus remove store --older-than 90 --dry-run
      solscope corpus remove store 3f2a9c
      solscope corpus remove store --where branch=test --forget
    """
    from solscope.corpus.maintenance.forgetting import forget as forget_removed
    from solscope.corpus.queries.listing import choose_ids, find_ids
    from solscope.corpus.store import open_corpus

    limits = before is not None or older_than is not None or where
    if bool(profiles) == bool(limits) and not (forget and not limits):
        raise click.UsageError("give either ID, or --before, --older-than or --where")
    corpus = open_corpus(store)
    if limits:
        ids = choose_ids(corpus, parse_where(where), _limit_ns(before, older_than))
    else:
        ids = find_ids(corpus, profiles)
    removed = sorted(ids) if dry_run else corpus.remove(ids)
    if forget and not dry_run:
        forget_removed(corpus)
    present({"removed": removed, "dry_run": dry_run}, output)


def _limit_ns(before: str | None, older_than: float | None) -> int | None:
    """The earlier one of both limits; days are counted back from the clock of this machine."""
    from solscope.corpus.ingest.describe import parse_date

    limits = [] if before is None else [parse_date(before)]
    if older_than is not None:
        limits.append(time.time_ns() - round(older_than * 86_400 * 10**9))
    return min(limits, default=None)


COMMANDS = (remove_command, verify_command, repair_command, compact, migrate_command)
"""Commands of the group `solscope corpus`."""
