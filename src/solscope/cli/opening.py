"""Opening profiles, runs and models as the options of a command say, with progress on stderr."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from solscope.cli.libraries import import_numpy, import_polars
from solscope.cli.options import CostOptions, ModelOptions, OpeningOptions, cache_forbidden
from solscope.cli.progress import progress_line, start_bar

if TYPE_CHECKING:
    from solscope.attribution import Attributed
    from solscope.attribution.opening import Companions
    from solscope.hardware import Hardware
    from solscope.operators.from_config import Model
    from solscope.ranks.analysis import Analysis
    from solscope.readers import ReadOptions
    from solscope.run import Run

PROGRESS_FROM_BYTES = 8 << 20
"""Smaller files are read too fast for a progress bar."""
SMALL_BYTES = 1 << 20
"""Up to this size of its file, a profile is computed on by one thread of Polars."""
ATTRIBUTION = ("solscope.attribution.stages",)
"""Modules that a profile needs which is not in the cache; imported while it is read."""
UNMATCHED_REASONS = 3
"""How many reasons why replays took nothing from a companion are printed."""


def open_model(given: ModelOptions, prefix: str = "") -> Model | None:
    """The model that the options describe; null without `--model`.

    `prefix` is what the command puts before the names of `--batch` and `--context`.
    """
    from solscope.errors import UsageError

    if given.path is not None:
        from solscope.operators.from_config import load_model

        return load_model(given.path, given.batch, given.context)
    if given.batch is not None or given.context is not None:
        raise UsageError(f"--{prefix}batch and --{prefix}context need --model")
    return None


def open_hardware(name: str | None) -> Hardware | None:
    """The GPU that `--hardware` names; null without it, which means the one of the profile."""
    if name is None:
        return None
    from solscope.views.operators import named_hardware

    return named_hardware(name)


def each_profile(files: tuple[str, ...], analyze: Callable[[str], Any]) -> list[Any]:
    """Analyze every profile behind `files`; of several, one that fails is skipped with a note."""
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


class Costing(NamedTuple):
    """What costs and bounds are computed with where the profile does not say it."""

    hardware: Hardware | None
    model: Model | None


def each_costed(
    files: tuple[str, ...],
    costs: CostOptions,
    uses: tuple[str, ...],
    analyze: Callable[[Attributed, Costing], Any],
) -> list[Any]:
    """Analyze every profile by costs and bounds of its operators; see `each_profile`."""
    costing = Costing(open_hardware(costs.hardware), open_model(costs.model))

    def analyze_path(path: str) -> Any:
        attributed = open_with_companion(path, costs.opening, costs.companion, uses)
        if costing.model is not None:
            _note_differences(attributed, costing.model)
        return analyze(attributed, costing)

    return each_profile(files, analyze_path)


def note_skipped(path: str, reason: str) -> None:
    """Report on stderr that a file of a folder could not be used."""
    from solscope.text import clean

    reason = reason.removeprefix(f"{path}: ")
    click.echo(f"solscope: skipped {clean(path)}: {clean(reason)}", err=True)


def open_attributed(
    path: str,
    how: OpeningOptions,
    companion: str | None = None,
    uses: tuple[str, ...] = (),
) -> Attributed:
    """Open one profile, with a progress bar for a large one, and attribute it.

    A thread reads the file while this one imports: the data libraries, attribution, and the modules
    that `uses` names because the caller needs them next. `companion` is what `--with` names; what
    it could not provide is reported on stderr.
    """
    from solscope.readers import opening

    with _read_options(path, how.max_expansion) as options, opening(path, options) as main:
        main.start()
        import_numpy()
        import_polars(small=_all_small(path))
        main.start_loading()
        from solscope.attribution.classify import load_rules
        from solscope.attribution.opening import Companions, attribute_opened

        for name in (*uses, *(() if main.was_read else ATTRIBUTION)):
            import_module(name)
        lent = None if companion is None else Companions(companion, options)
        attributed = attribute_opened(main, load_rules(how.rule_files), lent)
        if companion is not None and lent is not None:
            _note_unmatched(path, companion, attributed, lent)
    return attributed


def open_with_companion(
    path: str, how: OpeningOptions, companion: str | None, uses: tuple[str, ...] = ()
) -> Attributed:
    """Open one profile for a command that takes `--with`, and suggest `--with` where it helps."""
    attributed = open_attributed(path, how, companion, uses)
    if companion is None:
        _suggest_captures(path, attributed)
    return attributed


def chosen_step(step: int | None, slowest: bool) -> int | Literal["slowest"] | None:
    """What the options of `step_options` choose; null without them."""
    if step is not None and slowest:
        raise click.UsageError("choose --step N or --slowest, not both")
    return "slowest" if slowest else step


def pick_step(
    attributed: Attributed, step: int | None, slowest: bool, *, cut: bool = False
) -> Attributed:
    """The step that the options of `step_options` name; the whole profile without them.

    `cut` says that events outside its time are left out as well.
    """
    chosen = chosen_step(step, slowest)
    if chosen is None:
        return attributed
    from solscope.views.step_rows import cut_out_step, only_step, slowest_step

    number = slowest_step(attributed) if chosen == "slowest" else chosen
    return cut_out_step(attributed, number) if cut else only_step(attributed, number)


def _note_differences(attributed: Attributed, model: Model) -> None:
    """Say on stderr where a profile contradicts the config that its costs come from."""
    from solscope.text import clean
    from solscope.views.model_check import check_model

    for warning in check_model(attributed, model)[1]:
        said = f"{clean(attributed.profile.path)}: {clean(warning.message)}"
        click.echo(f"solscope: {said}", err=True)


def _suggest_captures(path: str, attributed: Attributed) -> None:
    """Say on stderr that recordings of graph captures lie beside a profile that replays graphs."""
    from solscope.attribution.companion_files import captures_beside
    from solscope.text import clean
    from solscope.views.costs import replays_graphs

    folder = captures_beside(path)
    if folder is not None and replays_graphs(attributed):
        where = clean(str(folder))
        click.echo(
            f"solscope: the graphs of {clean(path)} may have been captured in {where}; "
            f"for operators and shapes of their kernels, add --with {shlex.quote(where)}",
            err=True,
        )


def _note_unmatched(path: str, companion: str, attributed: Attributed, lent: Companions) -> None:
    """Say on stderr which replays took nothing from a companion, and why."""
    from solscope.attribution.companions import unmatched
    from solscope.text import clean

    reasons = unmatched(attributed, lent.profiles(attributed.profile.metadata.rank))
    taken = (attributed.activities["borrowed_by"] == "companion").any()
    how = "not all it could" if taken else "nothing"
    for reason in reasons[:UNMATCHED_REASONS]:
        said = f"{clean(path)} took {how} from {clean(companion)}: {clean(reason)}"
        click.echo(f"solscope: {said}", err=True)


def open_ranks(names: tuple[str, ...], how: OpeningOptions) -> Run:
    """Open the ranks of one run, with a progress line."""
    return _open_ranks(names, how, None)[0]


def _open_ranks(
    names: tuple[str, ...], how: OpeningOptions, view: Callable[[Attributed], Any] | None
) -> tuple[Run, dict[int, Any]]:
    from solscope import ReadOptions
    from solscope.ranks.read import read_run

    with progress_line() as say:
        return read_run(
            names,
            view,
            rules=how.rule_files,
            options=ReadOptions(max_expansion=how.max_expansion, cache=not cache_forbidden()),
            progress=lambda done, total, path: say(f"read {done} of {total} ranks: {path}"),
            skipped=note_skipped,
        )


def open_analysis(name: str, how: OpeningOptions) -> Analysis:
    """Open a run, and match, align and split its collectives."""
    from solscope.ranks.analysis import analyze

    return analyze(open_ranks((name,), how))


def open_ranks_and(
    name: str, how: OpeningOptions, view: Callable[[Attributed], Any]
) -> tuple[Analysis, dict[int, Any]]:
    """The same, with what `view` makes of each rank's profile."""
    from solscope.ranks.analysis import analyze

    run, made = _open_ranks((name,), how, view)
    return analyze(run), made


def open_rank_again(path: str, how: OpeningOptions) -> Attributed:
    """The whole profile of a rank that was opened before: from the cache, where it is used."""
    from solscope import ReadOptions
    from solscope.attribution.classify import load_rules
    from solscope.attribution.opening import open_attributed as open_whole

    options = ReadOptions(max_expansion=how.max_expansion, cache=not cache_forbidden())
    return open_whole(path, options=options, rules=load_rules(how.rule_files))


def are_runs(names: tuple[str, ...]) -> bool:
    """Whether each of these arguments stands for the ranks of a run, such as a folder of them."""
    # For files, which most commands get, nothing needs to be imported.
    if any(Path(name).is_file() for name in names):
        return False
    from solscope.ranks.files import is_run

    return all(is_run(name) for name in names)


def refuse_with_runs(**given: object) -> None:
    """Fail when an option was given that is about one profile."""
    names = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
    if names:
        raise click.UsageError(
            f"{', '.join(names)}: for single profiles only; name one rank's file"
        )


def _all_small(path: str) -> bool:
    """Whether this profile and whatever else the command line names are small files."""
    from solscope import demo

    context = click.get_current_context(silent=True)
    given = () if context is None else context.params.values()
    values = [each for value in given for each in (value if isinstance(value, tuple) else (value,))]
    named = [Path(str(value)) for value in values if isinstance(value, (str, Path))]
    try:
        files = [Path(demo.resolve(path)), *(name for name in named if name.exists())]
        return all(file.is_file() and file.stat().st_size <= SMALL_BYTES for file in files)
    except OSError:  # a text that is no name of a file, e.g. too long for one
        return False


@contextmanager
def _read_options(path: str, max_expansion: int) -> Iterator[ReadOptions]:
    """Options with a progress bar, which appears when the file is read: not from the cache."""
    from solscope import ReadOptions

    options = ReadOptions(max_expansion=max_expansion, cache=not cache_forbidden())
    file = Path(path)
    large = file.is_file() and file.stat().st_size >= PROGRESS_FROM_BYTES
    if not (large and sys.stderr.isatty()):
        yield options
        return
    with ExitStack() as bars:
        update: Callable[[int, int], None] | None = None

        def show(done: int, total: int) -> None:
            nonlocal update
            update = update or start_bar(bars, file.name)
            update(done, total)

        yield replace(options, progress=show)
