"""`solscope cache`."""

from __future__ import annotations

import click

from solscope.cli.output import Output, json_option, present


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
def info_command(output: Output) -> None:
    """Show where the cache is, how large it is, and whether it is used.

    \b
    Examples:
      solscope cache info
      solscope cache info --json
    """
    from solscope.cache.report import cache_info

    present(cache_info(), output)


@command.command("clear")
@json_option
def clear_command(output: Output) -> None:
    """Delete everything in the cache. Profiles are read again when they are next opened.

    \b
    Examples:
      solscope cache clear
    """
    from solscope.cache.report import clear_cache

    present(clear_cache(), output)
