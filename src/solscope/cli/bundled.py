"""Arguments for files that are not profiles, which may be bundled ones: `demo:NAME`."""

from __future__ import annotations

import os
from typing import Any

import click
from click.shell_completion import CompletionItem

from solscope.demo import DEMOS, PREFIX, resolve


class BundledPath(click.Path):
    """A file or folder of one kind of demo, or one of the user's own."""

    def __init__(self, kind: str, **options: Any) -> None:
        super().__init__(**options)
        self.kind = kind

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:
        """The path; for a demo, its path in the package."""
        return super().convert(resolve(os.fspath(value)), param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Demos of this kind, or files."""
        demos = [f"{PREFIX}{name}" for name, demo in DEMOS.items() if demo.kind == self.kind]
        found = [CompletionItem(name) for name in demos if name.startswith(incomplete)]
        return found if incomplete and found else super().shell_complete(ctx, param, incomplete)
