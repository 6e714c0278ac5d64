"""A copy of a store as it is at one moment, while others write; and the way back.

A copy has the same files and the same log up to that moment, so that it is a store itself, and goes
on with the same numbers.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import msgspec

from solscope.corpus import delta
from solscope.corpus.durable import LOG, sync_file
from solscope.corpus.location import is_url
from solscope.corpus.maintenance.lock import compaction_lock
from solscope.corpus.schema import ALL_TABLES
from solscope.corpus.store import Corpus, open_corpus
from solscope.errors import UsageError
from solscope.files import new_folder

_ENTRY = re.compile(r"(\d{20})\..*")
_HINT = "_last_checkpoint"


class Backup(msgspec.Struct, frozen=True):
    """What was copied."""

    path: str
    profiles: int
    files: int
    bytes: int


def backup(corpus: Corpus, target: str | os.PathLike[str]) -> Backup:
    """Copy a store in a folder to a new folder."""
    if is_url(corpus.url):
        raise UsageError(f"{corpus.url}: only a store in a folder; use `corpus export` for a URL")
    return _copy(corpus, Path(target))


def restore(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> Backup:
    """Copy a backup to a new folder."""
    return _copy(open_corpus(source), Path(target))


def _copy(corpus: Corpus, target: Path) -> Backup:
    if target.exists():
        raise UsageError(f"{target} exists; choose a new folder")
    target.absolute().parent.mkdir(parents=True, exist_ok=True)
    # Under the lock no compaction removes files of the snapshot.
    with compaction_lock(corpus.url), new_folder(target) as work:
        now = corpus.snapshot()
        work.mkdir()
        copied = [file for name in ALL_TABLES for file in _copy_table(now, name, work / name)]
        for file in (*copied, *{file.parent for file in copied}):
            sync_file(file)
    size = sum((target / file.relative_to(work)).stat().st_size for file in copied)
    return Backup(str(target), open_corpus(target).profiles().height, len(copied), size)


def _copy_table(corpus: Corpus, name: str, target: Path) -> list[Path]:
    source, table = Path(corpus.url, name), corpus.open(name)
    (target / LOG).mkdir(parents=True)
    names = [Path(file).name for file, _ in delta.files(table)]
    for entry in sorted((source / LOG).iterdir()):
        version = _ENTRY.fullmatch(entry.name)
        if version and int(version[1]) <= table.version() and entry.is_file():
            names.append(f"{LOG}/{entry.name}")
    hint = source / LOG / _HINT
    if hint.exists() and msgspec.json.decode(hint.read_bytes())["version"] <= table.version():
        names.append(f"{LOG}/{_HINT}")
    for file in names:
        shutil.copyfile(source / file, target / file)
    return [target / file for file in names]
