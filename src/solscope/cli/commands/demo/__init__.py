"""`solscope demo`."""

from __future__ import annotations

from pathlib import Path

import click

from solscope.cli.arguments import OutputPath, output_folder_option
from solscope.cli.options import flag_option
from solscope.cli.output import Output, json_option, present


@click.group(
    "demo",
    invoke_without_command=True,
    short_help="Try every command on bundled recordings.",
)
@json_option
@click.pass_context
def command(context: click.Context, output: Output) -> None:
    """List the recordings that come with solscope, and a command to try for each question.

    Every command that takes files takes `demo:NAME`, too. No GPU is needed.

    \b
    Examples:
      solscope demo
      solscope demo run diagnose
      solscope demo copy recordings
    """
    if context.invoked_subcommand is not None:
        return
    from solscope.report.results.demo import listing

    present(listing(), output)


@command.command("copy", short_help="Copy the recordings to a folder.")
@click.argument("folder", type=OutputPath("folder"), metavar="DIR")
@flag_option("--force", "Replace the recordings of an earlier copy; other files there stay.")
@json_option
def copy(folder: Path, force: bool, output: Output) -> None:
    """Copy all recordings to DIR, with a README of commands to run there.

    \b
    Examples:
      solscope demo copy recordings
    """
    from solscope.demo.copying import copy_demos

    present(copy_demos(folder, force=force), output)


def _names(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[click.shell_completion.CompletionItem]:
    from click.shell_completion import CompletionItem

    from solscope.demo.examples import EXAMPLES

    return [CompletionItem(e.name) for e in EXAMPLES if e.name.startswith(incomplete)]


@command.command("run", short_help="Run the commands and show their output.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=_names)
@output_folder_option("Folder for what the commands write; by default a temporary one.")
@json_option
def run(names: tuple[str, ...], target: Path | None, output: Output) -> int:
    """Run the commands of the named examples, or of all, and print each with its output.

    Exit code 1 when a command did not end as expected. A command whose optional dependency is not
    installed is skipped.

    \b
    Examples:
      solscope demo run diagnose
      solscope demo run -o out
    """
    from solscope.cli.commands.demo.examples import choose, run_examples

    ended = run_examples(choose(names), target, echo=not output.as_json)
    return present(
        {"commands": ended},
        output,
        failed=not all(command_run.as_expected for command_run in ended),
    )
