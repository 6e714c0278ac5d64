"""The command line: one program, one thin module per command, imported on first use.

Only this package turns errors into one line on stderr and an exit code: 0 for success, 1 when the
answer is "worse" or "failed", 2 for bad usage or bad input. Results, including their warnings, go
to stdout; progress and messages go to stderr.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn, TextIO

import click

from solscope._version import __version__
from solscope.cli.command_table import COMMANDS
from solscope.cli.commands import LazyCommands, Program
from solscope.errors import SolscopeError

BUG = 70
"""Exit code for an unexpected error, distinct from the documented codes 0, 1 and 2."""

SWITCH_EVERY_S = 0.0005
"""How long a thread runs Python while others wait. In the usual 5 ms a core can scan 4 MB."""

COMPLETE = "_SOLSCOPE_COMPLETE"
"""Set by a shell that asks for completions."""

EPILOG = """\b
Examples:
  solscope show trace.json.gz               where the GPU time goes
  solscope show a.json.gz b.json.gz         two profiles side by side
  solscope show profiles/                   every rank of a run
  solscope kernels --top 20 report.sqlite   the most expensive kernels
  solscope layers a.json.gz b.json.gz       one layer, role by role
  solscope operators trace.json.gz          operators and their roofline bound
  solscope hotspots trace.json.gz           what to fix first
  solscope gate a.json.gz b.json.gz --max-regression 3%  fail a slower CI job
  solscope report trace.json.gz             one self-contained HTML file
  solscope serve profiles/                  a local dashboard
  solscope diagnose good.json.gz bad.json.gz  what changed, and why
  solscope export a.json.gz --perfetto b.json.gz  a trace for Perfetto
  solscope capture --pid 4711 -o run.metrics.csv  host and GPU sensors
  solscope corpus importance store          what matters across many profiles
  solscope suite roofline --hardware H200   roofline bounds of 30 operators
  solscope bench run --op rms_norm --solution torch-eager  time a kernel
  solscope demo                             every command on bundled data
  solscope show demo:vllm-b200              one of them

\b
Completion (also zsh_source, fish_source):
  eval "$(_SOLSCOPE_COMPLETE=bash_source solscope)"
"""


@click.group(
    cls=Program,
    commands=LazyCommands(COMMANDS),
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="solscope")
@click.option("--debug", is_flag=True, help="Show a traceback when something fails.")
def app(debug: bool) -> None:
    """Find out where the GPU time of LLM inference goes.

    Reads PyTorch/Kineto traces, Nsight Systems exports and summaries, and rocprofv3 files; the
    format is detected from the content. Every command that prints a result takes
    --json.
    """
    if debug:
        os.environ["SOLSCOPE_DEBUG"] = "1"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program and exit."""
    if not sys.warnoptions:
        # Python hands these options on to worker processes, which `run` cannot guard.
        sys.warnoptions.append("ignore")
    # A thread that scans a file needs the interpreter for a moment after each piece of it.
    sys.setswitchinterval(SWITCH_EVERY_S)
    code = run(arguments)
    _leave(code, at_once=not _finish_cache())


def _leave(code: int, *, at_once: bool) -> NoReturn:
    """Exit without taking the interpreter apart, which frees every object of every module.

    That takes a sixth of the time of a command on a small profile; the system frees memory at once.
    A process with other threads, a profiler or a debugger exits as usual, unless the user
    interrupted it while it waited for a thread.
    """
    watched = sys.getprofile() or sys.gettrace() or sys.flags.inspect
    if not at_once and (watched or threading.active_count() > 1):
        sys.exit(code)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _finish_cache() -> bool:
    """Wait until the cache is written; False when the user interrupts that."""
    background = sys.modules.get("solscope.cache.background")
    if background is not None:
        try:
            background.wait()
        except KeyboardInterrupt:
            background.abandon()
            return False
    return True


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    with warnings.catch_warnings():
        _hide_warnings()
        return _run(arguments)


def _hide_warnings() -> None:
    """Print Python warnings only with --debug: they are for developers, and most are not ours.

    Whether a warning is an error stays as it is; the tests make all of them errors.
    """
    show = warnings.showwarning

    def show_to_developers(*details: Any) -> None:
        if os.environ.get("SOLSCOPE_DEBUG"):
            show(*details)

    warnings.showwarning = show_to_developers  # type: ignore[assignment]


def _run(arguments: Sequence[str] | None) -> int:
    # A process started with these streams closed has none; discard its output.
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    if COMPLETE in os.environ:
        from solscope.cli.completion.bash import use_our_script

        use_our_script()
    try:
        code = app.main(
            args=None if arguments is None else list(arguments),
            prog_name="solscope",
            standalone_mode=False,
            complete_var=COMPLETE,
        )
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except (click.exceptions.Abort, KeyboardInterrupt):
        click.echo("solscope: interrupted", err=True)
        return 130
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else str(error))
        return 0
    except click.ClickException as error:
        place = (
            error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else None
        )
        hint = f" (see {place} --help)" if place else ""
        return _fail(error.format_message() + hint)
    except SolscopeError as error:
        return _fail(str(error))
    except SystemExit:
        # Click exits this way after shell completion and, with code 1, when a pipe is closed.
        if COMPLETE in os.environ:
            raise
        return 0
    except BrokenPipeError:
        # The reader of our output is gone (`| head`), which is not an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _fail(f"{error.filename or 'system'}: {error.strerror or error}")
    except MemoryError:
        return _fail("not enough memory for this profile")
    except Exception as error:  # noqa: BLE001 - the last resort: one line instead of a traceback
        if COMPLETE in os.environ and isinstance(error, (KeyError, ValueError)):
            return _fail("completion needs COMP_WORDS and COMP_CWORD, which the shell sets")
        return _bug(error)
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # raised when Polars panics
            raise
        return _bug(error)


def _nowhere() -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")


def _bug(error: BaseException) -> int:
    name = type(error).__name__
    _fail(f"a bug in solscope ({name}: {error}); please report it, with --debug for details")
    return BUG


def _fail(message: str) -> int:
    from solscope.text import clean

    if os.environ.get("SOLSCOPE_DEBUG"):
        import traceback

        traceback.print_exc()
    click.echo(f"solscope: {clean(' '.join(message.splitlines()))}", err=True)
    return 2
