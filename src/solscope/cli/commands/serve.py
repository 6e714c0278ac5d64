"""`solscope serve`."""

from __future__ import annotations

from pathlib import Path

import click

from solscope.cli.arguments import ProfilePath
from solscope.cli.options import number_option


@click.command("serve", short_help="Start a local dashboard.")
@click.argument("sources", type=ProfilePath(), nargs=-1, metavar="[FILE|FOLDER]...")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS",
    help="Address to listen on. Anything but loopback requires the printed token.",
)
@number_option("--port", 8765, click.IntRange(0, 65535), "Port to listen on; 0 picks a free one.")
@click.option(
    "--upload",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Allow uploads from the browser and save them in FOLDER.",
)
@number_option("--max-upload", 512, click.IntRange(min=1), "Largest upload, in MB.", metavar="MB")
def command(
    sources: tuple[str, ...], host: str, port: int, upload: Path | None, max_upload: int
) -> None:
    """Start a local dashboard for profiles, profile stores, benchmark results and the suite.

    Without a source it shows the bundled profiles. By default only this machine can connect; on any
    other address, everyone who has the printed token can read the profiles.

    \b
    Examples:
      solscope serve profiles/
      solscope serve store/ results.jsonl --upload dropped/
      solscope serve h100.json.gz mi300.json.gz --port 9000
    """
    from solscope.web.serve import serve

    uploads = None if upload is None else (upload, max_upload * 1_000_000)
    serve(sources, host, port, lambda line: click.echo(line, err=True), uploads)
