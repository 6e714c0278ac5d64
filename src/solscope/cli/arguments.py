"""Types of arguments that are files: to read, bundled, or to write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from solscope.cli.options import Decorator

STDOUT = Path("/dev/stdout")
"""What `-` means; write `./-` for a file of that name."""


class DemoPath(click.Path):
    """A path, or a demo of some kinds; both are completed."""

    kinds: tuple[str, ...] = ()

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Demos of these kinds, or files."""
        from click.shell_completion import CompletionItem

        from solscope.demo import DEMOS, PREFIX

        demos = [f"{PREFIX}{name}" for name, demo in DEMOS.items() if demo.kind in self.kinds]
        matching = [CompletionItem(name) for name in demos if name.startswith(incomplete)]
        if incomplete and matching:
            return matching
        return super().shell_complete(ctx, param, incomplete)


class ProfilePath(DemoPath):
    """A file, folder, glob or demo, which `find_profiles` resolves."""

    kinds = ("profile", "run")


class BundledPath(DemoPath):
    """A file or folder that is not a profile: one of the user's own, or a demo of one kind."""

    def __init__(self, kind: str, **options: Any) -> None:
        super().__init__(**options)
        self.kinds = (kind,)

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        """The path; for a demo, its path in the package."""
        from solscope.demo import resolve

        return super().convert(resolve(os.fspath(value)), param, ctx)


profiles_argument: Decorator = click.argument(
    "files", type=ProfilePath(), nargs=-1, required=True, metavar="FILE|FOLDER|GLOB..."
)


class OutputPath(click.Path):
    """A file or folder to write; accepts `-` only if the command can write to standard output."""

    def __init__(self, what: str = "file", *, stdout: bool = False) -> None:
        super().__init__()
        self.what, self.stdout = what, stdout

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, or `STDOUT`."""
        if str(value) == "-" and self.stdout:
            return STDOUT
        if str(value) == "-":
            self.fail(
                f"this output cannot go to standard output; give a {self.what} name", param, ctx
            )
        path = Path(str(super().convert(value, param, ctx)))
        if self.what == "file" and path.is_dir():
            self.fail(f"{path} is a folder; give a file name", param, ctx)
        if self.what == "folder" and path.is_file():
            self.fail(f"{path} is a file; give a folder name", param, ctx)
        return path


def output_folder_option(help_text: str) -> Decorator:
    """`-o`: a folder to write."""
    folder = OutputPath("folder")
    return click.option("-o", "--output", "target", type=folder, metavar="DIR", help=help_text)
