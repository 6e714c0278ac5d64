"""The list of bundled recordings and what to try with them, as text and as data."""

from __future__ import annotations

from typing import Literal, TypedDict

import msgspec

from solscope.demo import DEMOS, PREFIX
from solscope.demo.copying import Copied
from solscope.demo.ended import Ended
from solscope.demo.examples import EXAMPLES
from solscope.report.forms import Screen, form
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.tables import Column, heading, table


class DemoRow(msgspec.Struct, frozen=True):
    """One bundled file or folder."""

    name: str
    """As commands take it: `demo:NAME`."""
    kind: Literal["profile", "run", "results", "lab"]
    """One profile, the ranks of one run, benchmark results, or pairs of the fault lab."""
    bytes: int
    about: str


class ExampleRow(msgspec.Struct, frozen=True):
    """Commands that answer one question."""

    name: str
    question: str
    commands: list[str]
    exit_code: int
    """Expected of the last command."""
    extra: str | None
    """Extra of the package that it needs."""


class Listing(msgspec.Struct, frozen=True):
    """All that `solscope demo` lists."""

    recordings: list[DemoRow]
    examples: list[ExampleRow]


def listing() -> Listing:
    """What there is, with sizes."""
    recordings = [
        DemoRow(
            name=f"{PREFIX}{name}",
            kind=demo.kind,
            bytes=sum(file.stat().st_size for file in demo.files),
            about=demo.about,
        )
        for name, demo in DEMOS.items()
    ]
    examples = [
        ExampleRow(example.name, example.question, example.lines, example.exit_code, example.extra)
        for example in EXAMPLES
    ]
    return Listing(recordings, examples)


@form("demo", Listing)
def demo_parts(listing: Listing, screen: Screen) -> list[Printable]:
    """The recordings as a table, then each question with its commands, ready to paste."""
    columns = [
        Column("name", text=True),
        Column("KB", spare=1),
        Column("what it is", text=True),
    ]
    rows = [[row.name, f"{row.bytes / 1e3:,.0f}", row.about] for row in listing.recordings]
    parts: list[Printable] = [
        heading("recordings"),
        table(columns, rows, screen.width, whole=True),
        Text(),
        heading("to try"),
    ]
    room = max(len(example.name) for example in listing.examples) + 2
    for example in listing.examples:
        needs = f" (needs 'solscope[{example.extra}]')" if example.extra else ""
        parts.append(Text.assemble((example.name.ljust(room), "bold"), example.question + needs))
        # A command that wraps could not be copied whole.
        parts += [
            Text(f"{' ' * room}{line}", style="cyan", wrap=False) for line in example.commands
        ]
    parts += [
        Text(),
        Text("solscope demo run [NAME]  runs these commands and shows their output"),
        Text("solscope demo copy DIR    copies the recordings, with a README of commands"),
    ]
    return parts


@form("demo_copy", Copied)
def _copied(copied: Copied, _: Screen) -> str:
    size = f"{len(copied.files)} files, {copied.bytes / 1e6:.1f} MB"
    return f"{copied.folder}: {size}; {copied.folder}/README.md has commands to try"


class DemoRun(TypedDict):
    """The commands of `solscope demo run`."""

    commands: list[Ended]


@form("demo_run", DemoRun)
def _demo_run(_result: DemoRun, _: Screen) -> None:
    """Nothing: commands and their output were shown while they ran."""
