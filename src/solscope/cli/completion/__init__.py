"""Shell completion of operators, suites, solutions and GPUs.

Names are looked up on demand, using only modules that load within tens of milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Complete = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]
Names = Callable[[click.Context], Iterable[str]]


def _complete(names: Names, *, several: bool = False, files: bool = False) -> Complete:
    """Complete one of `names`, ignoring case; with `several`, the last of a comma-separated list.

    With `files`, the shell completes file names if no name matches.
    """

    def complete(
        context: click.Context, _parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        before, comma, start = incomplete.rpartition(",") if several else ("", "", incomplete)
        items = [
            CompletionItem(f"{before}{comma}{name}")
            for name in names(context)
            if name.casefold().startswith(start.casefold()) and name not in before.split(",")
        ]
        return items or ([CompletionItem(incomplete, type="file")] if files else [])

    return complete


def _operators(_context: click.Context) -> Iterable[str]:
    from solscope.operators import OPERATOR_MODULES

    return sorted(OPERATOR_MODULES)


def _operators_of_suite(context: click.Context) -> Iterable[str]:
    from solscope.errors import SolscopeError
    from solscope.suite.files import load

    try:
        listed = load(context.params.get("suite") or "atrex").operators
    except (SolscopeError, OSError):
        return _operators(context)
    return sorted(entry.operator for entry in listed)


def _operators_with_template(_context: click.Context) -> Iterable[str]:
    from solscope.bench.catalog import built_in

    return built_in().get("torch-eager").operators()


def _suites(_context: click.Context) -> Iterable[str]:
    from solscope.suite.files import SHIPPED

    return SHIPPED


def _solutions(_context: click.Context) -> Iterable[str]:
    from solscope.bench.catalog import built_in

    return built_in().names()


def _hardware(_context: click.Context) -> Iterable[str]:
    from solscope.hardware import names

    return names()


operator_of_suite = _complete(_operators_of_suite)
operators_of_suite = _complete(_operators_of_suite, several=True)
operator_with_template = _complete(_operators_with_template)
any_operator = _complete(_operators)
series = _complete(lambda context: ["step", *_operators(context)])
suite = _complete(_suites)
suite_or_file = _complete(_suites, files=True)
solution = _complete(_solutions)
solution_or_file = _complete(_solutions, files=True)
several_hardware = _complete(_hardware, several=True)
hardware_or_file = _complete(_hardware, files=True)
