"""Does a store lose or double anything? Races of writers, kills, and damaged logs.

    python benchmarks/store_trials.py --races 100 --kills 200 --damages 60
    python benchmarks/store_trials.py --races 100 --s3        # needs `make s3`

Prints one line per kind of trial; the exit code is 1 when anything was lost, doubled or not found.
With `--json FILE` counts are written after every trial, and trials that the file has are not run
again.
A SQLite catalogue over the same Parquet files runs the same races and kills for comparison
(`--catalogue sqlite`); see docs/explain/store-format.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pickle
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from solscope.corpus.delta import reusing_tables
from solscope.corpus.durable import sync_file
from solscope.corpus.ingest.extract import extract
from solscope.corpus.maintenance.compaction import compact
from solscope.corpus.maintenance.verify import verify
from solscope.corpus.rows import Extract, rows_hash
from solscope.corpus.schema import ALL_TABLES, schema
from solscope.corpus.store import create_corpus, open_corpus
from solscope.files import new_file
from tests.s3_server import create_bucket, s3_server, settings

SOURCE = "demo:vllm-mi300x-graph"
BATCHES, BATCH = 2, 2
"""Batches of a writer in a race, and profiles of each."""
SHARED = 10**6
"""Number of the profile that all writers of a race add."""


class Count(msgspec.Struct):
    """Trials of one kind."""

    trials: int = 0
    bad: int = 0
    seconds: float = 0.0
    failures: list[str] = []


class Results:
    """Counts by kind of trial, in a file where one is given."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.counts: dict[str, Count] = {}
        if path is not None and path.exists():
            self.counts = msgspec.json.decode(path.read_bytes(), type=dict[str, Count])

    def trials(self, kind: str, wanted: int) -> Iterator[int]:
        """Numbers of the trials that are still to be run; progress goes to stderr."""
        count = self.counts.setdefault(kind, Count())
        for trial in range(count.trials, wanted):
            start = time.perf_counter()
            yield trial
            count.trials += 1
            count.seconds += time.perf_counter() - start
            self._write()
            if count.trials % 10 == 0 or count.trials == wanted:
                print(f"  {kind}: {count.trials} of {wanted}", file=sys.stderr, flush=True)
        print(f"{kind}: {count.trials} trials, {count.bad} bad ({count.seconds:.0f} s)", flush=True)

    def failed(self, kind: str, what: str) -> None:
        """One trial was bad."""
        self.counts[kind].bad += 1
        self.counts[kind].failures.append(what)
        print(f"  {kind}: {what}", flush=True)

    def _write(self) -> None:
        if self.path is not None:
            with new_file(self.path) as work:
                work.write_bytes(msgspec.json.format(msgspec.json.encode(self.counts)))


class SqliteStore:
    """The alternative: a catalogue in SQLite, rows in Parquet files."""

    def __init__(self, url: str, *, create: bool = True) -> None:
        self.folder = Path(url)
        if create:
            self.folder.mkdir(parents=True, exist_ok=True)
        self.database = sqlite3.connect(self.folder / "catalogue.db", timeout=60)
        self.database.execute("PRAGMA journal_mode = WAL")
        self.database.execute("PRAGMA synchronous = FULL")
        self.database.execute(
            "CREATE TABLE IF NOT EXISTS profiles "
            "(id TEXT PRIMARY KEY, entry TEXT, file TEXT, rows INTEGER, sha TEXT)"
        )
        self.database.commit()

    def append(self, extracts: list[Extract]) -> list[str]:
        """Rows to a file that is on the disk first; then one transaction."""
        name = f"part-{uuid.uuid4().hex}.parquet"
        entries = {uuid.uuid4().hex: extract for extract in extracts}
        rows = pl.concat(
            part.times.with_columns(pl.lit(entry).alias("entry")) for entry, part in entries.items()
        )
        rows.write_parquet(self.folder / name)
        sync_file(self.folder / name)
        sync_file(self.folder)
        added = []
        with self.database:
            self.database.execute("BEGIN IMMEDIATE")
            for entry, part in entries.items():
                done = self.database.execute(
                    "INSERT OR IGNORE INTO profiles VALUES (?, ?, ?, ?, ?)",
                    (
                        part.profile["id"],
                        entry,
                        name,
                        part.times.height,
                        part.profile["times_sha256"],
                    ),
                )
                if done.rowcount:
                    added.append(part.profile["id"])
        return added

    def problems(self) -> tuple[int, list[str]]:
        """Profiles, and what is wrong with their rows."""
        wrong = []
        found = self.database.execute("SELECT entry, file, rows, sha FROM profiles").fetchall()
        for entry, file, count, sha in found:
            rows = pl.read_parquet(self.folder / file).filter(pl.col("entry") == entry)
            rows = rows.drop("entry").select(schema("times").names()[1:])
            if rows.height != count or rows_hash(rows) != sha:
                wrong.append(entry)
        return len(found), wrong


class DeltaStore:
    """A store as it is."""

    def __init__(self, url: str, *, create: bool = True) -> None:
        self.corpus = create_corpus(url) if create else open_corpus(url)

    def append(self, extracts: list[Extract]) -> list[str]:
        return self.corpus.append(extracts)

    def problems(self) -> tuple[int, list[str]]:
        checked = verify(self.corpus, full=True)
        wrong = [f"{problem.where}: {problem.what}" for problem in checked.problems]
        if checked.unrecorded_batches:
            wrong.append("unrecorded")
        return self.corpus.raw("profiles").collect().height, wrong


STORES: dict[str, type[DeltaStore] | type[SqliteStore]] = {
    "delta": DeltaStore,
    "sqlite": SqliteStore,
}


class Source:
    """Small profiles that differ only in their id."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(pickle.dumps(extract(SOURCE)))
        self.one: Extract = pickle.loads(path.read_bytes())

    def extract(self, number: int) -> Extract:
        row = dict(self.one.profile)
        row["id"] = hashlib.sha256(str(number).encode()).hexdigest()
        row["file"] = f"{number}.json"
        return Extract(row, self.one.times, self.one.steps)


def write(source: Source) -> None:
    """A writer: one line of JSON in per task, one out when it is done.

    Between them it opens the store, says so, and waits for a line, so that all begin at once.
    """
    print("ready", flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        try:
            store = STORES[task["catalogue"]](task["url"], create=False)
            print("open", flush=True)
            sys.stdin.readline()
            with reusing_tables():  # As `corpus add` does.
                for numbers in task["batches"]:
                    added = store.append([source.extract(number) for number in numbers])
                    if task["say"]:
                        print(json.dumps(added), flush=True)
            if task["compact"] and isinstance(store, DeltaStore):
                compact(store.corpus)
        except Exception as error:  # noqa: BLE001 - a trial that fails is a result
            print(f"failed: {error}", flush=True)
        else:
            print("done", flush=True)


class Writer:
    """A process that writes; it starts while something else is done."""

    def __init__(self, source: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--write", str(source)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.is_ready = False

    def prepare(self, task: dict[str, Any]) -> None:
        """Say what it will do, and let it open the store."""
        assert self.process.stdin is not None
        if not self.is_ready:
            assert self.line() == "ready"
            self.is_ready = True
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()

    def begin(self) -> None:
        """Let it go on where it has opened the store."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def line(self) -> str:
        """The next line that it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def kill(self) -> list[str]:
        """End it at once; returns what it had still printed."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        return (self.process.communicate()[0] or "").splitlines()


class Trials:
    """What all trials share."""

    def __init__(self, folder: Path, results: Results) -> None:
        self.folder, self.results = folder, results
        self.source_file = folder / "source.pickle"
        self.source = Source(self.source_file)

    def race(
        self, where: str, place: Callable[[str], str], catalogue: str, writers: int, wanted: int
    ) -> None:
        """All writers add at once, batches of their own and one that all have; then they compact.

        In every other trial only two compact, while others still add. `place` makes room for a
        store and returns its address.
        """
        kind = f"race, {catalogue}, {where}, {writers} writers"
        processes: list[Writer] = []
        for trial in self.results.trials(kind, wanted):
            processes = processes or [Writer(self.source_file) for _ in range(writers)]
            url = place(f"{catalogue}-{writers}-{trial}")
            STORES[catalogue](url)
            for at, process in enumerate(processes):
                own = [
                    [at * 1000 + batch * BATCH + number for number in range(BATCH)]
                    for batch in range(BATCHES)
                ]
                task = {"catalogue": catalogue, "url": url, "batches": [*own, [SHARED]]}
                process.prepare({**task, "say": False, "compact": trial % 2 == 0 or at < 2})
            opened = [process.line() for process in processes]
            for process in processes:
                process.begin()
            said = [process.line() for process in processes]
            profiles, wrong = STORES[catalogue](url, create=False).problems()
            expected = writers * BATCHES * BATCH + 1
            said = [line for line in opened + said if line not in ("open", "done")]
            if wrong or profiles != expected or said:
                self.results.failed(
                    kind, f"trial {trial}: {profiles} of {expected} profiles; {wrong[:3]} {said}"
                )
            shutil.rmtree(url, ignore_errors=True)  # Where it is a folder.
        for process in processes:
            process.kill()

    def kill(self, catalogue: str, wanted: int) -> None:
        """Kill a writer at a random moment, again and again, in one store."""
        kind = f"kill -9, {catalogue}"
        url = f"{self.folder}/{catalogue}-killed"
        STORES[catalogue](url)
        reported: set[str] = set()
        spare: Writer | None = None
        for trial in self.results.trials(kind, wanted):
            draw = random.Random(trial)
            process, spare = spare or Writer(self.source_file), Writer(self.source_file)
            first = trial * 20 * BATCH
            batches = [[first + at * BATCH, first + at * BATCH + 1] for at in range(20)]
            task = {"catalogue": catalogue, "url": url, "batches": batches}
            process.prepare({**task, "say": True, "compact": False})
            process.begin()
            assert process.line() == "open"
            lines = [process.line() for _ in range(draw.randrange(6))]
            time.sleep(draw.uniform(0, 0.05))
            lines += process.kill()
            for line in lines:
                if line.startswith("["):
                    with suppress(json.JSONDecodeError):
                        reported |= set(json.loads(line))
            self._kill_compaction(url, catalogue, trial, draw)
            wrong = _wrong(url, catalogue, reported, last=trial == wanted - 1)
            if wrong:
                self.results.failed(kind, f"trial {trial}: {wrong}")
        if spare is not None:
            spare.kill()

    def _kill_compaction(self, url: str, catalogue: str, trial: int, draw: random.Random) -> None:
        """In every eighth trial a compaction is killed as well; the next one is not."""
        if catalogue != "delta" or trial % 8 not in (3, 7):
            return
        process = Writer(self.source_file)
        task = {"catalogue": catalogue, "url": url, "batches": []}
        process.prepare({**task, "say": False, "compact": True})
        process.begin()
        assert process.line() == "open"
        if trial % 8 == 3:
            time.sleep(draw.uniform(0, 1.5))
        else:
            process.line()
        process.kill()

    def damage(self, wanted: int) -> None:
        """Delete, empty, cut or flip one log entry of a copy of a store; `verify` must notice.

        In every fifth trial the logs of all tables lose their last entries, as by an old copy.
        """
        kind = "log damage"
        whole = create_corpus(f"{self.folder}/whole")
        for batch in range(6):
            whole.append([self.source.extract(batch * 2), self.source.extract(batch * 2 + 1)])
        for trial in self.results.trials(kind, wanted):
            draw = random.Random(trial)
            copy = Path(shutil.copytree(whole.url, self.folder / "damaged"))
            table = draw.choice([name for name in ALL_TABLES if name != "events"])
            entry = draw.choice(sorted((copy / table / "_delta_log").glob("*.json"))[1:])
            how = ("deleted", "emptied", "cut", "flipped", "rolled back")[trial % 5]
            if how == "rolled back":
                _roll_back(copy, draw.randrange(1, 6))
            else:
                _damage(entry, how, draw)
            if not _noticed(str(copy)):
                self.results.failed(kind, f"trial {trial}: {table} {entry.name} {how}: not noticed")
            shutil.rmtree(copy)


def _wrong(url: str, catalogue: str, reported: set[str], *, last: bool) -> str:
    """What is missing of what was reported, or not whole; empty when all is well."""
    store = STORES[catalogue](url)
    if isinstance(store, DeltaStore):
        held = set(store.corpus.known())
        problems = [p.what for p in verify(store.corpus, full=last).problems]
    else:
        held = {row[0] for row in store.database.execute("SELECT id FROM profiles")}
        problems = store.problems()[1]
    if reported <= held and not problems:
        return ""
    return f"{len(reported - held)} of {len(reported)} reported profiles are missing; {problems}"


def _damage(entry: Path, how: str, draw: random.Random) -> None:
    data = bytearray(entry.read_bytes())
    if how == "deleted":
        entry.unlink()
    elif how == "emptied":
        entry.write_bytes(b"")
    elif how == "cut":
        entry.write_bytes(bytes(data[: draw.randrange(len(data))]))
    else:
        place = bytes(data).index(b'"path":"') + 10
        data[place] ^= 1
        entry.write_bytes(bytes(data))


def _roll_back(store: Path, versions: int) -> None:
    for table in (name for name in ALL_TABLES if name != "events"):
        for entry in sorted((store / table / "_delta_log").glob("*.json"))[-versions:]:
            entry.unlink()


def _noticed(url: str) -> bool:
    try:
        checked = verify(open_corpus(url), full=True)
    except Exception:  # noqa: BLE001 - an error names the damage, too
        return True
    return bool(checked.problems or checked.unrecorded_batches)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--catalogue", choices=list(STORES), default="delta")
    parser.add_argument("--races", type=int, default=0, metavar="TRIALS")
    parser.add_argument("--writers", default="2,4,8")
    parser.add_argument("--kills", type=int, default=0, metavar="TIMES")
    parser.add_argument("--damages", type=int, default=0, metavar="TIMES")
    parser.add_argument("--s3", action="store_true", help="races at a local S3 server")
    parser.add_argument("--json", type=Path, metavar="FILE", help="counts; continues where it ends")
    given = parser.parse_args()
    if given.write:
        write(Source(given.write))
        return
    results = Results(given.json)
    with tempfile.TemporaryDirectory(prefix="trials-") as folder:
        run(Trials(Path(folder), results), given)
    sys.exit(any(count.bad for count in results.counts.values()))


def run(trials: Trials, given: argparse.Namespace) -> None:
    """What was asked for."""
    writers = [int(count) for count in given.writers.split(",")]
    if given.s3:
        with s3_server(trials.folder, read_directly=True) as address:
            os.environ |= settings(address)

            def bucket(name: str) -> str:
                # The server looks at every object of a bucket to list a few of them.
                create_bucket(address, name)
                return f"s3://{name}/store"

            for count in writers:
                trials.race("s3", bucket, "delta", count, given.races)
        return
    for count in writers if given.races else ():
        trials.race(
            "local", lambda name: f"{trials.folder}/{name}", given.catalogue, count, given.races
        )
    if given.kills:
        trials.kill(given.catalogue, given.kills)
    if given.damages:
        trials.damage(given.damages)


if __name__ == "__main__":
    main()
