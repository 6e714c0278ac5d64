"""`solscope schema`."""

from __future__ import annotations

import click

from solscope.cli.output import emit


def _names(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[click.shell_completion.CompletionItem]:
    from click.shell_completion import CompletionItem

    from solscope.report.forms import all_forms

    return [CompletionItem(name) for name in all_forms() if name.startswith(incomplete)]


@click.command("schema", short_help="Print the JSON Schema of a command's output.")
@click.argument("name", required=False, metavar="[NAME]", shell_complete=_names)
def command(name: str | None) -> None:
    """Print the JSON Schema of what a command prints with --json, or list the names of all.

    NAME is the command with underscores (corpus_importance). Output that an option changes has a
    name of its own (kernels_explain).

    \b
    Examples:
      solscope schema
      solscope schema show
    """
    from solscope.errors import UsageError
    from solscope.report.forms import all_forms
    from solscope.report.schemas import json_schema

    if name is None:
        emit("\n".join(all_forms()))
        return
    import msgspec

    # The output itself says `solscope.corpus_importance/1`; a command is written with spaces.
    key = name.removeprefix("solscope.").partition("/")[0].replace(" ", "_").replace("-", "_")
    if key not in all_forms():
        raise UsageError(f"no schema {name!r}; `solscope schema` lists them")
    emit(msgspec.json.format(msgspec.json.encode(json_schema(key)), indent=2).decode())
