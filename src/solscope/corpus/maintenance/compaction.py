"""Compaction: few large files in place of many small ones, and nothing that is out of use.

It may run while others read and write. No clocks of two machines are compared: rows without a
profile are removed under a number that writers look at (`store`), and replaced files stay until the
next compaction but one, for readers at work. Files that a killed writer never committed are told by
their age on the clock of the file system alone.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from solscope.corpus import commits, delta
from solscope.corpus.aggregates.stored import store_parts
from solscope.corpus.commits import Chain, chain_number
from solscope.corpus.location import is_url
from solscope.corpus.maintenance.lock import compaction_lock
from solscope.corpus.maintenance.lost_batches import unnamed_records, write_missing_records
from solscope.corpus.schema import ALL_TABLES, ROW_COUNTS
from solscope.corpus.store import SWEEP, Corpus, live

if TYPE_CHECKING:
    from deltalake import DeltaTable

COMPACTED = "solscope.compacted"
"""Chain whose number is the version of a table that the last compaction started from."""
UNCOMMITTED_S = 24 * 3600
"""Age from which on a file that no log entry names belongs to a writer that was killed."""


@delta.reusing_tables()
def compact(corpus: Corpus) -> None:
    """Join small files and remove what is not part of the store."""
    with compaction_lock(corpus.url):
        write_missing_records(corpus)
        _drop_second_rows(corpus)
        sweep(corpus)
        # After a rollback of the logs, nothing may go that the newer logs name: they may come back.
        if unnamed_records(corpus).is_empty():
            for name in ALL_TABLES:
                _compact_table(corpus.table_url(name))
        store_parts(corpus)


def _compact_table(url: str) -> None:
    _vacuum(url)
    if commits.commit(url, _note_start):
        commits.commit(url, _merge)
    if not is_url(url):
        remove_uncommitted(Path(url))


def _drop_second_rows(corpus: Corpus) -> None:
    """Of several profiles with one content, which other programs can add, keep the first."""
    rows = corpus.raw("profiles").collect()
    second = rows.join(live(rows), on="entry", how="anti")["entry"].to_list()
    if second:
        corpus.remove_rows("entry", second)


def sweep(corpus: Corpus) -> None:
    """Remove rows without a profile, those of batches at work included: they are written again."""
    left = {name: corpus.leftovers(name) for name in ROW_COUNTS}
    if not any(left.values()):
        return
    # Only rows from before the claim may go: whoever writes later does not look at this number.
    corpus.claim("sweep", chains=(SWEEP,))
    entries = set(corpus.raw("profiles").select("entry").collect()["entry"].to_list())
    for name, listed in left.items():
        gone = [entry for entry in listed if entry not in entries]
        if gone:
            corpus.delete_entries(name, gone)


def _note_start(table: DeltaTable) -> bool:
    """Whether there are enough small files to join; if so, note from which version on."""
    if not _has_many_small_files(table):
        return False
    commits.claim(table, (Chain(COMPACTED, table.version()),), {})
    return True


def _merge(table: DeltaTable) -> None:
    """Join small files; nothing where another compaction did it first, and this one lost."""
    if _has_many_small_files(table):
        commits.merge_files(table)


def _has_many_small_files(table: DeltaTable) -> bool:
    small = [size for _, size in delta.files(table) if size < commits.TARGET_BYTES // 2]
    return len(small) >= commits.COMPACT_FROM


def _vacuum(url: str) -> None:
    """Remove files that were out of use already when the last compaction started."""
    from deltalake.exceptions import DeltaError

    def change(table: DeltaTable) -> None:
        before = chain_number(table, COMPACTED)
        if not before:
            return
        try:
            table.vacuum(0, dry_run=False, enforce_retention_duration=False, keep_versions=[before])
        except DeltaError:
            # The log of that version is gone, and with it every reader of it.
            table.vacuum(0, dry_run=False, enforce_retention_duration=False)

    commits.commit(url, change)


def remove_uncommitted(folder: Path, least_age_s: float = UNCOMMITTED_S) -> list[Path]:
    """Remove data files that no commit names and that are old on the file system's own clock."""
    files = uncommitted(folder)
    probe = folder / f".{uuid.uuid4().hex}"
    probe.touch()
    now = probe.stat().st_mtime
    probe.unlink()
    gone = []
    for file in files:
        with suppress(FileNotFoundError):  # A writer that lost a race takes its file away itself.
            if now - file.stat().st_mtime > least_age_s:
                file.unlink()
                gone.append(file)
    return gone


def uncommitted(folder: Path) -> list[Path]:
    """Data files that no commit names: their writer is at work or was killed, or it is lost."""
    return [Path(file) for file in delta.uncommitted(str(folder))]
