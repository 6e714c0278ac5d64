"""`solscope export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from solscope.cli.arguments import STDOUT, OutputPath, ProfilePath
from solscope.cli.opening import (
    are_runs,
    chosen_step,
    open_attributed,
    open_rank_again,
    open_ranks_and,
    pick_step,
    refuse_with_runs,
)
from solscope.cli.options import OpeningOptions, flag_option, opening_options, step_options
from solscope.cli.output import Output, check_one_stdout, json_option, present, written
from solscope.cli.progress import progress_line

if TYPE_CHECKING:
    from solscope.export.files import Format

_FILE = OutputPath(stdout=True)


@click.command("export", short_help="Export a profile to Perfetto, Parquet or CSV.")
@click.argument("file", type=ProfilePath(), metavar="FILE|RUN")
@click.option(
    "--perfetto",
    type=_FILE,
    metavar="OUT",
    help="Chrome JSON with added tracks for ui.perfetto.dev; OUT may end in .gz or .zst.",
)
@click.option(
    "--parquet",
    type=OutputPath("folder"),
    metavar="OUT",
    help="Folder of Parquet files, which solscope can open again.",
)
@click.option("--csv", type=_FILE, metavar="OUT", help="One row per GPU activity.")
@flag_option("--redact", "Remove hosts, users, paths, addresses, secrets and header fields.")
@click.option(
    "--redact-report",
    type=OutputPath(),
    metavar="OUT",
    help="List what --redact replaced, with the originals, as JSON: for you, not for sharing.",
)
@step_options
@flag_option("--force", "Replace existing files.")
@opening_options
@json_option
def command(
    file: str,
    perfetto: Path | None,
    parquet: Path | None,
    csv: Path | None,
    redact: bool,
    redact_report: Path | None,
    step: int | None,
    slowest: bool,
    force: bool,
    opening: OpeningOptions,
    output: Output,
) -> None:
    """Export a profile to other tools: Perfetto, spreadsheets, anything that reads Parquet.

    The Perfetto file holds the whole trace, whatever its original format, plus tracks for steps,
    phases, layers, roles, categories and idle time by cause. Choose at least one output. Either
    --perfetto or --csv can be - for standard output.

    A RUN is a folder with one trace per rank, or a glob: its Perfetto file has all ranks on one
    clock, arrows through each collective, and what each rank waits for. Host events are left out
    where the file would be too large for a viewer.

    \b
    Examples:
      solscope export trace.json.gz --perfetto annotated.json.gz
      solscope export report.sqlite --parquet run.solscope --csv activities.csv
      solscope export trace.json.gz --redact --perfetto shareable.json.gz
      solscope export trace.json.gz --redact --redact-report r.json --csv a.csv
      solscope export trace.json.gz --slowest --perfetto slow-step.json.gz
      solscope export profiles/ --perfetto ranks.json.gz
    """
    asked: dict[Format, Path | None] = {"perfetto": perfetto, "parquet": parquet, "csv": csv}
    targets = {form: path for form, path in asked.items() if path is not None}
    if not targets:
        raise click.UsageError("choose an output: --perfetto, --parquet or --csv")
    if redact_report is not None and not redact:
        raise click.UsageError("--redact-report needs --redact")
    from solscope.export.files import export, redact_attributed, say_redacted, write_report
    from solscope.files import check_target

    check_one_stdout(*targets.values(), as_json=output.as_json)
    if are_runs((file,)):
        refuse_with_runs(parquet=parquet, csv=csv, redact=redact)
        chosen = chosen_step(step, slowest)
        if perfetto != STDOUT:
            check_target(targets["perfetto"], file, force=force)
        result = _export_run(file, targets["perfetto"], chosen, opening)
        present(result, output, to_stdout=perfetto == STDOUT)
        return
    for form, path in targets.items():
        if path != STDOUT:
            check_target(path, file, force=force, folder=form == "parquet")
    if redact_report is not None:
        check_target(redact_report, file, force=force)
    whole, counts = open_attributed(file, opening), None
    attributed = pick_step(whole, step, slowest, cut=True)
    if redact:
        attributed, redactor = redact_attributed(attributed)
        counts = redactor.counts
        click.echo(say_redacted(counts), err=True)
        if redact_report is not None:
            write_report(redactor, redact_report)
    done = []
    for form, path in targets.items():
        with written(path) as work:
            done.append(export(attributed, form, work, force=force))
    result = {"written": done, "redacted": counts, "run": None}
    present(result, output, to_stdout=STDOUT in targets.values())


def _export_run(
    name: str, target: Path, step: int | Literal["slowest"] | None, opening: OpeningOptions
) -> dict[str, object]:
    from solscope.export.runs import export_run, extent, slowest_step_of

    analysis, extents = open_ranks_and(name, opening, extent)
    number = slowest_step_of(analysis) if step == "slowest" else step
    with progress_line() as say, written(target) as work:
        file, run = export_run(
            analysis,
            extents,
            lambda path: open_rank_again(path, opening),
            work,
            step=number,
            progress=lambda done, total, path: say(f"wrote {done} of {total} ranks: {path}"),
        )
    return {"written": [file], "redacted": None, "run": run}
