"""Building a store of 1,303 profiles: time, rate, memory, size; and how long a question takes.

See README.md beside this file. Nothing is asserted; the tables are the result.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from store_scale import as_json, scale
from vary import real_traces, write_variants

HERE = Path(__file__).resolve().parent
CACHE = HERE / ".cache"
DATA = HERE.parents[1] / "shared" / "data"
PROFILES = 1303
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Build:
    """One run of `solscope corpus add`."""

    profiles: int
    wall_s: float
    cpu_s: float
    """Processor time of all processes: what a busy machine does not change."""
    rate: float
    """Profiles per second."""
    input_mb: float
    store_mb: float
    files: int
    largest_process_mb: float
    """Highest resident memory of one process."""
    all_processes_mb: float
    """Highest sum over all processes, in which shared pages count several times."""
    early_mb: float
    """The same sum while the first tenth of the time passed."""


@dataclass(frozen=True)
class Question:
    """One question, asked as a command: start of Python and imports included."""

    command: str
    best_s: float
    median_s: float
    inside_s: float
    """The library call alone."""
    inside_cpu_s: float
    """Its processor time."""


def memory_of(process: int) -> list[int]:
    """Resident bytes of a process and all below it."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
    below = {process}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    sizes = []
    for pid in below:
        try:
            sizes.append(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE)
        except OSError:
            continue
    return sizes


def build(folder: Path, store: Path, engine: str, workers: int) -> Build:
    """Build a store from a folder, watching memory."""
    shutil.rmtree(store, ignore_errors=True)
    solscope("init", str(store))
    command = ["add", str(store), str(folder), "--engine", engine, "--workers", str(workers)]
    start, spent = time.perf_counter(), children_cpu_s()
    process = subprocess.Popen(
        [sys.executable, "-m", "solscope", "corpus", *command, "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    samples: list[tuple[float, int, int]] = []
    while process.poll() is None:
        sizes = memory_of(process.pid)
        if sizes:
            samples.append((time.perf_counter() - start, max(sizes), sum(sizes)))
        time.sleep(0.5)
    wall = time.perf_counter() - start
    out = json.loads(process.communicate()[0])
    spent = children_cpu_s() - spent
    assert not out["failed"], out["failed"][:3]
    status = json.loads(solscope("status", str(store), "--json"))
    return Build(
        profiles=status["profiles"],
        wall_s=wall,
        cpu_s=spent,
        rate=out["added"] / wall,
        input_mb=sum(path.stat().st_size for path in folder.iterdir()) / 1e6,
        store_mb=status["bytes"] / 1e6,
        files=status["files"],
        largest_process_mb=max(size for _, size, _ in samples) / 1e6,
        all_processes_mb=max(total for *_, total in samples) / 1e6,
        early_mb=max(total for at, _, total in samples if at <= wall / 10) / 1e6,
    )


def children_cpu_s() -> float:
    """Processor time of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def solscope(*words: str) -> str:
    """Run `solscope corpus`; returns what it prints."""
    command = [sys.executable, "-m", "solscope", "corpus", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


INSIDE = """
import sys, time
from solscope.corpus.queries.importance import importance
from solscope.corpus.store import open_corpus
from solscope.corpus.queries.shapes import hot_shapes
start, cpu = time.perf_counter(), time.process_time()
corpus = open_corpus(sys.argv[1])
hot_shapes(corpus) if sys.argv[2] == "shapes" else importance(corpus, sys.argv[2])
print(time.perf_counter() - start, time.process_time() - cpu)
"""


def ask(store: Path, what: str, runs: int) -> Question:
    """Time one question."""
    words = ["shapes", str(store)] if what == "shapes" else ["importance", str(store), "--by", what]
    times, inside, cpu = [], [], []
    for _ in range(runs):
        start = time.perf_counter()
        solscope(*words)
        times.append(time.perf_counter() - start)
        done = subprocess.run(
            [sys.executable, "-c", INSIDE, str(store), what],
            check=True,
            capture_output=True,
            text=True,
        )
        wall, used = map(float, done.stdout.split())
        inside.append(wall)
        cpu.append(used)
    shown = " ".join(word for word in words if word != str(store))
    return Question(shown, min(times), statistics.median(times), min(inside), min(cpu))


def subset(variants: Path, count: int) -> Path:
    """A folder of links to the first variants."""
    folder = CACHE / f"first-{count}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in sorted(variants.glob("*.json.gz"))[:count]:
        (folder / path.name).symlink_to(path)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profiles", type=int, default=PROFILES)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--engine", default="local", choices=["local", "ray"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--scale",
        metavar="N,N,...",
        help="only measure stores of so many profiles each, e.g. 1600,6400,100000",
    )
    parser.add_argument(
        "--reuse", action="store_true", help="with --scale: take the stores of an earlier run"
    )
    given = parser.parse_args()
    traces = real_traces(DATA)
    if not traces:
        sys.exit(f"no traces in {DATA}")
    if given.scale:
        sizes = [int(size) for size in given.scale.split(",")]
        rows = scale(sizes, traces, CACHE, given.reuse)
        if given.json:
            document = {"scale": as_json(rows), "machine": describe()}
            given.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        return
    variants = CACHE / "variants"
    write_variants(traces, variants, range(given.profiles))
    builds = []
    for count in (given.profiles // 10, given.profiles):
        store = CACHE / f"store-{count}"
        builds.append(build(subset(variants, count), store, given.engine, given.workers))
        print_build(builds[-1])
    few, many = builds
    print(
        f"{many.profiles / few.profiles:.1f} times the profiles cost "
        f"{many.wall_s / few.wall_s:.1f} times the time, "
        f"{many.cpu_s / few.cpu_s:.1f} times the processor time and "
        f"{many.all_processes_mb / few.all_processes_mb:.2f} times the memory"
    )
    kinds = ("operator", "category", "role", "kernel", "shape", "shapes")
    questions = [ask(CACHE / f"store-{given.profiles}", kind, given.runs) for kind in kinds]
    for question in questions:
        print(
            f"{question.command:28} {question.best_s:6.2f} s best, {question.median_s:6.2f} s "
            f"median, {question.inside_s:6.3f} s of it the library call "
            f"({question.inside_cpu_s:.3f} s of processor time)"
        )
    machine = describe()
    print("\n".join(f"{key}: {value}" for key, value in machine.items()))
    if given.json:
        document = {
            "builds": [asdict(b) for b in builds],
            "questions": [asdict(q) for q in questions],
            "machine": machine,
        }
        given.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def print_build(found: Build) -> None:
    print(
        f"{found.profiles} profiles ({found.input_mb:,.0f} MB): {found.wall_s:.1f} s, "
        f"{found.cpu_s:.1f} s of processor time, {found.rate:.2f} per s; store "
        f"{found.store_mb:.2f} MB in {found.files} files; memory "
        f"{found.largest_process_mb:.0f} MB largest process, {found.all_processes_mb:.0f} MB all, "
        f"{found.early_mb:.0f} MB in the first tenth",
        flush=True,
    )


def describe() -> dict[str, str]:
    """Machine, versions, date, and how busy the machine was."""
    return {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "load": " ".join(f"{value:.1f}" for value in os.getloadavg()),
        "python": platform.python_version(),
        "versions": ", ".join(
            f"{name} {metadata.version(name)}" for name in ("polars", "deltalake", "ray")
        ),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
    }


if __name__ == "__main__":
    main()
