"""Files and folders that appear at once or not at all.

They are written next to their final path and renamed at the end; if anything fails before that,
nothing is left behind.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from solscope.errors import UsageError


def check_target(target: Path, source: str, *, force: bool, folder: bool = False) -> None:
    """Refuse what must not be replaced, before any work is done; `folder` is what is written."""
    if target.exists() and target.resolve() == Path(source).resolve():
        raise UsageError(f"{target} is the profile itself: name another file")
    if target.is_dir() and not folder:
        raise UsageError(f"{target} is a folder: name a file")
    if target.exists() and not force:
        raise UsageError(f"{target} exists; pass --force to replace it")
    if not target.absolute().parent.is_dir():
        raise UsageError(f"{target.parent} is not a folder: create it first")


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """Yield a path to write to, renamed to `target` on success and removed on failure."""
    if target.is_dir():
        raise UsageError(f"{target} is a folder; give a file name")
    if target.exists() and not target.is_file():
        raise UsageError(
            f"{target} is not a regular file and will not be replaced; choose another name"
        )
    with _work_folder(target) as folder:
        work = folder / target.name
        yield work
        work.replace(target)


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """The same for a folder."""
    with _work_folder(target) as folder:
        work, old = folder / "new", folder / f"{target.name}.old"
        yield work
        if target.exists():
            target.rename(old)
        try:
            work.rename(target)
        except BaseException:
            if old.exists():
                old.rename(target)
            raise


@contextmanager
def _work_folder(target: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.absolute().parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
