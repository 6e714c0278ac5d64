"""`solscope serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from solscope.cli.arguments import ProfilePath
from solscope.cli.options import flag_option, number_option

_FILE = click.Path(dir_okay=False, path_type=Path)


def _proxies(_: click.Context, __: click.Parameter, given: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (given or "").split(",") if name.strip())


def _prefix(_: click.Context, __: click.Parameter, given: str) -> str:
    """`/solscope` for `solscope/` and the like."""
    plain = given.strip("/")
    if plain and not all(
        segment.replace("-", "").replace("_", "").isalnum() for segment in plain.split("/")
    ):
        raise click.BadParameter("a path of letters, digits, - and _")
    if plain:
        from solscope.web.page import VIEWS

        if plain.partition("/")[0] in ("api", *VIEWS):
            raise click.BadParameter("the dashboard has a page of that name; choose another path")
    return f"/{plain}" if plain else ""


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
@number_option(
    "--upload-quota", 20_000, click.IntRange(min=1), "All uploads together, in MB.", metavar="MB"
)
@flag_option("--token", "Require a token on loopback, too: for shared machines.")
@click.option(
    "--token-file",
    type=_FILE,
    metavar="FILE",
    help="Take the token from FILE (or from SOLSCOPE_TOKEN) instead of making one.",
)
@click.option(
    "--root-path",
    default="",
    callback=_prefix,
    metavar="PATH",
    help="Path below which a reverse proxy shows the dashboard.",
)
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    callback=_proxies,
    metavar="ADDRESS,...",
    help="Proxies whose X-Forwarded-For and X-Forwarded-Proto headers are believed.",
)
@click.option("--tls-cert", "certificate", type=_FILE, metavar="FILE", help="Certificate, as PEM.")
@click.option("--tls-key", "key", type=_FILE, metavar="FILE", help="Its private key, as PEM.")
@click.option(
    "--audit-log",
    type=click.Path(dir_okay=False, path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Append one JSON line per request to FILE; - is stderr. No token is written.",
)
def command(
    sources: tuple[str, ...],
    host: str,
    port: int,
    upload: Path | None,
    max_upload: int,
    upload_quota: int,
    **exposed: Any,
) -> None:
    """Start a local dashboard for profiles, profile stores, benchmark results and the suite.

    Without a source it shows the bundled profiles. By default only this machine can connect; on any
    other address, everyone who has the printed token can read the profiles.

    \b
    Examples:
      solscope serve profiles/
      solscope serve store/ results.jsonl --upload dropped/
      solscope serve h100.json.gz mi300.json.gz --port 9000
      solscope serve store/ --host 0.0.0.0 --tls-cert me.pem --tls-key me.key
    """
    from solscope.web.serve import Exposure, serve

    if (exposed["certificate"] is None) != (exposed["key"] is None):
        raise click.UsageError("TLS needs both --tls-cert and --tls-key")
    megabyte = 1_000_000
    uploads = None if upload is None else (upload, max_upload * megabyte, upload_quota * megabyte)
    serve(sources, host, port, _say, uploads, Exposure(**exposed))


def _say(line: str) -> None:
    click.echo(line, err=True)
