"""Making removed profiles disappear from the disk as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from solscope.corpus import commits, delta
from solscope.corpus.aggregates.stored import store_parts
from solscope.corpus.maintenance.compaction import sweep
from solscope.corpus.maintenance.lock import compaction_lock
from solscope.corpus.maintenance.lost_batches import write_missing_records
from solscope.corpus.schema import ALL_TABLES
from solscope.corpus.store import Corpus

if TYPE_CHECKING:
    from deltalake import DeltaTable

_LOG_KEPT = "delta.logRetentionDuration"
_DAYS = "interval 30 days"
_NOT_AT_ALL = "interval 0 seconds"


def forget(corpus: Corpus) -> None:
    """Remove all that is left of removed profiles: replaced files, and the log up to now.

    Earlier versions of the store cannot be read any more, and readers that have one open fail.
    """
    with compaction_lock(corpus.url):
        # While the log still says what interrupted commits have left to do.
        write_missing_records(corpus)
        sweep(corpus)
        for name in ALL_TABLES:
            url = corpus.table_url(name)
            _set_log_kept(url, _NOT_AT_ALL)
            commits.commit(url, _forget)
            _set_log_kept(url, _DAYS)
        store_parts(corpus)


def _forget(table: DeltaTable) -> None:
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    newest = delta.open_existing(table.table_uri)
    newest.create_checkpoint()
    newest.cleanup_metadata()


def _set_log_kept(url: str, duration: str) -> None:
    properties = {_LOG_KEPT: duration}
    commits.commit(url, lambda table: table.alter.set_table_properties(properties))
