"""`solscope compare`."""

from __future__ import annotations

import click

from solscope.cli.arguments import ProfilePath
from solscope.cli.opening import (
    are_runs,
    note_skipped,
    open_analysis,
    open_attributed,
    refuse_with_runs,
)
from solscope.cli.options import (
    OpeningOptions,
    flag_option,
    full_names_option,
    number_option,
    opening_options,
    phase_option,
)
from solscope.cli.output import Output, json_option, markdown_option, present


@click.command("compare", short_help="Compare profiles of the same work.")
@click.argument("files", type=ProfilePath(), nargs=-1, required=True, metavar="FILE FILE...")
@phase_option("Only this phase. Default: all phases that every profile has.")
@number_option(
    "--top", 10, click.IntRange(min=1), "Rows to print in long tables; JSON has all.", metavar="N"
)
@flag_option(
    "--kernels",
    "List what got slower kernel by kernel, also where kernels were renamed, fused or split.",
    "by_kernel",
)
@full_names_option
@markdown_option
@opening_options
@json_option
def command(
    files: tuple[str, ...],
    phase: str | None,
    top: int,
    by_kernel: bool,
    full_names: bool,
    opening: OpeningOptions,
    output: Output,
) -> None:
    """Compare profiles of the same work with the first one, side by side.

    Times are per step of the same phase: the step time and its parts, categories, operators, the
    largest differences by role, and kernels that only some of the profiles have. Two folders or
    globs with the ranks of a run each are compared as runs, also with different numbers of ranks:
    per step and role, in the mean over ranks, with the communication apart.

    \b
    Examples:
      solscope compare h100.json.gz mi300.json.gz
      solscope compare v1.json.gz v2.json.gz v3.json.gz --phase decode
      solscope compare before.json.gz after.json.gz --markdown > change.md
      solscope compare before.json.gz after.json.gz --kernels
      solscope compare tp4/ tp8/
    """
    if are_runs(files):
        refuse_with_runs(kernels=by_kernel, full_names=full_names)
        _runs(files, phase, top, opening, output)
        return
    from solscope import compare_kernels, compare_profiles, find_profiles
    from solscope.compare.profiles import check_several
    from solscope.report.layout.labels import short_labels

    paths = find_profiles(files, note_skipped)
    profiles = [open_attributed(path, opening) for path in paths]
    if by_kernel:
        check_several(profiles)
        comparisons = [
            compare_kernels(profiles[0], profile, phase=phase) for profile in profiles[1:]
        ]
        result = {"comparisons": comparisons}
        present(result, output, form="compare_kernels", top=top, full_names=full_names)
        return
    labels = short_labels([attributed.profile.path for attributed in profiles])
    present(compare_profiles(profiles, labels, phase=phase), output, top=top)


def _runs(
    names: tuple[str, ...], phase: str | None, top: int, opening: OpeningOptions, output: Output
) -> None:
    """Two runs of many ranks."""
    if len(names) != 2:
        raise click.UsageError(f"compare takes two runs of many ranks, not {len(names)}")
    from solscope.compare.runs import compare_runs
    from solscope.report.layout.labels import short_labels

    before, after = (open_analysis(name, opening) for name in names)
    first, second = short_labels(list(names))
    result = compare_runs(before, after, (first, second), phase)
    present(result, output, form="compare_runs", top=top)
