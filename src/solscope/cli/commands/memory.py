"""`solscope memory`."""

from __future__ import annotations

from pathlib import Path

import click

from solscope.cli.arguments import profiles_argument
from solscope.cli.opening import each_profile, open_attributed
from solscope.cli.options import OpeningOptions, number_option, opening_options
from solscope.cli.output import Output, form_options, present


@click.command("memory", short_help="Show GPU memory: peak, fragmentation, who allocates.")
@profiles_argument
@number_option("--top", 8, click.IntRange(min=1), "Operators to print; JSON has all.")
@opening_options
@form_options
def command(
    files: tuple[str, ...],
    top: int,
    opening: OpeningOptions,
    output: Output,
) -> None:
    """Show the memory of the caching allocator: peak, fragmentation, what allocates in steps.

    Needs a trace of torch.profiler with profile_memory=True.

    \b
    Examples:
      solscope memory trace.json.gz
      solscope memory trace.json.gz --json
    """
    from solscope.demo import resolve
    from solscope.readers.allocations import read_allocations
    from solscope.readers.base import ReadOptions
    from solscope.views.memory import MemoryTable, memory_table

    def analyze(path: str) -> list[MemoryTable]:
        attributed = open_attributed(path, opening)
        options = ReadOptions(max_expansion=opening.max_expansion)
        return memory_table(attributed, read_allocations(Path(resolve(path)), options))

    devices = [device for devices in each_profile(files, analyze) for device in devices]
    present({"devices": devices}, output, top=top)
