"""`solscope host`."""

from __future__ import annotations

import click

from solscope.cli.arguments import profiles_argument
from solscope.cli.opening import each_profile, open_attributed
from solscope.cli.options import OpeningOptions, number_option, opening_options
from solscope.cli.output import Output, form_options, present


@click.command("host", short_help="Say what the host did while the GPU waited.")
@profiles_argument
@number_option(
    "--launch-us",
    3.0,
    click.FloatRange(0, 1000),
    "Launch time to compute the saving for.",
    metavar="US",
)
@number_option("--top", 8, click.IntRange(min=1), "Rows of each table; JSON has all.")
@opening_options
@form_options
def command(
    files: tuple[str, ...],
    launch_us: float,
    top: int,
    opening: OpeningOptions,
    output: Output,
) -> None:
    """Say which section, operator or Python frame the host was in while the GPU waited for it.

    Also: launch rate, queue depth, what faster launches would save, what runs between steps, and
    the critical path through host and GPU. Python frames need a recording with stacks.

    \b
    Examples:
      solscope host trace.json.gz
      solscope host --launch-us 2 trace.json.gz
      solscope host trace.json.gz --json
    """
    from solscope.views.host import host_table

    tables = each_profile(files, lambda path: host_table(open_attributed(path, opening), launch_us))
    present({"profiles": tables}, output, top=top)
