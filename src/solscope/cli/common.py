"""Shared by commands: options, opening profiles with a progress bar, output."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from solscope.cli import completion

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from solscope.attribution import Attributed
    from solscope.operators.from_config import Model
    from solscope.readers import ReadOptions
    from solscope.run import Run

PROGRESS_FROM_BYTES = 8 << 20
"""Smaller files are read too fast for a progress bar."""
LOG_EVERY_S = 5.0
"""Interval of progress lines in a log, where no line can be overwritten."""

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

json_option: Decorator = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
markdown_option: Decorator = click.option("--markdown", is_flag=True, help="Print Markdown.")
full_names_option: Decorator = click.option(
    "--full-names", is_flag=True, help="Print kernel names whole, templates and arguments included."
)
rules_option: Decorator = click.option(
    "--rules",
    "rule_files",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Extra classification rules (TOML), tried before the built-in ones. May be repeated.",
)
hardware_option: Decorator = click.option(
    "--hardware",
    metavar="NAME",
    shell_complete=completion.hardware_or_file,
    help="GPU to compute bounds for, or a hardware file. Default: the GPU of the profile.",
)
companion_option: Decorator = click.option(
    "--with",
    "companion",
    metavar="FILE",
    help="Eager profile of the same program, to get operators and inputs of graph kernels.",
)


def bound_option(default: str) -> Decorator:
    """`--bound`: ours, or as the public suite computes it."""
    return click.option(
        "--bound",
        type=click.Choice(["corrected", "published"]),
        default=default,
        show_default=True,
        help="Our bound, which no kernel can beat, or the formula of the public suite.",
    )


_NO_CACHE = "solscope.no_cache"


def _forbid_cache(context: click.Context, _: click.Parameter, forbidden: bool) -> None:
    context.meta[_NO_CACHE] = forbidden


def _without_cache() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_NO_CACHE))


expansion_option: Decorator = click.option(
    "--max-expansion",
    default=200,
    show_default=True,
    type=click.IntRange(min=1),
    metavar="FACTOR",
    help="Reject a compressed file that expands by more than this factor.",
)
no_cache_option: Decorator = click.option(
    "--no-cache",
    is_flag=True,
    expose_value=False,
    callback=_forbid_cache,
    help="Read the file again, and do not cache what was read.",
)


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--max-expansion`, which the command takes; `--no-cache`, which `open_attributed` obeys."""
    return expansion_option(no_cache_option(command))


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """`--model`, `--batch` and `--context`, which `open_model` takes."""
    for option in (
        click.option(
            "--context",
            type=click.IntRange(1, 1 << 32),
            metavar="N",
            help="Keys per request in a decode step, if not in the profile; for --model.",
        ),
        click.option(
            "--batch",
            type=click.IntRange(1, 1 << 32),
            metavar="N",
            help="Requests in a decode step, if not in the profile; for --model.",
        ),
        click.option(
            "--model",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="CONFIG",
            help="The model's config.json, for kernels without recorded shapes.",
        ),
    ):
        command = option(command)
    return command


def open_model(path: Path | None, batch: int | None, context: int | None) -> Model | None:
    """The model that the options of `model_options` describe; null without `--model`."""
    from solscope.errors import UsageError
    from solscope.operators.from_config import load_model

    if path is not None:
        return load_model(path, batch, context)
    if batch is not None or context is not None:
        raise UsageError("--batch and --context need --model")
    return None


def import_numpy() -> None:
    """Import NumPy without the threads of its linear algebra: one per core, and nothing uses them.

    Processes that are started later get their threads.
    """
    limit = "OPENBLAS_NUM_THREADS"
    if "numpy" not in sys.modules and limit not in os.environ:
        os.environ[limit] = "1"
        try:
            import_module("numpy")
        finally:
            del os.environ[limit]


def each_profile(files: tuple[str, ...], analyze: Callable[[str], Any]) -> list[Any]:
    """Analyze every profile behind `files`; of several, one that fails is skipped with a note."""
    import_numpy()
    from solscope import find_profiles
    from solscope.errors import InputError

    paths = find_profiles(files, note_skipped)
    results = []
    for path in paths:
        try:
            results.append(analyze(path))
        except InputError as error:
            if len(paths) == 1:
                raise
            note_skipped(path, str(error).removeprefix(f"{path}: "))
    if not results:
        raise InputError("none of these profiles could be used; see the reasons above")
    return results


def emit_each(results: list[Any], render: Callable[[Any], str], as_json: bool) -> None:
    """Print the results one after the other; as JSON, a list whatever their number."""
    if as_json:
        emit_json({"profiles": results})
    else:
        emit("\n".join(map(render, results)))


class ProfilePath(click.Path):
    """A file, folder, glob or demo, with completion of files and demos."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        from solscope.demo import DEMOS, PREFIX

        demos = [
            f"{PREFIX}{name}" for name, demo in DEMOS.items() if demo.kind in ("profile", "run")
        ]
        found = [CompletionItem(name) for name in demos if name.startswith(incomplete)]
        return found if incomplete and found else super().shell_complete(ctx, param, incomplete)


profiles_argument: Decorator = click.argument(
    "files", type=ProfilePath(), nargs=-1, required=True, metavar="FILE|FOLDER|GLOB..."
)


def note_skipped(path: str, reason: str) -> None:
    """Report on stderr that a file of a folder could not be used."""
    from solscope.text import clean

    click.echo(f"solscope: skipped {clean(path)}: {clean(reason)}", err=True)


def open_attributed(
    path: str, rule_files: tuple[Path, ...], max_expansion: int, companion: str | None = None
) -> Attributed:
    """Open one profile, with a progress bar for a large one, and attribute it."""
    from solscope import load_rules
    from solscope.attribution.opening import open_attributed

    with _read_options(path, max_expansion) as options:
        attributed = open_attributed(
            path, options=options, rules=load_rules(rule_files), companion=companion
        )
    if companion is not None:
        _note_unmatched(path, companion, attributed)
    return attributed


def _note_unmatched(path: str, companion: str, attributed: Attributed) -> None:
    """Say on stderr that a companion gave nothing, and why."""
    from solscope.text import clean

    rows = attributed.activities
    if (rows["borrowed_by"] == "companion").any():
        return
    why = (
        "no graph of it runs the same kernels in the same order, and no kernel has the same name "
        "at the same place of the model"
        if rows["op_row"].null_count()
        else "all its kernels have operators of their own"
    )
    click.echo(f"solscope: {clean(path)} took nothing from {clean(companion)}: {why}", err=True)


def open_run_with_progress(
    names: tuple[str, ...], rule_files: tuple[Path, ...], max_expansion: int
) -> Run:
    """Open the ranks of one run, and say how far that is."""
    from solscope import ReadOptions
    from solscope.ranks.read import open_run

    with progress_line() as say:
        return open_run(
            *names,
            rules=rule_files,
            options=ReadOptions(max_expansion=max_expansion),
            progress=lambda done, total, path: say(f"read {done} of {total} ranks: {path}"),
            skipped=note_skipped,
        )


@contextmanager
def _read_options(path: str, max_expansion: int) -> Iterator[ReadOptions]:
    """Options with a progress bar, which appears when the file is read: not from the cache."""
    from solscope import ReadOptions

    options = ReadOptions(max_expansion=max_expansion, cache=not _without_cache())
    file = Path(path)
    large = file.is_file() and file.stat().st_size >= PROGRESS_FROM_BYTES
    if not (large and sys.stderr.isatty()):
        yield options
        return
    with ExitStack() as bars:
        update: Callable[[int, int], None] | None = None

        def show(done: int, total: int) -> None:
            nonlocal update
            update = update or _start_bar(bars, file.name)
            update(done, total)

        yield replace(options, progress=show)


def _start_bar(bars: ExitStack, name: str) -> Callable[[int, int], None]:
    from rich.console import Console
    from rich.progress import Progress

    from solscope.text import shorten

    bar = bars.enter_context(Progress(console=Console(stderr=True), transient=True))
    task = bar.add_task(f"reading {shorten(name, 40)}")
    return lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def progress_line() -> Iterator[Callable[[str], None]]:
    """A function that says on stderr how far a long command is.

    A terminal shows one line that changes; a log gets a line every few seconds.
    """
    from solscope.text import clean, shorten

    start = last = time.monotonic()
    if sys.stderr.isatty():
        # A text that wraps would leave its first line behind.
        most = shutil.get_terminal_size().columns - 1
        try:
            yield lambda text: click.echo(f"\r\x1b[K{shorten(text, most)}", nl=False, err=True)
        finally:
            click.echo("\r\x1b[K", nl=False, err=True)
        return

    def log(text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= LOG_EVERY_S:
            last = time.monotonic()
            click.echo(f"solscope: {last - start:.0f} s: {clean(text)}", err=True)

    yield log


def terminal_width() -> int:
    """Columns of the terminal; 120 in a pipe, or what COLUMNS says."""
    return max(60, shutil.get_terminal_size((120, 40)).columns)


def use_color() -> bool:
    """Colors only on a terminal that has them, and not when NO_COLOR is set."""
    return _on_screen() and not os.environ.get("NO_COLOR")


def can_draw() -> bool:
    """Bars and sparklines only on a terminal that can show block characters.

    NO_COLOR does not forbid them: it asks for no colors, and they say what they say without.
    """
    if not _on_screen():
        return False
    try:
        "▁█".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _on_screen() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def emit(text: str) -> None:
    """Write a result to stdout."""
    click.echo(text, nl=not text.endswith("\n"))


def emit_json(result: Any, schema: str | None = None) -> None:
    """Write a result to stdout, as JSON.

    `schema` names its form, by default after the command: `corpus importance` gives
    `corpus_importance`. All forms are in `cli/schemas.py`.
    """
    from solscope.report.json import render_json

    if schema is None:
        path = click.get_current_context().command_path
        schema = "_".join(path.split()[1:]).replace("-", "_")
    emit(render_json(result, schema))
