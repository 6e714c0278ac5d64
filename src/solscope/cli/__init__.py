"""The command line: one program, one thin file per command, imported when it is used.

This package alone turns errors into one line on stderr and an exit code: 0 fine, 1 the answer is
"worse / failed", 2 bad usage or bad input. Results, with the warnings that belong to
them, go to stdout; progress and messages go to stderr.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any, TextIO

import click

from solscope._version import __version__
from solscope.cli.commands import COMMANDS, LazyCommands, Program
from solscope.errors import SolscopeError

BUG = 70
"""Exit code for an error that solscope did not foresee; 0, 1 and 2 mean something."""

COMPLETE = "_SOLSCOPE_COMPLETE"
"""Set by a shell that asks for completions."""

EPILOG = """\b
Examples:
  solscope show trace.json.gz               where the GPU time of one profile goes
  solscope show h100.json.gz mi300.json.gz  two profiles side by side
  solscope show profiles/                   all ranks of a run
  solscope kernels --top 20 report.sqlite   the most expensive kernels
  solscope layers h100.json.gz mi300.json.gz  one layer, role by role, side by side
  solscope operators --top 20 trace.json.gz  each operator against the speed of light
  solscope hotspots trace.json.gz           what to fix first, and what it saves
  solscope gate a.json.gz b.json.gz --max-regression 3%  fail a CI job that got slower
  solscope report trace.json.gz             one HTML file to look at and to mail
  solscope serve profiles/                  a local dashboard
  solscope diagnose good.json.gz bad.json.gz  what changed between two runs, and why
  solscope export trace.json.gz --perfetto out.json.gz  the trace, annotated, for Perfetto
  solscope capture --pid 4711 -o run.metrics.csv  sensors of a server, beside its profile
  solscope corpus importance store          what matters in thousands of profiles
  solscope suite roofline --hardware H200   30 operators against the speed of light
  solscope bench run --op rms_norm --solution torch-eager  check and time a kernel
  solscope demo                             every command on bundled recordings
  solscope show demo:vllm-b200              one of them

\b
Completion: eval "$(_SOLSCOPE_COMPLETE=bash_source solscope)"   (zsh_source, fish_source)
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
    """Read GPU profiles of LLM inference and say where the time goes.

    Opens PyTorch/Kineto traces, Nsight Systems exports and summaries, and rocprofv3 files, chosen
    by their content. Every command takes --json.
    """
    if debug:
        os.environ["SOLSCOPE_DEBUG"] = "1"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program and exit."""
    if not sys.warnoptions:
        # Python hands these options on to worker processes, which `run` cannot guard.
        sys.warnoptions.append("ignore")
    sys.exit(run(arguments))


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
    # A program that was started with these closed has none: what it says goes nowhere.
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    if COMPLETE in os.environ:
        from solscope.cli.bash_completion import use_our_script

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
    except click.exceptions.Abort:
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
        # So click leaves after shell completion, and also, with 1, when a pipe is closed.
        if COMPLETE in os.environ:
            raise
        return 0
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing is wrong, and nobody listens.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _fail(f"{error.filename or 'system'}: {error.strerror or error}")
    except MemoryError:
        return _fail("not enough memory for this profile")
    except Exception as error:  # noqa: BLE001 - the last resort: one line instead of a traceback
        return _bug(error)
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # what a panic in Polars becomes
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
