"""Stores of many profiles, made from the tables of few: what a question, an add and a check cost.

A profile of such a store has the rows of a real one, with all times stretched by one of 16 factors
and the sizes that follow the load multiplied by one of 8. Reading traces, which costs the same
whatever the size of the store, is left out. Nothing but time, memory and size should be read from
these stores.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import msgspec
import polars as pl

from solscope.corpus.ingest.add import add_profiles
from solscope.corpus.maintenance.compaction import compact
from solscope.corpus.rows import Extract, rows_hash
from solscope.corpus.schema import schema
from solscope.corpus.store import Corpus, create_corpus, open_corpus

STRETCHES, LOADS = 16, 8
LOAD_AXES = ("tokens", "m", "rows", "batch", "queries")
BATCH = 1000
COMPACT_EVERY = 32
"""Batches between two compactions."""
TIMES = ("time_ns", "call_ns", "bound_ns", "expected_ns")
DAY_NS = 86_400 * 10**9


class Templates:
    """The tables of real profiles, to make others from."""

    def __init__(self, source: Corpus) -> None:
        self.profiles = source.profiles().sort("file").to_dicts()
        self.times = _by_entry(source, "times")
        self.steps = _by_entry(source, "steps")

    def extract(self, number: int) -> Extract:
        """Profile `number`."""
        at = number % len(self.profiles)
        stretch = number // len(self.profiles) % STRETCHES
        load = number // 7 % LOADS
        times, steps, facts = self._tables(at, stretch, load)
        row = dict(self.profiles[at])
        for name in ("entry", "added_ns", "batch"):
            row.pop(name)
        row |= facts | {
            "id": hashlib.sha256(str(number).encode()).hexdigest(),
            "file": f"runs/{number // 1000}/trace-{number}.json.gz",
            "recorded_ns": 1_790_000_000 * 10**9 + number * DAY_NS // 500,
            "version": f"0.{number // 5000}.0",
            "tags": json.dumps({"team": f"team{number % 11}"}),
        }
        return Extract(row, times, steps)

    @cache  # noqa: B019 - lives as long as the run
    def _tables(self, at: int, stretch: int, load: int) -> tuple[pl.DataFrame, pl.DataFrame, dict]:  # type: ignore[type-arg]
        profile = self.profiles[at]
        factor = 16 + stretch
        times = self.times[profile["entry"]].with_columns(
            *((pl.col(name) * factor // 16) for name in TIMES),
            (pl.col("durations_ns") * factor // 16).alias("durations_ns"),
            _loaded(self.times[profile["entry"]]["axes"], load),
        )
        steps = self.steps.get(profile["entry"], schema("steps").to_frame().drop("entry"))
        facts = {
            "gpu_ns": int(times["time_ns"].sum()),
            "times_sha256": rows_hash(times),
            "steps_sha256": rows_hash(steps),
            "kept_events": 0,
        }
        return times, steps, facts


def _by_entry(source: Corpus, name: str) -> dict[str, pl.DataFrame]:
    parts = source.table(name).collect().partition_by("entry", as_dict=True)
    return {str(key[0]): part.drop("entry") for key, part in parts.items()}


def _loaded(axes: pl.Series, load: int) -> pl.Series:
    texts = []
    for text in axes.to_list():
        sizes = msgspec.json.decode(text) if text else None
        if sizes:
            grown = {k: v * (1 + load) for k, v in sizes.items() if k in LOAD_AXES and v}
            text = msgspec.json.encode({**sizes, **grown}, order="sorted").decode()
        texts.append(text)
    return pl.Series("axes", texts, dtype=pl.String)


LAUNCHER = """
import os, subprocess, sys, time
start = time.perf_counter()
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, code, used = os.wait4(process.pid, 0)
wall = time.perf_counter() - start
print(os.waitstatus_to_exitcode(code), wall, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""
"""A small process between this one and the command, whose peak would count this one's memory."""


@dataclass(frozen=True)
class Cost:
    """One command, start of Python included."""

    wall_s: float
    cpu_s: float
    peak_mb: float


@dataclass(frozen=True)
class Row:
    """One store."""

    profiles: int
    rows: int
    store_mb: float
    files: int
    build_s: float | None
    """Null where the store is of an earlier run."""
    add_one_ms: float
    """Adding one more profile, best of five."""
    add_one_cpu_ms: float
    """Its processor time, median of five."""
    costs: dict[str, Cost]


def build(templates: Templates, target: Path, profiles: int) -> tuple[Corpus, float]:
    """A store of so many profiles, added in batches and compacted as a spool does."""
    shutil.rmtree(target, ignore_errors=True)
    corpus = create_corpus(target)
    start = time.perf_counter()
    for batch, first in enumerate(range(0, profiles, BATCH), 1):
        numbers = range(first, min(first + BATCH, profiles))
        corpus.append([templates.extract(number) for number in numbers])
        if batch % COMPACT_EVERY == 0:
            compact(corpus)
    compact(corpus)
    return corpus, time.perf_counter() - start


COMMANDS: dict[str, tuple[str, ...]] = {
    "importance": ("importance",),
    "by kernel": ("importance", "--by", "kernel"),
    "shapes": ("shapes",),
    "trend": ("trend", "dense_gemm"),
    "where": ("importance", "--where", "team=team3"),
    "shapes where": ("shapes", "--where", "team=team3"),
    "group-by": ("importance", "--group-by", "gpu,phase"),
    "status": ("status",),
    "list": ("list", "--where", "team=team3"),
    "verify": ("verify", "--full"),
    "verify again": ("verify",),
}


def measure(templates: Templates, corpus: Corpus, profiles: int, build_s: float | None) -> Row:
    """What the usual commands cost; each is printed when it has been measured."""
    # Extra profiles, so that nothing is known.
    singles, cpu = [], []
    first = 10**7 + profiles + corpus.open("profiles").version() * 10
    for number in range(first, first + 5):
        extract = templates.extract(number)
        start, spent = time.perf_counter(), time.process_time()
        assert len(corpus.append([extract])) == 1
        singles.append(time.perf_counter() - start)
        cpu.append(time.process_time() - spent)
    print(f"{profiles:,}: one more {1e3 * min(singles):.0f} ms, CPU {1e3 * sorted(cpu)[2]:.0f} ms")
    url = corpus.url
    status = corpus.status()
    costs = {}
    for name, (word, *rest) in COMMANDS.items():
        costs[name] = cost = command(word, url, *rest)
        print(
            f"  {name:14} {cost.wall_s:7.2f} s {cost.cpu_s:7.2f} CPU s {cost.peak_mb:7.0f} MB",
            flush=True,
        )
    rows = int(open_corpus(url).raw("times").select(pl.len()).collect().item())
    return Row(
        status.profiles,
        rows,
        status.bytes / 1e6,
        status.files,
        build_s,
        1e3 * min(singles),
        1e3 * sorted(cpu)[2],
        costs,
    )


def command(*words: str) -> Cost:
    """Run `solscope corpus` and take its time and memory."""
    done = subprocess.run(
        [sys.executable, "-c", LAUNCHER, sys.executable, "-m", "solscope", "corpus", *words],
        stdout=subprocess.PIPE,
        env={**os.environ, "POLARS_MAX_THREADS": "2"},
        check=True,
        text=True,
    )
    code, wall, cpu, peak = map(float, done.stdout.split())
    if code not in (0, 1):
        sys.exit(f"{words}: exit code {code:.0f}")
    return Cost(wall, cpu, peak * 1024 / 1e6)


def source_store(traces: list[Path], folder: Path) -> Corpus:
    """The real profiles, read once."""
    if (folder / "profiles").is_dir():
        return open_corpus(folder)
    corpus = create_corpus(folder)
    add_profiles(corpus, traces, workers=1)
    return corpus


def scale(sizes: list[int], traces: list[Path], folder: Path, reuse: bool) -> list[Row]:
    """Build and measure stores of these sizes; with `reuse` take those of an earlier run."""
    templates = Templates(source_store(traces, folder / "source"))
    found = []
    for profiles in sizes:
        target = folder / f"scale-{profiles}"
        build_s: float | None = None
        if reuse and target.is_dir():
            corpus = open_corpus(target)
        else:
            corpus, build_s = build(templates, target, profiles)
        row = measure(templates, corpus, profiles, build_s)
        found.append(row)
        print_row(row)
    return found


def print_row(row: Row) -> None:
    built = ""
    if row.build_s is not None:
        built = f"; built in {row.build_s:.1f} s ({1e3 * row.build_s / row.profiles:.2f} ms each)"
    print(
        f"{row.profiles:,} profiles, {row.rows:,} rows, {row.store_mb:,.1f} MB in "
        f"{row.files} files{built}",
        flush=True,
    )


def as_json(rows: list[Row]) -> list[dict[str, object]]:
    """For a file of results."""
    return [asdict(row) for row in rows]
