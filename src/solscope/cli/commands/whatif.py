"""`solscope whatif`."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from solscope.cli.arguments import ProfilePath
from solscope.cli.libraries import import_numpy, import_polars
from solscope.cli.opening import open_hardware, open_model, open_with_companion
from solscope.cli.options import (
    ModelOptions,
    OpeningOptions,
    companion_option,
    flag_option,
    hardware_option,
    number_option,
    opening_options,
)
from solscope.cli.output import Output, form_options, present

if TYPE_CHECKING:
    from solscope.hardware import Hardware
    from solscope.whatif import Scenario

MOST_SCENARIOS = 64
_SWEEP = re.compile(r"(\d{1,9})\.\.(\d{1,9})")


class Numbers(click.ParamType["tuple[int, ...]"]):
    """One number, several with commas, or a sweep `1..256` in powers of two."""

    name = "numbers"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """The numbers, in order."""
        if isinstance(value, tuple):
            return value
        sweep = _SWEEP.fullmatch(str(value))
        if sweep:
            first, last = int(sweep[1]), int(sweep[2])
            if not 0 < first <= last:
                self.fail(f"{value}: a sweep goes up, from at least 1", param, ctx)
            doubled = [first << n for n in range((last // first).bit_length())]
            return (*doubled, *(() if doubled[-1] == last else (last,)))
        try:
            numbers = tuple(int(number) for number in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not a number, a list 1,8,64 or a sweep 1..256", param, ctx)
        if min(numbers) < 1:
            self.fail("must be at least 1", param, ctx)
        return numbers


class Reach(click.ParamType["tuple[str, float]"]):
    """`OP=80%`: an operator and the share of its bound that it reaches."""

    name = "reach"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        """Operator and share, 0 to 1."""
        match = re.fullmatch(r"([\w:.]+)=(\d+(?:\.\d+)?)\s*%?", str(value))
        if not match or not 0 < float(match[2]) <= 100:
            self.fail(f"{value!r}: write OPERATOR=80%, with 0 to 100 %", param, ctx)
        return match[1], float(match[2]) / 100


@click.command("whatif", short_help="Predict a step on other hardware, sizes or settings.")
@click.argument("file", type=ProfilePath(), metavar="FILE")
@click.option("--gpu", metavar="NAME,...", help="Other GPUs, or hardware files.")
@click.option("--dtype", metavar="NAME,...", help="Of products with weights: fp4, fp8, bf16, fp16.")
@click.option("--tp", type=Numbers(), metavar="N,...", help="Ranks that share each layer.")
@click.option("--batch", type=Numbers(), metavar="N,...", help="Requests per step; 1..256 sweeps.")
@click.option("--context", type=Numbers(), metavar="N,...", help="Keys per request.")
@flag_option("--graphs", "Replay the step from a graph.")
@flag_option("--fuse", "Fuse runs of tiny kernels.")
@click.option(
    "--reach",
    type=Reach(),
    multiple=True,
    metavar="OP=PCT",
    help="Let an operator reach this share of its bound. May be repeated.",
)
@flag_option("--no-host-gaps", "Let kernels follow without waiting.")
@hardware_option
@companion_option
@click.option(
    "--model",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="CONFIG",
    help="The model's config.json, for kernels without recorded shapes.",
)
@click.option("--recorded-batch", type=click.IntRange(1, 1 << 32), metavar="N", help="For --model.")
@click.option(
    "--recorded-context", type=click.IntRange(1, 1 << 32), metavar="N", help="For --model."
)
@number_option("--top", 10, click.IntRange(min=0), "Operators to print; JSON has all.")
@opening_options
@form_options
def command(
    file: str,
    gpu: str | None,
    dtype: str | None,
    tp: tuple[int, ...] | None,
    batch: tuple[int, ...] | None,
    context: tuple[int, ...] | None,
    graphs: bool,
    fuse: bool,
    reach: tuple[tuple[str, float], ...],
    no_host_gaps: bool,
    hardware: str | None,
    companion: str | None,
    model: Path | None,
    recorded_batch: int | None,
    recorded_context: int | None,
    top: int,
    opening: OpeningOptions,
    output: Output,
) -> None:
    """Predict how long a step would take on another GPU, with other sizes or settings.

    Every operator keeps the efficiency that it has in this recording. Lists and sweeps give one
    scenario per combination. The interval and the assumptions are part of the answer.

    Errors were measured for --batch, --context and --tp (from 1 rank to 2 and 4 on shares of one
    GPU) in decode, --graphs, --dtype fp8, and --gpu from H100 to MI300X and back; the docs have
    them (what-if). For other dtypes, other GPUs, links between GPUs and prefill they are not known.
    Without --graphs, the host decides, and the interval is wide. --tp does not go below the ranks
    that were recorded.

    \b
    Examples:
      solscope whatif trace.json.gz --gpu B200 --dtype fp8
      solscope whatif eager.json.gz --graphs
      solscope whatif trace.json.gz --batch 1..256
      solscope whatif trace.json.gz --reach dense_gemm=80% --no-host-gaps
    """
    import_numpy()
    import_polars()
    from solscope.whatif import Scenario, predict_many

    base = Scenario(graphs=graphs, fuse=fuse, reach=dict(reach), no_host_gaps=no_host_gaps)
    scenarios = _scenarios(base, _cards(gpu), _names(dtype), tp, batch, context)
    attributed = open_with_companion(file, opening, companion)
    described = open_model(ModelOptions(model, recorded_batch, recorded_context), "recorded-")
    card = open_hardware(hardware)
    present(predict_many(attributed, scenarios, described, card), output, top=top)


def _names(text: str | None) -> list[str | None]:
    return [None] if text is None else [name.strip() for name in text.split(",")]


def _cards(text: str | None) -> list[Hardware | None]:
    return [open_hardware(name) for name in _names(text)]


def _scenarios(base: Scenario, *choices: Any) -> list[Scenario]:
    """One scenario per combination of what was asked for."""
    import msgspec

    names = ("gpu", "dtype", "tp", "batch", "context")
    lists = [[None] if choice is None else list(choice) for choice in choices]
    scenarios = [
        msgspec.structs.replace(base, **dict(zip(names, values, strict=True)))
        for values in product(*lists)
    ]
    if len(scenarios) > MOST_SCENARIOS:
        raise click.UsageError(f"{len(scenarios)} scenarios are too many; at most {MOST_SCENARIOS}")
    if scenarios == [type(base)()]:
        raise click.UsageError("nothing changes: give --gpu, --dtype, --batch, --graphs or others")
    return scenarios
