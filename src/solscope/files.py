"""Files and folders that appear at once or not at all.

They are written beside their final place and renamed at the end; when anything goes wrong before
that, nothing is left behind.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from solscope.errors import UsageError


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """A path to write to; becomes `target` at the end, or nothing when that fails."""
    if target.is_dir():
        raise UsageError(f"{target} is a folder: name a file")
    if target.exists() and not target.is_file():
        raise UsageError(f"{target} is no regular file and is not replaced: name a file")
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
