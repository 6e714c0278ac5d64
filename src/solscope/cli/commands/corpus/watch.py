"""`solscope corpus watch`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from solscope.cli.commands.corpus.options import store_argument
from solscope.cli.options import flag_option
from solscope.cli.output import Output, form_options, present

if TYPE_CHECKING:
    from solscope.corpus.watch.watching import Watch, WatchDiagnosis, Watched


@click.command("watch", short_help="Test limits on the latest profiles; exit 1 if broken.")
@store_argument
@click.argument("rules", metavar="RULES", type=click.Path(path_type=Path))
@flag_option("--strict", "Also fail when the answer is 'cannot tell'.")
@flag_option(
    "--diagnose",
    "Diagnose the latest profile of each broken limit; the files must still be there.",
    "explain",
)
@form_options
def watch_command(store: str, rules: Path, strict: bool, explain: bool, output: Output) -> int:
    """Test the limits of RULES, a TOML file, on the latest profile of each model and GPU.

    A limit is fixed, or relative to the profiles before (percent, or standard deviations). The exit
    code is 1 when one is broken. With --markdown the output is the text of an alert.

    \b
    Examples:
      solscope corpus watch store limits.toml
      solscope corpus watch store limits.toml --diagnose --markdown > alert.md
    """
    from solscope.corpus.store import open_corpus
    from solscope.corpus.watch.rules import load_rules
    from solscope.corpus.watch.watching import watch

    if Path(store).is_file():
        raise click.UsageError(f"{store} is a file; the store comes first: corpus watch DIR RULES")
    result = watch(open_corpus(store), load_rules(rules))
    if explain:
        result = _explained(result)
    failed = result.broken > 0 or (strict and result.cannot_tell > 0)
    return present(result, output, failed=failed)


def _explained(result: Watch) -> Watch:
    """The same with a diagnosis of each broken row; rows of the same two profiles share one."""
    from msgspec.structs import replace

    diagnoses: dict[tuple[str, str], WatchDiagnosis] = {}

    def explained(row: Watched) -> Watched:
        if row.state != "broken" or row.compared_with is None:
            return row
        pair = (row.compared_with, row.latest.file)
        if pair not in diagnoses:
            diagnoses[pair] = _diagnosed(*pair)
        return replace(row, diagnosis=diagnoses[pair])

    return replace(result, rows=[explained(row) for row in result.rows])


def _diagnosed(normal: str, abnormal: str) -> WatchDiagnosis:
    import solscope
    from solscope.corpus.watch.watching import WatchDiagnosis
    from solscope.diagnose.diagnosis import diagnose_runs
    from solscope.errors import SolscopeError

    try:
        before, after = (solscope.attribute(solscope.open(path)) for path in (normal, abnormal))
        diagnosis = diagnose_runs(before, after)
    except SolscopeError as error:
        return WatchDiagnosis(None, f"no diagnosis: {error}", None, None)
    first = diagnosis.causes[0]
    return WatchDiagnosis(diagnosis.verdict, diagnosis.sentence, first.id, first.confidence)
