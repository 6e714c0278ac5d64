"""`solscope show`."""

from __future__ import annotations

from pathlib import Path

import click

from solscope.cli.arguments import profiles_argument
from solscope.cli.opening import each_profile, import_numpy, note_skipped, open_attributed
from solscope.cli.options import full_names_option, reading_options, rules_option
from solscope.cli.output import Output, json_option, markdown_option, present


@click.command("show", short_help="Say where the GPU time goes.")
@profiles_argument
@click.option(
    "--top", default=10, show_default=True, type=click.IntRange(min=0), help="Kernels to list."
)
@click.option(
    "--slowest",
    is_flag=True,
    help="List the slowest steps, and what is unusual about each; --top says how many.",
)
@full_names_option
@rules_option
@reading_options
@markdown_option
@json_option
def command(
    files: tuple[str, ...],
    top: int,
    slowest: bool,
    full_names: bool,
    rule_files: tuple[Path, ...],
    max_expansion: int,
    output: Output,
) -> None:
    """Say where the GPU time goes: busy, idle and why, categories, top kernels.

    Several files are shown side by side. A folder or glob with the ranks of one run gives a table
    of ranks.

    \b
    Examples:
      solscope show trace.json.gz
      solscope show before.sqlite after.sqlite
      solscope show profiles/ --json
      solscope show --slowest trace.json.gz
    """
    if slowest:
        _slowest(files, top, rule_files, max_expansion, output)
        return
    import_numpy()
    from solscope import find_profiles, runs, summarize
    from solscope.views.collectives import collective_calls
    from solscope.views.steps import step_times

    summaries, collectives, times = [], {}, {}
    for path in find_profiles(files, note_skipped):
        attributed = open_attributed(path, rule_files, max_expansion)
        summaries.append(summarize(attributed, top))
        collectives[summaries[-1].path] = collective_calls(attributed)
        if output.draws:
            times[summaries[-1].path] = step_times(attributed)
    present(
        {"profiles": summaries, "runs": runs(summaries, collectives)},
        output,
        full_names=full_names,
        drawn=times if output.draws else None,
    )


def _slowest(
    files: tuple[str, ...],
    top: int,
    rule_files: tuple[Path, ...],
    max_expansion: int,
    output: Output,
) -> None:
    from solscope.views.step_rows import step_rows

    tables = each_profile(
        files, lambda path: step_rows(open_attributed(path, rule_files, max_expansion))
    )
    if output.as_json:
        import msgspec

        tables = [msgspec.structs.replace(t, steps=t.steps[:top]) for t in tables]
    present({"profiles": tables}, output, form="show_slowest", top=top)
