"""`solscope report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from solscope.cli.arguments import STDOUT, OutputPath, ProfilePath
from solscope.cli.opening import note_skipped, open_attributed, open_hardware, open_model
from solscope.cli.options import (
    ModelOptions,
    OpeningOptions,
    cache_forbidden,
    flag_option,
    hardware_option,
    model_options,
    opening_options,
)
from solscope.cli.output import Output, check_one_stdout, json_option, present, written

if TYPE_CHECKING:
    from solscope.pages.stored import Encoded, StoredPages

USES = ("solscope.pages.selection", "solscope.operators.recorded", "solscope.report.html")
"""Modules that are imported while a profile is read."""


@click.command("report", short_help="Write one self-contained HTML file.")
@click.argument("files", type=ProfilePath(), nargs=-1, required=True, metavar="FILE...")
@click.option(
    "-o",
    "--output",
    "target",
    type=OutputPath(stdout=True),
    default=Path("report.html"),
    show_default=True,
    metavar="OUT",
    help="File to write, or - for standard output.",
)
@flag_option(
    "--diagnose",
    "Add a page that explains what changed between two profiles, the normal one first, or within "
    "one.",
)
@flag_option("--force", "Replace an existing file.")
@hardware_option
@model_options
@opening_options
@json_option
def command(
    files: tuple[str, ...],
    target: Path,
    diagnose: bool,
    force: bool,
    hardware: str | None,
    model: ModelOptions,
    opening: OpeningOptions,
    output: Output,
) -> None:
    """Write profiles into one self-contained HTML file that works offline.

    Each profile gets a page. Several profiles also get a comparison, and ranks of one run get a
    page of ranks. Results of `solscope bench run` become pages of solutions, operators and shapes.
    The file contains names from the profile; to remove them before sharing, use
    `solscope export --redact`.

    \b
    Examples:
      solscope report trace.json.gz
      solscope report h100.json.gz mi300.json.gz -o two.html
      solscope report --diagnose normal.json.gz slow.json.gz -o why.html
    """
    from solscope.bench.results.files import is_results

    check_one_stdout(target, as_json=output.as_json)
    results = [path for path in files if is_results(path)]
    if results and len(results) < len(files):
        raise click.UsageError("pass either profiles or benchmark results (.jsonl), not both")
    if results:
        from solscope.cli.results_files import results_and_ignored
        from solscope.pages.selection import pages_of_results

        _check(target, results, force)
        title = ", ".join(Path(path).name for path in results)
        with results_and_ignored(results) as (lines, ignored):
            selected = pages_of_results(lines, title, ignored)
        _write(selected, title, target, output)
        return
    from solscope import find_profiles

    paths = find_profiles(files, note_skipped)
    _check(target, paths, force)
    if diagnose and len(paths) < min(2, len(files)):
        raise click.UsageError("--diagnose takes two different profiles, or one alone")
    choices = _Choices(diagnose, hardware, model, opening)
    stored = _stored(paths, choices)
    pages = stored.find()
    if pages is None:
        pages, formats = _make(paths, choices)
        stored.store(pages, formats)
    _write(pages.pages, pages.title, target, output)


class _Choices(NamedTuple):
    """What pages depend on besides the profiles."""

    diagnose: bool
    hardware: str | None
    model: ModelOptions
    opening: OpeningOptions


def _stored(paths: Sequence[str], choices: _Choices) -> StoredPages:
    from solscope import ReadOptions
    from solscope.pages.stored import StoredPages

    card = choices.hardware or ""
    named = [Path(card)] if card.endswith(".toml") else []
    named += [] if choices.model.path is None else [choices.model.path]
    cached = not cache_forbidden()
    if choices.diagnose:
        from solscope.diagnose.causes import others_offer_causes

        cached = cached and not others_offer_causes()
    options = ReadOptions(max_expansion=choices.opening.max_expansion, cache=cached)
    return StoredPages(paths, options, choices, [*named, *choices.opening.rule_files])


def _make(paths: Sequence[str], choices: _Choices) -> tuple[Encoded, list[str]]:
    """The pages, and the formats of the profiles."""
    card = open_hardware(choices.hardware)
    config = open_model(choices.model)
    profiles = [open_attributed(path, choices.opening, uses=USES) for path in paths]
    if choices.diagnose and len(profiles) > 2:
        raise click.UsageError(f"--diagnose takes one or two profiles, not {len(profiles)}")
    import msgspec

    from solscope.pages.selection import pages_of_profiles
    from solscope.pages.stored import Encoded
    from solscope.report.layout.labels import short_labels

    labels = short_labels([attributed.profile.path for attributed in profiles])
    pages = pages_of_profiles(
        profiles, labels, diagnose=choices.diagnose, hardware=card, model=config
    )
    encoded = [msgspec.Raw(msgspec.json.encode(page)) for page in pages]
    formats = [attributed.profile.format for attributed in profiles]
    return Encoded(" · ".join(labels), encoded), formats


def _check(target: Path, sources: Sequence[str], force: bool) -> None:
    from solscope.files import check_target

    for source in () if target == STDOUT else sources:
        check_target(target, source, force=force)


def _write(pages: Sequence[Any], title: str, target: Path, output: Output) -> None:
    from solscope.report.html import write_html

    with written(target) as work:
        size = write_html(pages, title, work)
    result = {"written": str(target), "bytes": size, "pages": len(pages)}
    present(result, output, to_stdout=target == STDOUT)
