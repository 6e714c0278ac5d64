"""`solscope host`."""

from __future__ import annotations

import click

from solscope.cli.arguments import profiles_argument
from solscope.cli.opening import each_profile, open_attributed
from solscope.cli.options import OpeningOptions, flag_option, number_option, opening_options
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
@flag_option("--folded", "Print the waiting as folded stacks, for flame graph viewers.")
@number_option("--top", 8, click.IntRange(min=1), "Rows of each table; JSON has all.")
@opening_options
@form_options
def command(
    files: tuple[str, ...],
    launch_us: float,
    folded: bool,
    top: int,
    opening: OpeningOptions,
    output: Output,
) -> None:
    """Say which section, operator or Python frame the host was in while the GPU waited for it.

    Also: launch rate, queue depth over time, what faster launches would save, what runs between
    steps, and the critical path through host and GPU with the slack of each operator. Python frames
    need a recording with stacks.

    --folded prints one stack per line with the nanoseconds that the GPU waited in it, as speedscope
    and flamegraph.pl read them.

    \b
    Examples:
      solscope host trace.json.gz
      solscope host --launch-us 2 trace.json.gz
      solscope host --folded trace.json.gz > waiting.folded
      solscope host trace.json.gz --json
    """
    if folded and (output.as_json or output.markdown):
        raise click.UsageError("--folded is a format of its own: leave out --json and --markdown")
    from solscope.views.host import host_table
    from solscope.views.host_stacks import folded_stacks

    tables = each_profile(files, lambda path: host_table(open_attributed(path, opening), launch_us))
    if folded:
        for host in tables:
            click.echo(folded_stacks(host.stacks), nl=False)
        return
    present({"profiles": tables}, output, top=top)
