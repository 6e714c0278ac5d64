"""`solscope diagnose`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from solscope.cli.arguments import ProfilePath
from solscope.cli.opening import open_attributed, open_ranks
from solscope.cli.options import OpeningOptions, flag_option, opening_options
from solscope.cli.output import Output, json_option, markdown_option, present

if TYPE_CHECKING:
    from solscope.diagnose.slow_rank import RankCause

ROWS = 12
"""Rows of long tables."""


@click.command(
    "diagnose", short_help="Find out what changed between two runs, or within one, and why."
)
@click.argument("normal", type=ProfilePath(), metavar="NORMAL")
@click.argument("abnormal", type=ProfilePath(), metavar="[ABNORMAL]", required=False)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    metavar="N",
    help="Rows to print in long tables (default: 12, or all with --classic); JSON has all.",
)
@click.option(
    "--baseline",
    metavar="FOLDER|STORE",
    help="Compare the one profile with all of these: what is normal is learned from them.",
)
@markdown_option
@flag_option(
    "--classic",
    "Print shares, Z-scores and suspicion scores per function, like cycle-based reports.",
    "as_classic",
)
@opening_options
@json_option
def command(
    normal: str,
    abnormal: str | None,
    top: int | None,
    baseline: str | None,
    as_classic: bool,
    opening: OpeningOptions,
    output: Output,
) -> int:
    """Explain how much slower ABNORMAL is than NORMAL, where the time goes, and why.

    Compares steps of the same phase and splits the difference into parts that add up to it. Each
    part and each sensor is tested, and causes are ranked with the evidence for and against them.
    A metrics file named after its trace is loaded with it. Folders are runs of many ranks: the rank
    that made the run slower is named, and the rest is about that rank. With one recording, its slow
    steps are compared with its others: is it steady, does it drift, change, or stutter? With
    --baseline it is compared with many: how much runs differ is learned from them. Exit code 1: the
    run got slower, or the recording is not steady.

    \b
    Examples:
      solscope diagnose monday.trace.json.gz tuesday.trace.json.gz
      solscope diagnose tuesday.trace.json.gz
      solscope diagnose --baseline last_week/ tuesday.trace.json.gz
      solscope diagnose good_ranks/ bad_ranks/
      solscope diagnose good.json.gz bad.json.gz --markdown > incident.md
      solscope diagnose good.json.gz bad.json.gz --json | jq .causes[0].id
      solscope diagnose normal_perf_data.csv abnormal_perf_data.csv --classic
    """
    if baseline is not None:
        if abnormal is not None or as_classic:
            raise click.UsageError("--baseline takes one profile, and no --classic")
        from solscope.cli.baseline import diagnose_with
        from solscope.diagnose.observe import observe

        result = diagnose_with(
            baseline, normal, lambda path: observe(open_attributed(path, opening))
        )
        failed = result.verdict == "regression"
        return present(result, output, failed=failed, top=top or ROWS, drawn=None)
    if abnormal is None:
        return _single(normal, as_classic, top, opening, output)
    if as_classic:
        from solscope.diagnose.classic import classic
        from solscope.report.layout.labels import short_labels

        runs = [open_attributed(path, opening) for path in (normal, abnormal)]
        first, second = short_labels([normal, abnormal])
        compared = classic(runs[0], runs[1], (first, second))
        return present(compared, output, form="diagnose_classic", top=top)
    from solscope.diagnose.diagnosis import diagnose_units
    from solscope.diagnose.matching.units import match
    from solscope.diagnose.observe import observe

    ranks = None
    if _is_run(normal) and _is_run(abnormal):
        ranks, normal, abnormal = _blamed(normal, abnormal, opening)
    before, after = (observe(open_attributed(path, opening)) for path in (normal, abnormal))
    units = match(before, after)
    result = diagnose_units(units)
    if ranks is not None:
        from msgspec.structs import replace

        result = replace(result, ranks=ranks)
    drawn = None
    if output.draws:
        from solscope.diagnose.changes.trends import trends

        drawn = trends(units)
    failed = result.verdict == "regression"
    return present(result, output, failed=failed, top=top or ROWS, drawn=drawn)


def _single(
    path: str,
    as_classic: bool,
    top: int | None,
    opening: OpeningOptions,
    output: Output,
) -> int:
    """One recording on its own."""
    from solscope.diagnose.observe import observe
    from solscope.diagnose.single import diagnose_run, whole_steps_ms

    if as_classic:
        raise click.UsageError("--classic compares two profiles; pass the abnormal one as well")
    if _is_run(path):
        raise click.UsageError(
            f"{path} has several profiles; pass one of them, or a second run to compare it with"
        )
    run = observe(open_attributed(path, opening))
    result = diagnose_run(run, path=path)
    drawn = whole_steps_ms(run) if output.draws else None
    failed = result.verdict not in ("steady", "cannot_tell")
    return present(
        result, output, form="diagnose_single", failed=failed, top=top or ROWS, drawn=drawn
    )


def _is_run(path: str) -> bool:
    """Whether a path stands for several ranks: a folder, a glob or a demo of that kind."""
    from solscope.errors import InputError
    from solscope.profile import is_saved_profile
    from solscope.readers import find_profiles

    folder = Path(path)
    if folder.is_dir() and not is_saved_profile(folder):
        return True
    if folder.exists():
        return False
    try:
        return len(find_profiles([path])) > 1
    except InputError:
        return False


def _blamed(normal: str, abnormal: str, opening: OpeningOptions) -> tuple[RankCause, str, str]:
    """The rank that made a run slower, and its profiles in both runs."""
    from msgspec.structs import replace

    from solscope.diagnose.slow_rank import blame
    from solscope.ranks.analysis import analyze

    runs = [analyze(open_ranks((path,), opening)) for path in (normal, abnormal)]
    cause = blame(*runs)
    wanted = runs[1].suspect.leader if cause.culprit is None else cause.culprit
    paths = []
    for analysis in runs:
        of_rank = [rank.path for rank in analysis.run.ranks if rank.rank == wanted]
        paths.append(of_rank[0] if of_rank else analysis.run.ranks[0].path)
    names = [analysis.run.name for analysis in runs]
    return replace(cause, runs=names, compared=wanted), paths[0], paths[1]
