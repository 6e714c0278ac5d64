"""`solscope corpus`: maintenance of a store, in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from solscope.corpus.ingest.add import CUT, FailedFile
from solscope.corpus.maintenance.backup import Backup
from solscope.corpus.maintenance.exchange import Exported, Imported
from solscope.corpus.maintenance.migrate import Migration
from solscope.corpus.maintenance.repair import RepairResult
from solscope.corpus.maintenance.verify import Verification
from solscope.corpus.spool import SpoolResult
from solscope.report.forms import Screen, form
from solscope.report.layout.lines import Printable, Text
from solscope.report.layout.quantities import counted
from solscope.report.layout.tables import Column, table
from solscope.text import clean

MOST_CUT = 8
"""Files that are truncated and get a line each."""


@form("corpus_verify", Verification)
def verify_parts(result: Verification, screen: Screen, *, url: str) -> list[Printable]:
    """What is wrong, or that nothing is."""
    checked = f"checked {counted(result.profiles, 'profile')} in {counted(result.files, 'file')}"
    problems = counted(len(result.problems), "problem") if result.problems else "no problems"
    parts: list[Printable] = [Text(f"{checked}: {problems}", style="bold")]
    if result.files_from_earlier_check:
        earlier = counted(result.files_from_earlier_check, "file")
        parts.append(Text(f"{earlier} not read: unchanged since the last check (--full reads all)"))
    if result.leftover_entries:
        parts.append(Text(leftovers_text(result.leftover_entries)))
    if result.uncommitted_files:
        files = counted(result.uncommitted_files, "data file")
        parts.append(
            Text(
                f"{files} that no commit names: of adds that were killed or are at work (`corpus "
                "compact` removes them when they are a day old), or of lost commits, which are "
                "problems (then they stay)"
            )
        )
    if result.unrecorded_batches:
        batches = counted(result.unrecorded_batches, "batch", "batches")
        parts.append(
            Text(f"{batches} not recorded, but no profile is missing: run `corpus repair`")
        )
    if result.problems:
        columns = (Column("where", text=True, spare=1), Column("what", text=True))
        rows = [[problem.where, problem.what] for problem in result.problems]
        parts += [Text(""), table(columns, rows, screen.width, whole=True)]
    if result.doubled_profiles:
        have = "profile has" if result.doubled_profiles == 1 else "profiles have"
        more = f"{result.doubled_profiles:,} {have} more rows than were written"
        parts += [Text(""), Text(f"{more}: `solscope corpus repair {url}` removes duplicates")]
    return parts


def leftovers_text(count: int) -> str:
    """What rows without a profile are, and what removes them."""
    adds = counted(count, "interrupted or running add")
    return f"{adds}: rows without a profile, which `corpus compact` removes"


@form("corpus_repair", RepairResult)
def repair_parts(result: RepairResult, screen: Screen, *, url: str) -> list[Printable]:
    """What was there more than once, what is lost, and what became of it."""
    parts: list[Printable] = []
    if result.rows or result.unrepaired:
        done = "would remove" if result.dry_run else "removed"
        rows = counted(result.rows, "duplicate row")
        of = counted(result.profiles, "profile")
        parts.append(Text(f"{done} {rows} of {of}", style="bold"))
    else:
        parts.append(Text(f"{url}: no duplicate rows"))
    if result.accepted_loss:
        given_up = counted(result.accepted_loss, "profile")
        parts.append(Text(f"accepted: {given_up} of lost batches no longer expected"))
    if result.tables:
        columns = (Column("rows"), Column("profiles"), Column("table", text=True))
        cells = [[f"{row.rows:,}", f"{row.profiles:,}", row.table] for row in result.tables]
        parts += [Text(""), table(columns, cells, screen.width)]
    if result.unrepaired:
        columns = (
            Column("profile", text=True),
            Column("table", text=True),
            Column("not repaired", text=True),
        )
        cells = [[row.profile[:12], row.table, row.reason] for row in result.unrepaired]
        parts += [Text(""), table(columns, cells, screen.width, whole=True)]
    if result.lost:
        titles = (Column("commit", text=True), Column("cannot be repaired", text=True))
        cells = [[row.batch, row.reason] for row in result.lost]
        parts += [Text(""), table(titles, cells, screen.width, whole=True)]
    return parts


@form("corpus_migrate", Migration)
def migrate_parts(result: Migration, _: Screen, *, url: str) -> list[Printable]:
    """From which schema to which."""
    profiles = counted(result.profiles, "profile")
    if result.before == result.after:
        return [Text(f"{url}: schema {result.after} already, {profiles}")]
    return [Text(f"{url}: migrated from schema {result.before} to {result.after}, {profiles}")]


@form("corpus_spool", SpoolResult)
def spool_parts(result: SpoolResult, screen: Screen) -> list[Printable]:
    """Counts, and a row per file that was set aside."""
    counts = f"added {result.added:,}, skipped {result.skipped:,} (known content)"
    parts: list[Printable] = [Text(f"{counts}, set aside {len(result.failed):,}")]
    if result.compactions:
        parts.append(Text(f"compacted the store {counted(result.compactions, 'time')}"))
    return parts + truncated_files(result.truncated) + failed_files(result.failed, screen.width)


def truncated_files(files: Sequence[str]) -> list[Printable]:
    """A line per file of which only the first part was added, up to a few."""
    lines: list[Printable] = [Text(f"warning: {clean(file)}: {CUT}") for file in files[:MOST_CUT]]
    if len(files) > MOST_CUT:
        lines.append(Text(f"warning: the same of {len(files) - MOST_CUT:,} more files"))
    return lines


def failed_files(failed: Sequence[FailedFile], width: int) -> list[Printable]:
    """A row per file that was not added; nothing where all were."""
    columns = (Column("file", text=True), Column("reason", text=True))
    rows = [[row.file, row.reason] for row in failed]
    return [Text(""), table(columns, rows, width, whole=True)] if rows else []


@form("corpus_backup", Backup)
@form("corpus_restore", Backup)
def backup_parts(result: Backup, _: Screen) -> list[Printable]:
    """What was copied."""
    size = f"{result.bytes / 1e6:,.1f} MB in {counted(result.files, 'file')}"
    return [Text(f"{result.path}: {counted(result.profiles, 'profile')}, {size}")]


@form("corpus_export", Exported)
def export_parts(result: Exported, _: Screen) -> list[Printable]:
    """What was written."""
    size = f"{result.bytes / 1e6:,.1f} MB"
    return [Text(f"{result.path}: {counted(result.profiles, 'profile')}, {size}")]


@form("corpus_import", Imported)
def import_parts(result: Imported, _: Screen) -> list[Printable]:
    """What was added."""
    return [Text(f"added {result.added:,}, skipped {result.skipped:,} (known content)")]
