"""Does a store lose or double anything? Races of writers, kills, and damaged logs.

    python benchmarks/store_trials.py --races 100 --kills 200 --damages 60
    python benchmarks/store_trials.py --races 100 --s3        # needs moto[server]

Prints one line per kind of trial; the exit code is 1 when anything was lost, doubled or not found.
A SQLite catalogue over the same Parquet files runs the same races and kills for comparison
(`--catalogue sqlite`); see docs/explain/store-format.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import polars as pl

from solscope.corpus.durable import sync_file
from solscope.corpus.ingest.extract import extract
from solscope.corpus.maintenance.compaction import compact
from solscope.corpus.maintenance.verify import verify
from solscope.corpus.rows import Extract, rows_hash
from solscope.corpus.schema import ALL_TABLES, schema
from solscope.corpus.store import create_corpus, open_corpus

SOURCE = "demo:vllm-mi300x-graph"
BATCHES, BATCH = 3, 2
"""Batches of a writer in a race, and profiles of each."""
SHARED = 10**6
"""Number of the profile that all writers of a race add."""


class SqliteStore:
    """The alternative: a catalogue in SQLite, rows in Parquet files."""

    def __init__(self, url: str) -> None:
        self.folder = Path(url)
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

    def __init__(self, url: str) -> None:
        self.corpus = create_corpus(url)

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

    def __init__(self) -> None:
        self.one = extract(SOURCE)

    def extract(self, number: int) -> Extract:
        row = dict(self.one.profile)
        row["id"] = hashlib.sha256(str(number).encode()).hexdigest()
        row["file"] = f"{number}.json"
        return Extract(row, self.one.times, self.one.steps)


def write() -> None:
    """A writer: one line of JSON in per task, one out when it is done."""
    source = Source()
    print("ready", flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        store = STORES[task["catalogue"]](task["url"])
        try:
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


def start() -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, __file__, "--write"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def send(process: subprocess.Popen[str], task: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(task) + "\n")
    process.stdin.flush()


def race(root: str, catalogue: str, writers: int, trials: int) -> int:
    """All writers add at once, batches of their own and one that all have, then all compact."""
    processes = [start() for _ in range(writers)]
    bad, begun = 0, time.perf_counter()
    for trial in range(trials):
        url = f"{root}/{catalogue}-{writers}-{trial}"
        STORES[catalogue](url)
        for at, process in enumerate(processes):
            own = [
                [at * 1000 + batch * BATCH + number for number in range(BATCH)]
                for batch in range(BATCHES)
            ]
            task = {"catalogue": catalogue, "url": url, "batches": [*own, [SHARED]]}
            send(process, {**task, "say": False, "compact": True})
        said = [process.stdout.readline().strip() for process in processes if process.stdout]
        profiles, wrong = STORES[catalogue](url).problems()
        expected = writers * BATCHES * BATCH + 1
        if wrong or profiles != expected or said != ["done"] * writers:
            bad += 1
            print(f"  trial {trial}: {profiles} of {expected} profiles; {wrong[:3]} {said}")
        if "://" not in root:
            shutil.rmtree(url)
    for process in processes:
        process.kill()
        process.wait()
    print(
        f"race, {catalogue}, {root.partition(':')[0] if '://' in root else 'local'}: {writers} "
        f"writers, {trials} trials, {bad} with anything lost or doubled "
        f"({time.perf_counter() - begun:.0f} s)",
        flush=True,
    )
    return bad


def kill(root: str, catalogue: str, times: int) -> int:
    """Kill a writer at a random moment, again and again, in one store."""
    draw = random.Random(0)
    url = f"{root}/{catalogue}-killed"
    bad, told, number = 0, set(), 0
    begun = time.perf_counter()
    for attempt in range(times):
        process = start()
        batches = [[number + at * BATCH, number + at * BATCH + 1] for at in range(20)]
        number += 20 * BATCH
        task = {"catalogue": catalogue, "url": url, "batches": batches}
        send(process, {**task, "say": True, "compact": attempt % 4 == 0})
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(draw.randrange(6))]
        time.sleep(draw.uniform(0, 0.05))
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        lines += (process.communicate()[0] or "").splitlines()
        for line in lines:
            if line.startswith("["):
                with suppress(json.JSONDecodeError):
                    told |= set(json.loads(line))
        bad += not _holds(url, catalogue, told, last=attempt == times - 1)
    print(
        f"kill -9, {catalogue}: {times} times, {len(told)} profiles reported as added, "
        f"{bad} checks failed ({time.perf_counter() - begun:.0f} s)",
        flush=True,
    )
    return bad


def _holds(url: str, catalogue: str, told: set[str], *, last: bool) -> bool:
    """All that was reported is there; at the end, all that is there is whole."""
    store = STORES[catalogue](url)
    if isinstance(store, DeltaStore):
        held = set(store.corpus.known())
        checked = verify(store.corpus, full=last)
        return told <= held and not checked.problems
    held = {row[0] for row in store.database.execute("SELECT id FROM profiles")}
    return told <= held and not store.problems()[1]


def damage(root: str, times: int) -> int:
    """Delete, empty, cut or flip one log entry of a copy of a store; `verify` must notice."""
    draw = random.Random(0)
    source = Source()
    whole = create_corpus(f"{root}/whole")
    for batch in range(6):
        whole.append([source.extract(batch * 2), source.extract(batch * 2 + 1)])
    missed = 0
    for attempt in range(times):
        copy = Path(shutil.copytree(whole.url, f"{root}/damaged"))
        table = draw.choice([name for name in ALL_TABLES if name != "events"])
        entries = sorted((copy / table / "_delta_log").glob("*.json"))[1:]
        entry = draw.choice(entries)
        kind = ("deleted", "emptied", "cut", "flipped")[attempt % 4]
        data = bytearray(entry.read_bytes())
        if kind == "deleted":
            entry.unlink()
        elif kind == "emptied":
            entry.write_bytes(b"")
        elif kind == "cut":
            entry.write_bytes(bytes(data[: draw.randrange(len(data))]))
        else:
            place = bytes(data).index(b'"path":"') + 10
            data[place] ^= 1
            entry.write_bytes(bytes(data))
        if not _noticed(str(copy)):
            missed += 1
            print(f"  not noticed: {table} {entry.name} {kind}")
        shutil.rmtree(copy)
    print(f"log damage: {times} times, {missed} not noticed", flush=True)
    return missed


def _noticed(url: str) -> bool:
    try:
        checked = verify(open_corpus(url), full=True)
    except Exception:  # noqa: BLE001 - an error names the damage, too
        return True
    return bool(checked.problems or checked.unrecorded_batches)


@contextmanager
def s3_server() -> Iterator[str]:
    """A local S3 server, and the root of a bucket in it."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_CONDITIONAL_PUT": "etag",
    }
    import boto3

    boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"]).create_bucket(Bucket="trials")
    try:
        yield "s3://trials"
    finally:
        server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--catalogue", choices=list(STORES), default="delta")
    parser.add_argument("--races", type=int, default=0, metavar="TRIALS")
    parser.add_argument("--writers", default="2,4,8")
    parser.add_argument("--kills", type=int, default=0, metavar="TIMES")
    parser.add_argument("--damages", type=int, default=0, metavar="TIMES")
    parser.add_argument("--s3", action="store_true", help="races at a local S3 server")
    given = parser.parse_args()
    if given.write:
        write()
        return
    bad = 0
    with tempfile.TemporaryDirectory(prefix="trials-") as folder:
        for writers in map(int, given.writers.split(",")):
            if given.races and not given.s3:
                bad += race(folder, given.catalogue, writers, given.races)
        if given.s3 and given.races:
            with s3_server() as root:
                for writers in map(int, given.writers.split(",")):
                    bad += race(root, "delta", writers, given.races)
        if given.kills:
            bad += kill(folder, given.catalogue, given.kills)
        if given.damages:
            bad += damage(folder, given.damages)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
