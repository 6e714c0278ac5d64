"""Which form each command's output has: its type, which JSON follows, and how it is laid out.

A form is named after its command (`show`, `corpus_importance`) and declared next to its layout, in
the module of `report/results/` that has the command's name; that module is imported when the form
is needed:

    @form("gate", GateResult)
    def gate_parts(result: GateResult, screen: Screen) -> list[Printable]:
        ...

JSON, Markdown and text for the terminal all follow from that one declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, TypedDict, TypeVar

from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.markdown import to_markdown
from solscope.report.layout.tables import WIDE, to_text

RESULTS = "solscope.report.results"
"""The package with a module per command."""


class Screen(NamedTuple):
    """What a result is laid out for."""

    width: int
    """Columns; tables leave columns out to fit."""
    color: bool = False
    draw: bool = False
    """Whether bars and sparklines can be shown."""


PAPER = Screen(WIDE)
"""Markdown: nothing is cut, nothing is drawn."""

Layout = Callable[..., Sequence[Printable] | str | None]
"""From a result, a screen and options to parts or plain text; null where nothing is left to say."""
AnyLayout = TypeVar("AnyLayout", bound=Layout)
PageLayout = TypeVar("PageLayout", bound=Callable[..., Sequence[Printable]])


class Form(NamedTuple):
    """The output of one command, or of an option of it that changes the output."""

    document: Any
    """The type of the result, which is what JSON prints: a struct or a typed dictionary."""
    layout: Layout
    markdown: Callable[..., str] | None
    """Markdown that is not made of the same parts as the text; it takes no screen."""


_FORMS: dict[str, Form] = {}


def form(
    name: str, document: Any, *, markdown: Callable[..., str] | None = None
) -> Callable[[AnyLayout], AnyLayout]:
    """Declare that a function lays out the form `name`, whose results are of type `document`."""

    def declare(layout: AnyLayout) -> AnyLayout:
        _FORMS[name] = Form(document, layout, markdown)
        return layout

    return declare


def form_of_each(
    name: str, table: type, key: str = "profiles"
) -> Callable[[PageLayout], PageLayout]:
    """Declare a form with a list of tables, one below the other, by the layout of one of them."""
    # Built when it is declared, because each form lists another type of table.
    typed_dict: Any = TypedDict
    document = typed_dict(f"{table.__name__}s", {key: list[table]})  # type: ignore[valid-type]

    def declare(layout: PageLayout) -> PageLayout:
        def pages(result: Mapping[str, Any], screen: Screen, **options: Any) -> list[Printable]:
            return one_below_the_other(layout(each, screen, **options) for each in result[key])

        _FORMS[name] = Form(document, pages, None)
        return layout

    return declare


def find_form(name: str) -> Form:
    """The form of this name; imports the module of its command and no other."""
    import_module(f"{RESULTS}.{name.partition('_')[0]}")
    return _FORMS[name]


def all_forms() -> dict[str, Form]:
    """Every form by name, in alphabetical order; imports what all commands print."""
    from pkgutil import iter_modules

    for module in iter_modules(import_module(RESULTS).__path__):
        import_module(f"{RESULTS}.{module.name}")
    return dict(sorted(_FORMS.items()))


def render_text(name: str, result: Any, screen: Screen, options: Mapping[str, Any]) -> str | None:
    """A result for the terminal; null where nothing is left to print."""
    parts = find_form(name).layout(result, screen, **options)
    if parts is None or isinstance(parts, str):
        return parts
    return to_text(parts, screen.width, screen.color)


def render_markdown(name: str, result: Any, options: Mapping[str, Any]) -> str:
    """A result as Markdown."""
    chosen = find_form(name)
    if chosen.markdown is not None:
        return chosen.markdown(result, **options)
    parts = chosen.layout(result, PAPER, **options)
    assert parts is not None
    assert not isinstance(parts, str)
    return to_markdown(parts)


def one_below_the_other(pages: Iterable[Sequence[Printable]]) -> list[Printable]:
    """The parts of several results, with an empty line between two."""
    return [block for page in pages for block in (Text(""), *page)][1:]
