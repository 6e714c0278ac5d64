"""What a worker does with one file: a plain function from a task to an outcome, for every engine.

Nothing that a file holds may end a run, so every error becomes an outcome with its reason.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from solscope.corpus.ingest.extract import ExtractOptions, content_id, reduce
from solscope.corpus.ingest.inputs import URL, Item, filesystem
from solscope.corpus.rows import Extract
from solscope.errors import SolscopeError, UnknownFormatError
from solscope.readers import open as open_profile


@dataclass(frozen=True)
class Task:
    """One file to read."""

    item: Item
    options: ExtractOptions


@dataclass(frozen=True)
class Outcome:
    """What became of one file: an extract, a reason for failure, or neither."""

    path: str
    extract: Extract | None = None
    reason: str | None = None
    """Why it failed."""
    known: bool = False
    """Its content is in the store already."""


def process(task: Task, stored_ids: frozenset[str]) -> Outcome:
    """Read one file and reduce it, unless the store already has its content."""
    path = task.item.path
    try:
        if URL.match(path):
            return _fetched(task, stored_ids)
        return _read(task, path, stored_ids)
    except UnknownFormatError as error:
        return Outcome(path, reason=str(error) if task.item.named else None)
    except SolscopeError as error:
        return Outcome(path, reason=str(error))
    except OSError as error:
        return Outcome(path, reason=f"{path}: {error.strerror or error}")
    except MemoryError:
        return Outcome(path, reason=f"{path}: not enough memory for this profile")
    except Exception as error:  # noqa: BLE001 - the worker's boundary: a row, not the end of a run
        return Outcome(path, reason=f"{path}: a bug in solscope ({type(error).__name__}: {error})")


def _read(task: Task, local: str, stored_ids: frozenset[str]) -> Outcome:
    identity = content_id(local)
    if identity in stored_ids:
        return Outcome(task.item.path, known=True)
    profile = open_profile(local, options=task.options.read)
    extract = reduce(local, profile, identity, task.options)
    if local != task.item.path and not task.options.redact:
        extract.profile["file"] = task.item.path
    return Outcome(task.item.path, extract=extract)


def _fetched(task: Task, stored_ids: frozenset[str]) -> Outcome:
    """The same for an object at a URL, through a temporary file."""
    system, path = filesystem(task.item.path)
    with tempfile.TemporaryDirectory(prefix="solscope-") as folder:
        local = Path(folder) / Path(path).name
        system.get_file(path, str(local))
        for beside in _sidecars(path):
            if system.exists(beside):
                system.get_file(beside, str(Path(folder) / Path(beside).name))
        return _read(task, str(local), stored_ids)


def _sidecars(path: str) -> list[str]:
    from solscope.corpus.ingest.describe import sidecar_names

    folder, _, name = path.rpartition("/")
    return [f"{folder}/{beside}" for beside in sidecar_names(name)]
