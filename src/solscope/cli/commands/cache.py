"""`solscope cache`."""

from __future__ import annotations

import click

from solscope.cli.options import json_option
from solscope.cli.output import emit, emit_json


@click.group("cache", short_help="Show or clear the cache of profiles that were read.")
def command() -> None:
    """Show or clear the cache of profiles that were read before.

    A large profile is read once: what was read and attributed is cached in your cache folder, so
    that the next command starts at once. Entries depend on the content of the file and on the
    version of solscope; the least recently used are evicted. SOLSCOPE_CACHE_DIR moves the cache,
    SOLSCOPE_CACHE_MAX_BYTES limits it, SOLSCOPE_NO_CACHE=1 or --no-cache turns it off.

    \b
    Examples:
      solscope cache info
      solscope cache clear
    """


@command.command("info")
@json_option
def info_command(as_json: bool) -> None:
    """Show where the cache is, how large it is, and whether it is used.

    \b
    Examples:
      solscope cache info
      solscope cache info --json
    """
    from solscope.cache.report import cache_info

    found = cache_info()
    if as_json:
        emit_json(found)
        return
    from solscope.report.results.cache import render_cache

    emit(render_cache(found))


@command.command("clear")
@json_option
def clear_command(as_json: bool) -> None:
    """Delete everything in the cache. Profiles are read again when they are next opened.

    \b
    Example:
      solscope cache clear
    """
    from solscope.cache.report import clear_cache

    removed = clear_cache()
    if as_json:
        emit_json(removed)
        return
    from solscope.report.results.cache import render_cleared

    emit(render_cleared(removed))
