"""How long solscope takes to start, and to read a trace beside HTA: time and memory, in one run.

See README.md beside this file. Nothing is asserted; the table is the result.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import json
import multiprocessing
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
import venv
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
CACHE = HERE / ".cache"
HTA_PYTHON = CACHE / "hta-venv" / "bin" / "python"
HTA_VERSION = "0.6.1"
DEFAULT_TRACE = HERE.parents[1] / "shared" / "data" / "traces" / "mi300_xdit_sd3.5.json.gz"
BIG_COPIES = 4
HUGE_BYTES = 2_000_000_000
NO_CACHE = {"SOLSCOPE_NO_CACHE": "1"}
# A profile must be read each time, and modules must not be compiled each time.
ENVIRONMENT = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
ENVIRONMENT |= NO_CACHE
"""This measures reading; second_look.py measures not reading."""

FLOOR = """
import gzip, sys
with gzip.open(sys.argv[1]) as file:
    print(sum(block.count(b"\\n") for block in iter(lambda: file.read(1 << 20), b"")))
"""


@dataclass(frozen=True)
class Tool:
    """A command that reads one trace and prints; the trace's path is appended to it."""

    name: str
    command: Sequence[str]
    runs: int
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    """One run: seconds, CPU seconds and peak resident memory in MB (10^6), or why it failed."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    error: str | None = None


class Best(NamedTuple):
    """What several runs came to."""

    wall_s: float
    median_s: float
    cpu_s: float
    peak_mb: float


@dataclass(frozen=True)
class Row:
    """One line of the table; a ratio is null where HTA was not measured on that file."""

    file: str
    tool: str
    best_s: float | None
    median_s: float | None
    cpu_s: float | None
    peak_mb: float | None
    hta_time_ratio: float | None
    hta_cpu_ratio: float | None
    hta_memory_ratio: float | None
    samples: Sequence[Sample]


@dataclass(frozen=True)
class Start:
    """One line of the table of start-up: a command beside an import, which is its unit."""

    command: str
    beside: str
    best_s: float
    cpu_s: float
    time_ratio: float
    cpu_ratio: float


# Matching text is safe: inside a JSON string the quotes around such a key would be escaped.
NUMBERS = re.compile(
    rb'"(?:(?P<ts>ts)|id|correlation|External id|Ev Idx|Python id|Python parent id)":\s*'
    rb'(?P<value>\d+)(?P<fraction>\.\d+)?(?:,\s*"dur":\s*(?P<dur>\d+))?'
)
EVENTS_START = re.compile(rb'"traceEvents":\s*\[')
BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Layout:
    """Where the events of a trace lie in its text, and by how much each copy must be shifted."""

    head: bytes
    tail: bytes
    body_bytes: int
    shift_us: int
    shift_id: int


def text_blocks(trace: Path) -> Iterator[bytes]:
    with gzip.open(trace) if trace.suffix == ".gz" else trace.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            yield block


def body_blocks(trace: Path, head_bytes: int, body_bytes: int) -> Iterator[bytes]:
    """The text of the events, cut only at commas, so that no number is split."""
    skip, left, rest = head_bytes, body_bytes, b""
    for block in text_blocks(trace):
        wanted = block[skip : skip + left]
        skip -= min(skip, len(block))
        left -= len(wanted)
        rest += wanted
        cut = rest.rfind(b",") + 1
        yield rest[:cut]
        rest = rest[cut:]
    yield rest


def find_tail(end: bytes) -> bytes:
    """What follows the last event, from the bracket on: the longest suffix that closes the file."""
    for close in re.finditer(rb"\}\s*(\])", end):
        tail = end[close.start(1) :]
        try:
            json.loads(b'{"traceEvents": [' + tail)
        except ValueError:
            continue
        return tail
    raise SystemExit("the end of traceEvents was not found in the last MiB of the trace")


def measure_layout(trace: Path) -> Layout:
    total, end = 0, b""
    head = b""
    for block in text_blocks(trace):
        if not total:
            start = EVENTS_START.search(block)
            if start is None:
                raise SystemExit(f"{trace}: no traceEvents in its first MiB")
            head = block[: start.end()]
        total += len(block)
        end = (end + block)[-BLOCK_BYTES:]
    # The head may lie inside `end` when the file is small, and holds arrays of its own.
    tail = find_tail(end[max(0, len(head) - (total - len(end))) :])
    body_bytes = total - len(head) - len(tail)
    first, last, top_id = sys.maxsize, 0, 0
    for block in body_blocks(trace, len(head), body_bytes):
        for found in NUMBERS.finditer(block):
            value = int(found["value"])
            if not found["ts"]:
                top_id = max(top_id, value)
            elif value:
                first = min(first, value)
                last = max(last, value + int(found["dur"] or 0))
    return Layout(head, tail, body_bytes, last - first + 1000, top_id + 1)


def shifted(block: bytes, copy: int, layout: Layout) -> bytes:
    """Add whole microseconds and ids as integers: no fraction of a timestamp is rounded."""

    def add(found: re.Match[bytes]) -> bytes:
        step = layout.shift_us if found["ts"] else layout.shift_id
        value = int(found["value"]) + copy * step
        at, length = found.start("value") - found.start(), len(found["value"])
        return found[0][:at] + str(value).encode() + found[0][at + length :]

    return NUMBERS.sub(add, block) if copy else block


def write_repeated(trace: Path, target: Path, copies: int | None) -> None:
    """Write `copies` of the events (None: as many as make 2 GB) as one trace, streaming."""
    layout = measure_layout(trace)
    copies = copies or -(-HUGE_BYTES // layout.body_bytes)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    with gzip.open(part, "wb", compresslevel=6 if copies <= BIG_COPIES else 1) as out:
        out.write(layout.head)
        for copy in range(copies):
            if copy:
                out.write(b", ")
            for block in body_blocks(trace, len(layout.head), layout.body_bytes):
                out.write(shifted(block, copy, layout))
        out.write(layout.tail)
    part.rename(target)


def repeated(trace: Path, copies: int | None) -> Path:
    """The repeated trace from the cache, built when missing; named after the source's content."""
    stem = trace.name.removesuffix(".gz").removesuffix(".json")
    checksum = 0
    with trace.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            checksum = zlib.crc32(block, checksum)
    target = CACHE / f"{stem}-{checksum:08x}-{f'x{copies}' if copies else 'huge'}.json.gz"
    if not target.exists():
        note(f"building {target}")
        # In a child: this process's own peak memory is the floor of what wait4 reports of others.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            pool.submit(write_repeated, trace, target, copies).result()
    return target


def install_hta() -> str | None:
    """Make HTA's own virtual environment when missing; returns why it could not, or None."""
    if hta_versions().get("traceinsight") == HTA_VERSION:
        return None
    note(f"installing traceinsight=={HTA_VERSION} into {HTA_PYTHON.parents[1]}")
    try:
        venv.create(HTA_PYTHON.parents[1], with_pip=True, clear=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no virtual environment ({error})"
    install = [str(HTA_PYTHON), "-m", "pip", "install", "--quiet", f"traceinsight=={HTA_VERSION}"]
    done = subprocess.run(install, capture_output=True, text=True)
    return None if done.returncode == 0 else last_line(done.stderr) or "pip failed"


def hta_versions() -> dict[str, str]:
    code = (
        "import json; from importlib.metadata import version as v;"
        "print(json.dumps({n: v(n) for n in ('traceinsight', 'pandas')}))"
    )
    if not HTA_PYTHON.exists():
        return {}
    done = subprocess.run([HTA_PYTHON, "-c", code], capture_output=True, text=True)
    return dict(json.loads(done.stdout)) if done.returncode == 0 else {}


def earlier(before: Path) -> dict[str, str]:
    """The environment in which another checkout of solscope runs."""
    return {"PYTHONPATH": str(before / "src")}


def tools(runs: int, hta_runs: int, before: Path | None) -> list[Tool]:
    show = [sys.executable, "-m", "solscope", "show"]
    native, python = {"SOLSCOPE_CORE": "native"}, {"SOLSCOPE_CORE": "python"}
    return [
        Tool("floor: gunzip + count", [sys.executable, "-c", FLOOR], runs),
        *([Tool("before, native core", show, runs, native | earlier(before))] if before else []),
        Tool("solscope, native core", show, runs, native),
        Tool("solscope, Python core", show, runs, python),
        Tool(
            "HTA",
            [str(HTA_PYTHON), str(HERE / "hta_driver.py")],
            hta_runs,
            {"HTA_DISABLE_NS_ROUNDING": "1"},
        ),
    ]


def run_once(tool: Tool, *arguments: str) -> Sample:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = time.perf_counter()
        child = subprocess.Popen(
            [*tool.command, *arguments], stdout=out, stderr=err, env={**ENVIRONMENT, **tool.env}
        )
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        printed = os.fstat(out.fileno()).st_size
        err.seek(0)
        complaint = last_line(err.read().decode(errors="replace"))
    unit = 1 if sys.platform == "darwin" else 1024
    error = None
    if child.returncode or (arguments and not printed):
        error = complaint or f"exit status {child.returncode}, {printed} bytes printed"
    cpu = usage.ru_utime + usage.ru_stime
    return Sample(wall, cpu, usage.ru_maxrss * unit / 1e6, error)


def measure_start(runs: int, before: Path | None) -> list[Start]:
    """Commands on little data, each beside the import that it cannot do without."""
    python, solscope = [sys.executable, "-c"], [sys.executable, "-m", "solscope"]
    click = Tool("import click", [*python, "import click"], runs)
    polars = Tool("import polars", [*python, "import polars"], runs)
    pairs = [
        (Tool("solscope --help", [*solscope, "--help"], runs), click),
        (Tool("solscope show demo:vllm-b200", [*solscope, "show", "demo:vllm-b200"], runs), polars),
    ]
    if before:
        pairs += [
            (replace(tool, name=f"before: {tool.name}", env=earlier(before)), unit)
            for tool, unit in pairs
        ]
    chosen = [click, polars, *(tool for tool, _ in pairs)]
    samples: dict[str, list[Sample]] = {tool.name: [] for tool in chosen}
    for turn in range(runs + 1):
        for tool in chosen:
            sample = run_once(tool)
            if sample.error:
                raise SystemExit(f"{tool.name} failed: {sample.error}")
            if turn:  # the first run compiles modules
                samples[tool.name].append(sample)
    best = {name: summarize(taken) for name, taken in samples.items()}
    return [start(tool.name, unit.name, best[tool.name], best[unit.name]) for tool, unit in pairs]


def start(command: str, beside: str, mine: Best | None, unit: Best | None) -> Start:
    assert mine is not None
    assert unit is not None
    ratios = mine.wall_s / unit.wall_s, mine.cpu_s / unit.cpu_s
    return Start(command, beside, mine.wall_s, mine.cpu_s, *ratios)


def measure(trace: Path, chosen: Sequence[Tool]) -> list[Row]:
    """Run the tools in turn, round after round, so that a slow spell of the machine hits all."""
    samples: dict[str, list[Sample]] = {tool.name: [] for tool in chosen}
    for turn in range(max(tool.runs for tool in chosen)):
        for tool in chosen:
            done = samples[tool.name]
            if turn < tool.runs and not any(sample.error for sample in done):
                sample = run_once(tool, str(trace))
                done.append(sample)
                note(f"{trace.name}: {tool.name}: {sample.error or f'{sample.wall_s:.2f} s'}")
    best = {name: summarize(taken) for name, taken in samples.items()}
    hta = best.get("HTA")
    return [row(trace.name, name, best[name], hta, taken) for name, taken in samples.items()]


def summarize(samples: Sequence[Sample]) -> Best | None:
    """Least wall and CPU time, median wall time, highest peak; None when a run failed."""
    if not samples or any(sample.error for sample in samples):
        return None
    walls = [sample.wall_s for sample in samples]
    cpu = min(sample.cpu_s for sample in samples)
    peak = max(sample.peak_mb for sample in samples)
    return Best(min(walls), statistics.median(walls), cpu, peak)


def row(file: str, tool: str, mine: Best | None, hta: Best | None, samples: list[Sample]) -> Row:
    if mine is None:
        return Row(file, tool, None, None, None, None, None, None, None, samples)
    if hta is None:
        return Row(file, tool, *mine, None, None, None, samples)
    ratios = hta.wall_s / mine.wall_s, hta.cpu_s / mine.cpu_s, mine.peak_mb / hta.peak_mb
    return Row(file, tool, *mine, *ratios, samples)


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


def machine() -> dict[str, str]:
    found = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": str(os.cpu_count()),
        "arch": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
    }
    return {**found, **{n: installed(n) for n in ("solscope", "polars")}, **hta_versions()}


def installed(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def ingest_table(rows: Sequence[Row]) -> str:
    head = ["file", "tool", "best s", "median s", "CPU s", "peak MB"]
    head += ["HTA time / this", "HTA CPU / this", "memory this / HTA"]
    lines = [
        [
            line.file,
            line.tool,
            number(line.best_s, 2) if line.best_s is not None else "failed",
            number(line.median_s, 2),
            number(line.cpu_s, 2),
            number(line.peak_mb, 0),
            number(line.hta_time_ratio, 1),
            number(line.hta_cpu_ratio, 1),
            number(line.hta_memory_ratio, 2),
        ]
        for line in rows
    ]
    return table([head, *lines])


def start_table(rows: Sequence[Start]) -> str:
    head = ["start-up", "beside", "best s", "CPU s", "time this / import", "CPU this / import"]
    lines = [
        [
            line.command,
            line.beside,
            number(line.best_s, 3),
            number(line.cpu_s, 3),
            number(line.time_ratio, 2),
            number(line.cpu_ratio, 2),
        ]
        for line in rows
    ]
    return table([head, *lines])


def table(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if column < 2 else text.rjust(width)
            for column, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, default=DEFAULT_TRACE, help="a Kineto .json[.gz]")
    parser.add_argument("--runs", type=int, default=3, help="runs of solscope and of the floor")
    parser.add_argument("--start-runs", type=int, default=10, help="runs of each short command")
    parser.add_argument("--before", type=Path, help="another checkout of solscope, measured too")
    parser.add_argument("--hta-runs", type=int, default=1, help="runs of HTA")
    parser.add_argument("--skip-hta", action="store_true", help="do not install or run HTA")
    parser.add_argument("--huge", action="store_true", help="also a 2 GB trace, without HTA")
    parser.add_argument("--json", type=Path, metavar="OUT", help="also write the result here")
    given = parser.parse_args()
    if min(given.runs, given.hta_runs, given.start_runs) < 1:
        parser.error("--runs, --start-runs and --hta-runs must be at least 1")
    if given.before and not (given.before / "src" / "solscope").is_dir():
        parser.error(f"{given.before}: not a checkout of solscope")
    if not given.trace.is_file():
        parser.error(f"{given.trace}: no such trace; give one with --trace")
    return given


def main() -> int:
    given = arguments()
    trace = given.trace.resolve()
    before = given.before.resolve() if given.before else None
    chosen = tools(given.runs, given.hta_runs, before)
    reason = "--skip-hta" if given.skip_hta else install_hta()
    if reason:
        chosen.pop()
        print(f"HTA was not measured: {reason}")
    starts = measure_start(given.start_runs, before)
    print(start_table(starts), end="\n\n", flush=True)
    rows = measure(trace, chosen) + measure(repeated(trace, BIG_COPIES), chosen)
    if given.huge:
        rows += measure(repeated(trace, None), [tool for tool in chosen if tool.name != "HTA"])
    about = machine()
    print(ingest_table(rows))
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    if given.json:
        result = {
            "machine": about,
            "start": [asdict(line) for line in starts],
            "rows": [asdict(line) for line in rows],
        }
        given.json.write_text(json.dumps(result, indent=2) + "\n")
    failed = [line for line in rows if line.best_s is None]
    for line in failed:
        print(f"{line.tool} failed on {line.file}: {line.samples[-1].error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
