"""`solscope corpus`: queries on a store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from solscope.cli import completion
from solscope.cli.arguments import STDOUT, OutputPath
from solscope.cli.commands.corpus.options import (
    parse_where,
    store_argument,
    where_option,
)
from solscope.cli.options import Decorator, choice_option, flag_option, number_option
from solscope.cli.output import (
    Output,
    check_one_stdout,
    form_options,
    json_option,
    present,
    written,
)

top_option: Decorator = number_option("--top", 20, click.IntRange(min=1), "Rows to print.")
cover_option: Decorator = number_option(
    "--cover",
    0.95,
    click.FloatRange(0, 1, min_open=True),
    "Share of an operator's time that the shapes must cover.",
    metavar="SHARE",
)
weight_option: Decorator = click.option(
    "--weight",
    default="uniform",
    show_default=True,
    metavar="uniform|gpu-time|tag:NAME",
    help="Weight of a profile.",
)


@click.command("importance", short_help="Rank operators by GPU time across profiles.")
@store_argument
@choice_option(
    "--by", ["operator", "shape", "category", "role", "kernel"], "What a row represents."
)
@click.option(
    "--group-by", metavar="KEY,...", default="", help="One table per model, gpu, phase, tag, ..."
)
@weight_option
@where_option
@top_option
@form_options
def importance_command(
    store: str,
    by: Any,
    group_by: str,
    weight: str,
    where: tuple[str, ...],
    top: int,
    output: Output,
) -> None:
    """Show each operator's share of GPU time across all profiles, with a confidence interval.

    \b
    Examples:
      solscope corpus importance store
      solscope corpus importance store --by shape --where phase=decode
      solscope corpus importance store --group-by gpu --weight gpu-time
    """
    from solscope.corpus.queries.importance import importance
    from solscope.corpus.store import open_corpus

    names = [name.strip() for name in group_by.split(",") if name.strip()]
    result = importance(open_corpus(store), by, names, weight, parse_where(where))
    present(result, output, top=top)


@click.command("shapes", short_help="Find the fewest shapes that cover an operator's time.")
@store_argument
@click.argument("operator", required=False, metavar="[OP]", shell_complete=completion.any_operator)
@cover_option
@flag_option("--buckets", "Merge similar token counts.")
@weight_option
@where_option
@top_option
@form_options
def shapes_command(
    store: str,
    operator: str | None,
    cover: float,
    buckets: bool,
    weight: str,
    where: tuple[str, ...],
    top: int,
    output: Output,
) -> None:
    """Show the hot shapes of one operator, or of all operators.

    \b
    Examples:
      solscope corpus shapes store dense_gemm
      solscope corpus shapes store --cover 0.8 --buckets
    """
    from solscope.corpus.queries.shapes import hot_shapes
    from solscope.corpus.store import open_corpus

    corpus = open_corpus(store)
    result = hot_shapes(corpus, operator, cover, buckets, weight, parse_where(where))
    present(result, output, top=top)


@click.command("export-suite", short_help="Write hot shapes as a benchmark suite.")
@store_argument
@click.argument("out", metavar="OUT", type=OutputPath(stdout=True))
@click.option("--name", metavar="NAME", help="Name of the suite. Default: the file name.")
@cover_option
@click.option("--buckets/--no-buckets", default=True, help="Merge similar token counts (default).")
@weight_option
@where_option
@flag_option("--force", "Replace OUT if it exists.")
@json_option
def export_suite(
    store: str,
    out: Path,
    name: str | None,
    cover: float,
    buckets: bool,
    weight: str,
    where: tuple[str, ...],
    force: bool,
    output: Output,
) -> None:
    """Write the hot shapes of all operators to a suite file, or to standard output if OUT is -.

    \b
    Examples:
      solscope corpus export-suite store my-suite.json
      solscope corpus export-suite store my-suite.json --where phase=decode
    """
    from solscope.corpus.queries.export import suite_of, write_suite
    from solscope.corpus.store import open_corpus

    check_one_stdout(out, as_json=output.as_json)
    name = name or ("corpus" if out == STDOUT else out.stem)
    suite = suite_of(open_corpus(store), name, cover, buckets, weight, parse_where(where))
    with written(out) as work:
        write_suite(suite, work, force=force)
    if out == STDOUT:
        return
    shapes = sum(len(entry.shapes) for entry in suite.operators)
    present({"path": str(out), "operators": len(suite.operators), "shapes": shapes}, output)


@click.command("trend", short_help="Find change points over time; exit 1 if slower.")
@store_argument
@click.argument("what", metavar="OP|CATEGORY|step", shell_complete=completion.series)
@choice_option("--by", ["date", "version"], "Order of the profiles.")
@choice_option(
    "--metric", ["call", "step", "share"], "Time per call, time per step, or share of GPU time."
)
@number_option(
    "--min-change",
    3.0,
    click.FloatRange(min=0),
    "Smallest slowdown that sets exit code 1.",
    metavar="PERCENT",
)
@where_option
@top_option
@form_options
def trend_command(
    store: str,
    what: str,
    by: Any,
    metric: Any,
    min_change: float,
    where: tuple[str, ...],
    top: int,
    output: Output,
) -> int:
    """Show a series over profiles with its change points.

    The exit code is 1 when the last change made it slower.

    \b
    Examples:
      solscope corpus trend store step
      solscope corpus trend store dense_gemm --by version --min-change 5
    """
    from solscope.corpus.queries.trend import trend
    from solscope.corpus.store import open_corpus

    result = trend(open_corpus(store), what, by, metric, parse_where(where), min_change)
    return present(result, output, failed=result.regressed, top=top)


COMMANDS = (importance_command, shapes_command, export_suite, trend_command)
"""Commands of the group `solscope corpus`."""
