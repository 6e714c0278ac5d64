"""A spool folder: many machines drop recordings, one process adds them to a store.

Whoever drops a file writes it under a hidden name (`.name.part`) or elsewhere on the same file
system, and renames it into the folder when it is complete; sidecars go first. A file leaves the
folder only after the commit that adds it. If this process is killed in between, the store knows the
content already when the file is met again, and nothing is added twice. Files that cannot be added
are moved to the folder `failed`, each with a text file that says why.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from solscope.corpus.commits import COMPACT_FROM
from solscope.corpus.ingest.add import FailedFile, add_profiles
from solscope.corpus.ingest.describe import sidecar_names
from solscope.corpus.ingest.engines.base import Limits
from solscope.corpus.ingest.extract import ExtractOptions
from solscope.corpus.ingest.inputs import BESIDE
from solscope.corpus.maintenance.compaction import compact
from solscope.corpus.store import Corpus
from solscope.errors import InputError, UsageError
from solscope.profile import is_saved_profile
from solscope.readers.find import metrics_beside

FAILED = "failed"
REASON = ".reason.txt"
LOCK = ".spool.lock"
AT_ONCE = 512
"""Files that are handed to the workers at one time."""
COMPACT_AT = 4 * COMPACT_FROM
"""Files of a table from which on the spool compacts the store, which it may: it is the writer."""
POLL_S = 5.0
"""Time between two looks at an empty folder."""


class SpoolResult(msgspec.Struct, frozen=True):
    """What became of the files of a spool folder."""

    added: int
    skipped: int
    """Files whose content the store had already; they have left the folder, too."""
    failed: list[FailedFile]
    """Files that were moved to `failed`."""
    compactions: int
    truncated: list[str]
    """Files among the added ones that break off before their end; only their first part counts."""


class SpoolOptions(NamedTuple):
    """How files are added."""

    extract: ExtractOptions
    limits: Limits
    workers: int | None = None
    keep: Path | None = None
    """Folder to move added files to; they are deleted without one."""


def spool(
    corpus: Corpus,
    folder: Path,
    options: SpoolOptions,
    report: Callable[[str, str, str | None], None] | None = None,
    once: bool = True,
) -> SpoolResult:
    """Add what is in a folder; unless `once`, go on with what comes until interrupted."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: not a folder")
    if options.keep and options.keep.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{options.keep}: lies in the spool folder; choose a folder outside of it")
    run = _Run(corpus, folder, options, report)
    with _only_one(folder):
        while True:
            files = ready(folder)[:AT_ONCE]
            if files:
                run.add(files)
            elif once:
                break
            else:
                time.sleep(POLL_S)
    return run.result()


def ready(folder: Path) -> list[Path]:
    """Complete files, oldest name first: neither hidden, nor a sidecar, nor set aside."""
    recordings = []
    for place, folders, names in os.walk(folder):
        base = Path(place)
        saved = [name for name in folders if is_saved_profile(base / name)]
        recordings += [base / name for name in saved]
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name not in saved and base / name != folder / FAILED
        )
        recordings += [base / name for name in names if _is_recording(name)]
    return sorted(recordings)


def _is_recording(name: str) -> bool:
    return not name.startswith(".") and not name.endswith(BESIDE)


class _Run:
    def __init__(
        self,
        corpus: Corpus,
        folder: Path,
        options: SpoolOptions,
        report: Callable[[str, str, str | None], None] | None,
    ) -> None:
        self.corpus, self.folder, self.options, self.report = corpus, folder, options, report
        self.added = self.skipped = self.compactions = 0
        self.failed: list[FailedFile] = []
        self.truncated: list[str] = []
        self.states: dict[Path, tuple[int, int, int] | None] = {}

    def add(self, files: list[Path]) -> None:
        """One round; every file that was read has left the folder after it."""
        self.states = {file: _state(file) for file in files}
        done = add_profiles(
            self.corpus,
            files,
            self.options.extract,
            workers=self.options.workers,
            report=self._settle,
            limits=self.options.limits,
        )
        self.truncated += done.truncated
        if len(self.corpus.files("times")) >= COMPACT_AT:
            compact(self.corpus)
            self.compactions += 1

    def _settle(self, path: str, state: str, reason: str | None, _: int) -> None:
        """Take a file out of the folder, now that it is known what became of it."""
        if state == "read":
            return
        file = Path(path)
        if state in ("added", "skipped"):
            self.added += state == "added"
            self.skipped += state == "skipped"
            self._leave(file, self.options.keep)
        else:
            why = (reason or "not a profile").removeprefix(f"{path}: ")
            self.failed.append(FailedFile(path, why))
            self._leave(file, self.folder / FAILED, why)
        if self.report is not None:
            self.report(path, state, reason)

    def _leave(self, file: Path, target: Path | None, why: str | None = None) -> None:
        """Move a file and what is beside it; without a target, delete them."""
        if _state(file) != self.states.get(file):
            return  # Another file took its name: the next round reads it.
        others = [file.with_name(name) for name in sidecar_names(file.name)]
        others = [path for path in (*others, metrics_beside(file)) if path and path.is_file()]
        if target is None:
            # The recording last: killed in between, it is met again and known.
            for path in (*others, file):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            return
        place = target / file.parent.relative_to(self.folder)
        place.mkdir(parents=True, exist_ok=True)
        goal = _free(place / file.name)
        if why is not None:
            goal.with_name(goal.name + REASON).write_text(why + "\n", encoding="utf-8")
        prefix = goal.name.removesuffix(file.name)
        for path in others:
            shutil.move(path, place / f"{prefix}{path.name}")
        shutil.move(file, goal)

    def result(self) -> SpoolResult:
        return SpoolResult(self.added, self.skipped, self.failed, self.compactions, self.truncated)


def _state(file: Path) -> tuple[int, int, int] | None:
    """What tells a file from one that took its name."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _free(path: Path) -> Path:
    """A name that nothing has yet."""
    number = 1
    free = path
    while free.exists():
        number += 1
        free = path.with_name(f"{number}-{path.name}")
    return free


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """`InputError` while another process empties the folder."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    handle = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{folder}: another process adds from this folder") from None
        yield
    finally:
        os.close(handle)
