"""`solscope layers`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from solscope.cli.arguments import ProfilePath
from solscope.cli.opening import (
    are_runs,
    note_skipped,
    open_analysis,
    open_attributed,
    open_model,
    pick_step,
    refuse_with_runs,
)
from solscope.cli.options import (
    ModelOptions,
    OpeningOptions,
    choice_option,
    flag_option,
    opening_options,
    phase_option,
    step_options,
)
from solscope.cli.output import Output, emit, json_option, markdown_option, present

if TYPE_CHECKING:
    from solscope.views.layers import Per, Stat


@click.command("layers", short_help="Break one decoder layer down by role and kernel.")
@click.argument("files", type=ProfilePath(), nargs=-1, required=True, metavar="FILE...")
@phase_option("Phase to show. Default: the one that takes the most time in all profiles.")
@click.option(
    "--layer", type=click.IntRange(min=0), metavar="N", help="Only layer N, counted from 0."
)
@choice_option(
    "--per",
    ["layer", "step", "call"],
    "Print times per layer, per step (all layers), or per kernel call.",
)
@choice_option(
    "--stat", ["mean", "median", "p90"], "Statistic over layers and passes. Only means add up."
)
@step_options
@flag_option("--kernels", "List the kernels of each role.")
@click.option(
    "--model",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="CONFIG",
    help="The model's config.json, to check layers and roles against.",
)
@markdown_option
@flag_option("--csv", "Print CSV.", "as_csv")
@opening_options
@json_option
def command(
    files: tuple[str, ...],
    phase: str | None,
    layer: int | None,
    per: Per,
    stat: Stat,
    step: int | None,
    slowest: bool,
    kernels: bool,
    model: Path | None,
    as_csv: bool,
    opening: OpeningOptions,
    output: Output,
) -> None:
    """Break one decoder layer of each profile down by group and role, side by side.

    Profiles are aligned by group and role, never by kernel name, so GPUs and frameworks may differ.
    Rows add up to groups, groups to a layer, and layers plus the rest to the end-to-end time of a
    pass. Folders or globs with the ranks of a run give the mean over ranks and its spread, with
    waiting for other ranks apart.

    \b
    Examples:
      solscope layers trace.json.gz
      solscope layers h100.json.gz mi300.json.gz --kernels
      solscope layers eager.json.gz graph.json.gz --phase decode --markdown
      solscope layers trace.json.gz --model config.json
      solscope layers ranks/
    """
    if are_runs(files):
        refuse_with_runs(
            layer=layer is not None,
            stat=stat != "mean",
            step=step is not None,
            slowest=slowest,
            kernels=kernels,
            model=model,
        )
        _runs(files, phase, per, as_csv, opening, output)
        return
    from solscope import find_profiles

    config = open_model(ModelOptions(model, None, None))
    paths = find_profiles(files, note_skipped)
    whole = (open_attributed(path, opening) for path in paths)
    profiles = [pick_step(attributed, step, slowest) for attributed in whole]
    from solscope.report.layout.labels import short_labels
    from solscope.views.layers import layers

    labels = short_labels([attributed.profile.path for attributed in profiles])
    result = layers(profiles, labels, phase=phase, layer=layer, per=per, stat=stat, model=config)
    if as_csv and not output.as_json and not output.markdown:
        from solscope.report.results.layers import csv_layers

        emit(csv_layers(result))
    else:
        present(result, output, kernels=kernels)


def _runs(
    names: tuple[str, ...],
    phase: str | None,
    per: Per,
    as_csv: bool,
    opening: OpeningOptions,
    output: Output,
) -> None:
    """Layers of runs of many ranks."""
    if per == "call":
        raise click.UsageError("--per call: for single profiles only; name one rank's file")
    from solscope.report.layout.labels import short_labels
    from solscope.views.run_layers import run_layers

    runs = [open_analysis(name, opening) for name in names]
    labels = short_labels(list(names))
    result = run_layers(runs, labels, phase=phase, per=per)
    if as_csv and not output.as_json and not output.markdown:
        from solscope.report.results.layers import csv_run_layers

        emit(csv_run_layers(result))
    else:
        present(result, output, form="layers_run")
