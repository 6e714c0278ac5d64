"""`solscope corpus`: the store of profiles."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from solscope.cli.arguments import ProfilePath
from solscope.cli.commands.corpus.options import (
    limit_options,
    make_limits,
    parse_where,
    store_argument,
    where_option,
)
from solscope.cli.commands.corpus.questions import COMMANDS as QUESTIONS
from solscope.cli.commands.corpus.transfer import COMMANDS as TRANSFER
from solscope.cli.commands.corpus.upkeep import COMMANDS as UPKEEP
from solscope.cli.commands.corpus.watch import watch_command
from solscope.cli.opening import open_model
from solscope.cli.options import (
    ModelOptions,
    choice_option,
    expansion_option,
    flag_option,
    model_options,
    number_option,
)
from solscope.cli.output import Output, json_option, present

if TYPE_CHECKING:
    from solscope.corpus.ingest.add import Report
    from solscope.corpus.store import Corpus

MANY_FILES = 128
"""Files in a table from which `add` suggests to merge them."""


class StoreGroup(click.Group):
    """Commands on a store. A read error in Polars means a damaged store, not a bug."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BaseException as error:
            polars = sys.modules.get("polars")
            if polars is None or not isinstance(
                error, (polars.exceptions.PolarsError, polars.exceptions.PanicException)
            ):
                raise
            from solscope.corpus.delta import first_line
            from solscope.errors import DamagedFileError

            raise DamagedFileError(
                f"cannot read this store ({first_line(error)}); "
                "`solscope corpus verify` lists the damage"
            ) from error


@click.group("corpus", cls=StoreGroup, short_help="Analyze many profiles in a store.")
def command() -> None:
    """Collect profiles in a store and query all of them at once.

    A store is a set of Delta Lake tables in a folder or at an object-store URL. It holds the times
    and metadata of each profile, not its events.

    \b
    Examples:
      solscope corpus init store
      solscope corpus add store traces/ --tag team=search
      solscope corpus importance store
      solscope corpus shapes store dense_gemm --cover 0.95
      solscope corpus export-suite store suite.json
    """


for _command in (*QUESTIONS, watch_command, *TRANSFER, *UPKEEP):
    command.add_command(_command)


@command.command("init", short_help="Create an empty store.")
@store_argument
@flag_option("--redact", "Take profiles only without private text, whoever adds them.")
@json_option
def init(store: str, redact: bool, output: Output) -> None:
    """Create an empty store in a folder or at a URL. An existing store is left unchanged.

    \b
    Examples:
      solscope corpus init store
      solscope corpus init s3://bucket/store --redact
    """
    from solscope.corpus.store import create_corpus

    _present_status(create_corpus(store, redact=redact), output)


def _present_status(corpus: Corpus, output: Output) -> None:
    present(corpus.status(), output, url=corpus.url)


@command.command("add", short_help="Add profiles to a store.")
@store_argument
@click.argument("profiles", nargs=-1, required=True, metavar="FILE...", type=ProfilePath())
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="KEY=VALUE",
    help="Tag for all of these profiles. May be repeated.",
)
@flag_option("--keep-events", "Also store all events, which makes the store large.")
@flag_option(
    "--redact", "Remove hosts, users, paths, addresses and secrets before anything is stored."
)
@choice_option(
    "--engine", ["local", "ray"], "Read profiles in local processes or on a Ray cluster."
)
@click.option("--address", metavar="ADDRESS", help="An existing Ray cluster. Default: start one.")
@click.option(
    "--workers",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="Files to read in parallel. Default: one per core.",
)
@limit_options
@flag_option("--verbose", "Print each finished file on stderr.")
@model_options
@expansion_option
@json_option
def add(
    store: str,
    profiles: tuple[str, ...],
    tags: tuple[str, ...],
    keep_events: bool,
    redact: bool,
    engine: str,
    address: str | None,
    workers: int | None,
    max_seconds: float,
    max_memory: float,
    verbose: bool,
    model: ModelOptions,
    max_expansion: int,
    output: Output,
) -> int:
    """Add profiles: files, folders (searched recursively), globs and URLs.

    Content that is already in the store is skipped. A file that cannot be read is listed in the
    result, the others are added, and the exit code is 1.

    \b
    Examples:
      solscope corpus add store profiles/
      solscope corpus add store 'runs/*.json.gz' --tag branch=main --redact
      solscope corpus add store profiles/ --max-seconds 60 --max-memory 8
    """
    from solscope import ReadOptions
    from solscope.corpus.ingest.add import add_profiles
    from solscope.corpus.ingest.describe import parse_tag
    from solscope.corpus.ingest.extract import ExtractOptions
    from solscope.corpus.store import open_corpus

    options = ExtractOptions(
        tags=tuple(map(parse_tag, tags)),
        keep_events=keep_events,
        model=open_model(model),
        read=ReadOptions(max_expansion=max_expansion, cache=False),
        redact=redact,
    )
    corpus = open_corpus(store)
    with _progress(verbose) as report:
        limits = make_limits(max_seconds, max_memory)
        result = add_profiles(corpus, profiles, options, engine, workers, address, report, limits)
    code = present(result, output, failed=bool(result.failed))
    if result.added and (files := len(corpus.files("profiles"))) >= MANY_FILES:
        click.echo(
            f"solscope: this store has many small files ({files:,} in one table); "
            f"`solscope corpus compact {store}` merges them",
            err=True,
        )
    if tags and result.skipped:
        click.echo(
            "solscope: skipped profiles keep their old tags; to change them, "
            "remove the profiles (`corpus remove`) and add them again",
            err=True,
        )
    return code


@contextmanager
def _progress(verbose: bool) -> Iterator[Report | None]:
    """Report each finished file, or show a bar with rate and remaining time on a terminal."""
    if verbose:
        yield _say
    elif not sys.stderr.isatty():
        yield None
    else:
        from solscope.cli.file_bar import file_bar

        with file_bar() as report:
            yield report


def _say(path: str, state: str, reason: str | None, _total: int) -> None:
    from solscope.text import clean

    if state != "read":
        click.echo(clean(f"{state} {reason or path}"), err=True)


@command.command("status", short_help="Show what a store contains.")
@store_argument
@json_option
def status(store: str, output: Output) -> None:
    """Show the number of profiles in a store, what they cover, and the store's size.

    \b
    Examples:
      solscope corpus status store
    """
    from solscope.corpus.store import open_corpus

    _present_status(open_corpus(store), output)


@command.command("list", short_help="List the profiles in a store.")
@store_argument
@where_option
@json_option
def list_command(store: str, where: tuple[str, ...], output: Output) -> None:
    """List the profiles, oldest recording first.

    \b
    Examples:
      solscope corpus list store
      solscope corpus list store --where gpu=H200 --where branch=main
    """
    from solscope.corpus.queries.listing import list_profiles
    from solscope.corpus.store import open_corpus

    rows = list_profiles(open_corpus(store), parse_where(where))
    present({"profiles": rows}, output)


@command.command("query", short_help="Run SQL on the tables.")
@store_argument
@click.argument("sql")
@number_option("--limit", 100, click.IntRange(min=1), "Rows to print.")
@json_option
def query_command(store: str, sql: str, limit: int, output: Output) -> None:
    """Run one SELECT on the tables profiles, times, steps and events. JSON has all rows.

    \b
    Examples:
      solscope corpus query store 'SELECT gpu, file FROM profiles'
    """
    from solscope.corpus.queries.sql import query
    from solscope.corpus.store import open_corpus

    frame = query(open_corpus(store), sql)
    rows = frame.to_dicts() if output.as_json else []
    present({"rows": rows}, output, frame=frame, limit=limit)
