"""Plant chosen mistakes, one at a time, and run the tests that should notice them.

`mutations.toml` lists the mistakes. Each is applied to a copy of the tree in a temporary folder,
the tests that it names run there, and the file is restored. The copy is alone in its folder: tests
that need recordings from beside the checkout are skipped, as they are in a public clone.

    python scripts/mutate.py                   # all of them, one after another
    python scripts/mutate.py --only 'ranks-*' --jobs 2 --json mutations.json

The exit code is 1 if fewer than `--least` percent are noticed, and 2 if a mutation cannot be
applied (its text is gone from the sources, say) or its tests fail without it.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import fnmatch
import functools
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
MUTATIONS = ROOT / "scripts" / "mutations.toml"
PACKAGE = Path("src", "solscope")
REACH = 60
"""Lines after `after` in which the text of a mutation has to be."""
LEAST_PCT = 90.0
TIMEOUT_S = 600.0
FAILED_TESTS = (1, 2)
"""Exit codes of pytest: tests failed, or a mutated module could not be imported."""
_LEFT_OUT = shutil.ignore_patterns(
    ".git",
    ".venv*",
    ".*_cache",
    ".hypothesis",
    "node_modules",
    "build",
    "dist",
    "site",
    "*.egg-info",
)


class MutationError(Exception):
    """A mutation that cannot be applied, or tests that cannot judge it."""


@dataclass(frozen=True)
class Mutation:
    """A mistake to plant."""

    id: str
    find: str
    """Text of one source file, found by content so that files can move."""
    replace: str
    tests: tuple[str, ...]
    """Test files, as `folder/file.py` with any folder on the way; `::name` selects one test."""
    why: str
    """What goes wrong for a user with this mistake."""
    after: str = ""
    """Text, unique in the sources, in the `REACH` lines after which `find` has to be unique."""

    def locate(self, sources: Mapping[Path, str]) -> Place:
        """Where the text is; `MutationError` unless it is there exactly once."""
        anchor = self.after or self.find
        hits = [path for path, text in sources.items() for _ in range(text.count(anchor))]
        if len(hits) != 1:
            count = "is not in" if not hits else f"is {len(hits)} times in"
            raise MutationError(f"{self.id}: {anchor!r} {count} the sources")
        text = sources[hits[0]]
        start = text.index(anchor)
        end = len(text)
        if self.after:
            lines = text[start:].splitlines(keepends=True)[:REACH]
            end = start + sum(map(len, lines))
        found = text.count(self.find, start, end)
        if found != 1:
            raise MutationError(f"{self.id}: {self.find!r} is {found} times after {self.after!r}")
        at = text.index(self.find, start, end)
        changed = text[:at] + self.replace + text[at + len(self.find) :]
        return Place(hits[0], text, changed)

    def selection(self, root: Path) -> list[str]:
        """The tests as arguments of pytest; `MutationError` when a file is not there once."""
        return [_selected(root, self.id, test) for test in self.tests]


@dataclass(frozen=True)
class Place:
    """A source file, and its text without and with the mistake."""

    path: Path
    text: str
    changed: str


@dataclass(frozen=True)
class Outcome:
    """What the tests said about a mutation."""

    id: str
    killed: bool
    seconds: float
    by: str
    """The test that failed; `timeout` where the tests did not end."""
    file: str
    why: str
    tests: list[str] = field(default_factory=list)


def load(path: Path = MUTATIONS) -> list[Mutation]:
    """All mutations, in the order of the file."""
    rows: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["mutation"]
    return [Mutation(**{**row, "tests": tuple(row["tests"])}) for row in rows]


def read_sources(root: Path) -> dict[Path, str]:
    """The files that mutations may be in, with their text."""
    found = sorted((root / PACKAGE).rglob("*"))
    return {p: p.read_text(encoding="utf-8") for p in found if p.suffix in (".py", ".toml")}


@functools.cache
def _test_files(root: Path) -> tuple[Path, ...]:
    return tuple((root / "tests").rglob("*.py"))


def _selected(root: Path, mutation: str, test: str) -> str:
    name, separator, case = test.partition("::")
    folders, file = Path(name).parts[:-1], Path(name).name
    hits = [
        path
        for path in _test_files(root)
        if path.name == file and set(folders) <= set(path.relative_to(root).parts)
    ]
    if len(hits) != 1:
        raise MutationError(f"{mutation}: {len(hits)} test files are called {name}")
    return f"{hits[0].relative_to(root).as_posix()}{separator}{case}"


# --- Running tests


class Runner:
    """Runs tests in copies of the tree, and stops them all when it is asked to."""

    def __init__(self, folder: Path, timeout_s: float) -> None:
        self._folder = folder
        self._timeout_s = timeout_s
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def copy(self, number: int) -> Path:
        """A copy of the tree, alone in its folder."""
        root = self._folder / str(number) / "solscope"
        shutil.copytree(ROOT, root, ignore=_LEFT_OUT, symlinks=True)
        return root

    def passes(self, root: Path, tests: Sequence[str]) -> tuple[bool, str]:
        """Whether the tests pass, and which one does not."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        command += ["--tb=no", "-rfE", "--basetemp", str(root.parent / "tmp"), *tests]
        home = root.parent / "home"
        home.mkdir(exist_ok=True)
        environment = {
            **os.environ,
            "PYTHONPATH": str(root / "src"),
            "TMPDIR": str(home),
            "PYTEST_ADDOPTS": "",
        }
        with self._lock:
            if self._stopped:
                raise KeyboardInterrupt
            child = subprocess.Popen(
                command,
                cwd=root,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
            self._running.add(child)
        try:
            output, _ = child.communicate(timeout=self._timeout_s)
        except subprocess.TimeoutExpired:
            return False, "timeout"
        finally:
            _end(child)
            with self._lock:
                self._running.discard(child)
        if child.returncode not in (0, *FAILED_TESTS):
            if self._stopped:
                raise KeyboardInterrupt
            last = "\n".join(output.splitlines()[-5:])
            raise MutationError(f"pytest {' '.join(tests)} ended with {child.returncode}:\n{last}")
        return child.returncode == 0, _first_failure(output)

    def stop(self) -> None:
        """End all tests that run, and start no others."""
        with self._lock:
            self._stopped = True
            for child in self._running:
                _end(child)


def _end(child: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _first_failure(output: str) -> str:
    for line in output.splitlines():
        if line.startswith(("FAILED ", "ERROR ")):
            return line.split(" - ")[0].split(" ", 1)[1].rpartition("/")[2]
    return ""


def judge(runner: Runner, root: Path, mutation: Mutation) -> Outcome:
    """Plant one mistake in a copy, run its tests, and take it out again."""
    place, tests = mutation.locate(read_sources(root)), mutation.selection(root)
    began = time.monotonic()
    _write(place.path, place.changed)
    try:
        passed, by = runner.passes(root, tests)
    finally:
        _write(place.path, place.text)
    file = place.path.relative_to(root).as_posix()
    seconds = round(time.monotonic() - began, 1)
    return Outcome(mutation.id, not passed, seconds, by, file, mutation.why, tests)


def _write(path: Path, text: str) -> None:
    """Write a source file, and drop its bytecode: two versions can have the same size and date."""
    path.write_text(text, encoding="utf-8")
    for stale in path.parent.glob(f"__pycache__/{path.stem}.*"):
        stale.unlink()


def run(
    runner: Runner, mutations: Sequence[Mutation], jobs: int, *, baseline: bool
) -> Iterator[Outcome]:
    """Judge all mutations, as many at a time as there are jobs."""
    copies: queue.SimpleQueue[Path] = queue.SimpleQueue()
    roots = [runner.copy(number) for number in range(min(jobs, len(mutations)))]
    for root in roots:
        copies.put(root)
    if baseline:
        tests = sorted({test for mutation in mutations for test in mutation.selection(roots[0])})
        passed, by = runner.passes(roots[0], tests)
        if not passed:
            raise MutationError(f"without any mutation, {by or 'a test'} fails")

    def one(mutation: Mutation) -> Outcome:
        root = copies.get()
        try:
            return judge(runner, root, mutation)
        finally:
            copies.put(root)

    with concurrent.futures.ThreadPoolExecutor(len(roots)) as pool:
        try:
            yield from pool.map(one, mutations)
        except BaseException:
            runner.stop()
            pool.shutdown(cancel_futures=True)
            raise


# --- The command


def main(argv: Sequence[str] | None = None) -> int:
    """Run from the command line."""
    options = _options(argv)
    chosen = [m for m in load() if any(fnmatch.fnmatch(m.id, glob) for glob in options.only)]
    if not chosen:
        print(f"no mutation is called {', '.join(options.only)}", file=sys.stderr)
        return 2
    before = signal.signal(signal.SIGTERM, _interrupt)
    outcomes: list[Outcome] = []
    try:
        sources = read_sources(ROOT)
        for mutation in chosen:
            mutation.locate(sources)
            mutation.selection(ROOT)
        with tempfile.TemporaryDirectory(prefix="solscope-mutate-") as folder:
            runner = Runner(Path(folder), options.timeout)
            for outcome in run(runner, chosen, options.jobs, baseline=options.baseline):
                outcomes.append(outcome)
                print(_line(outcome), flush=True)
    except MutationError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)
    return _report(outcomes, options)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=["*"], metavar="ID", help="ids, may be globs")
    parser.add_argument("--jobs", type=int, default=1, help="mutations at a time (1)")
    parser.add_argument("--least", type=float, default=LEAST_PCT, help="percent to be killed (90)")
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, help="seconds per mutation")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all outcomes to a file")
    parser.add_argument(
        "--no-baseline",
        dest="baseline",
        action="store_false",
        help="do not run the tests without a mutation first",
    )
    options = parser.parse_args(argv)
    options.jobs = max(1, options.jobs)
    return options


def _report(outcomes: Sequence[Outcome], options: argparse.Namespace) -> int:
    survivors = [outcome for outcome in outcomes if not outcome.killed]
    killed = len(outcomes) - len(survivors)
    pct = 100 * killed / len(outcomes)
    print(f"\n{killed} of {len(outcomes)} mutations killed: {pct:.1f} %")
    for outcome in survivors:
        print(f"survived: {outcome.id} ({outcome.file}): {outcome.why}")
    if options.json is not None:
        report = {
            "killed": killed,
            "mutations": len(outcomes),
            "killed_pct": round(pct, 1),
            "outcomes": [asdict(outcome) for outcome in outcomes],
        }
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0 if pct >= options.least else 1


def _line(outcome: Outcome) -> str:
    said = f"killed    {outcome.by}" if outcome.killed else "SURVIVED"
    return f"{outcome.id:<36} {outcome.seconds:>6.1f} s  {said}"


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
