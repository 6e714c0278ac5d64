"""Every command on damaged files, in this process: one case per seed.

A case damages one real file, runs one command on it, and says what is wrong with what came of it:
an exit code that is none of ours, more than one line of error, a control character on the
terminal, JSON that is no JSON, a hang. For Chrome traces both scanners must also agree.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gzip
import io
import json
import os
import random
import re
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import zstandard
from polars.testing import assert_frame_equal

import solscope
from solscope import demo
from solscope.cli import BUG, run
from solscope.readers import ReadOptions
from tests.fuzz import mutating

DATA = Path(__file__).parents[1] / "data"
DEMO = Path(demo.__file__).parent
CASE_SECONDS = 120
"""A case that takes longer counts as a hang; the slowest takes seconds on an idle machine."""
EVENTS = (2, 50, 400, 400, 2000)
"""Events of a trace in a case: the most are enough for steps and layers, most cases have fewer."""
READING = (
    *("show {file}", "show --json {file}", "show --slowest {file}", "kernels {file}"),
    *("kernels --by op --json {file}", "layers --kernels {file}", "layers --json {file} {whole}"),
    *("operators {file}", "operators --json --hardware H100 {file}", "hotspots {file}"),
    *("hotspots --hardware H100 --json {file}", "efficiency --hardware H200 {file}", "host {file}"),
    *(
        "memory {file}",
        "ranks {file} {whole}",
        "whatif --gpu B200 --graphs {file}",
        "diagnose {file}",
    ),
    *("whatif --hardware H100 --dtype fp8 --batch 1..4 --json {file}",),
    *("diagnose {file} {whole}", "diagnose --json {whole} {file}", "compare {file} {whole}"),
    *("compare --kernels {whole} {file}", "gate {whole} {file} --max-regression 3%"),
    *(
        "report {file} -o {out}.html",
        "export {file} --redact --perfetto {out}.json --csv {out}.csv",
    ),
    *("export {file} --parquet {out}.solscope", "SERVE {file} {whole}", "STORE {file}"),
)
"""Commands that take a profile; `SERVE` asks the dashboard, `STORE` adds to a profile store."""


NOTE = re.compile(r"solscope: skipped |redacted: |solscope: \d+ s: ")
"""How lines begin that are no errors: files left out, and what takes long."""


class Subject(NamedTuple):
    """A file to damage, the ways to damage it, and the commands that take it."""

    path: Path
    damage: tuple[Callable[[bytes, random.Random], bytes], ...]
    commands: tuple[str, ...] = READING
    shorten: bool = False
    """Whether it is a trace of which a part is enough."""


TRACE = (mutating.mutate, mutating.mutate_json, mutating.mutate_json, mutating.mutate_json)
TABLE = (mutating.mutate, mutating.mutate_csv, mutating.mutate_csv)
RESULTS = ("bench score {file}", "bench leaderboard {file}", "bench compare {file} {whole}")
LAB = DEMO / "lab" / "recordings" / "tune-eager-slow_sleep-s3.json.zst"
SUBJECTS = {
    "kineto": Subject(DATA / "kineto_b200.json.gz", TRACE, shorten=True),
    "kineto_graph": Subject(DEMO / "vllm-mi300x-graph.json.gz", TRACE, shorten=True),
    "kineto_h100": Subject(DEMO / "qwen-h100.json.zst", TRACE, shorten=True),
    "kineto_cores": Subject(
        DEMO / "vllm-mi300x-graph.json.gz", (mutating.mutate,), ("CORES {file}",), shorten=True
    ),
    "rocprof": Subject(DATA / "rocprofv3.json.gz", TRACE),
    "nsys_sqlite": Subject(DATA / "nsys_h100.sqlite", (mutating.mutate,)),
    "nsys_csv": Subject(DATA / "nsys_decode_kern_sum.csv", TABLE),
    "nsys_text": Subject(DATA / "nsys_kern_sum.txt", (mutating.mutate,)),
    "metrics": Subject(
        DATA / "run.metrics.csv",
        TABLE,
        (*READING, "show {beside}", "diagnose {beside} {whole_beside}"),
    ),
    "behavior": Subject(
        DATA / "behavior" / "normal_perf_data.csv",
        TABLE,
        (*READING, "diagnose --classic {file} {whole}", "diagnose --classic {whole} {file}"),
    ),
    "observations": Subject(LAB, TRACE),
    "saved": Subject(DATA / "kineto_b200.json.gz", ()),
    "config": Subject(
        DATA / "truth" / "configs" / "qwen3-8b.json",
        TRACE,
        (
            "layers demo:vllm-mi300x-graph --model {file}",
            "operators demo:vllm-mi300x-graph --model {file} --batch 4 --context 900",
            "whatif demo:qwen-h100 --gpu H200 --batch 4 --model {file}",
        ),
    ),
    "hardware": Subject(
        DEMO.parent / "hardware" / "H100.toml",
        (mutating.mutate,),
        ("hardware show {file}", "operators demo:vllm-mi300x-graph --hardware {file}"),
    ),
    "rules": Subject(
        DATA / "rules.toml",
        (mutating.mutate,),
        ("kernels demo:vllm-mi300x-graph --rules {file}", "kernels --explain gemm --rules {file}"),
    ),
    "results": Subject(
        DATA / "bench_results.jsonl", (mutating.mutate, mutating.mutate_json_lines), RESULTS
    ),
}  # fmt: skip


class Case(NamedTuple):
    """One case, and what is wrong with its outcome."""

    subject: str
    arguments: tuple[str, ...]
    problem: str | None
    """Null when all is well; else one line that is the same for the same defect."""
    details: str
    code: int | None = None


class Hang(BaseException):
    """A case took too long."""


@contextlib.contextmanager
def time_limit(seconds: int = CASE_SECONDS) -> Iterator[None]:
    """Raise `Hang` in Python code, end the process in native code."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    faulthandler.dump_traceback_later(4 * seconds, exit=True, file=sys.__stderr__ or 2)
    try:
        yield
    finally:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


def run_case(seed: int, folder: Path, subjects: tuple[str, ...] = tuple(SUBJECTS)) -> Case:
    """Damage one file as `seed` says, in the empty `folder`, and run one command on it."""
    rng = random.Random(seed)
    name = rng.choice(subjects)
    subject = SUBJECTS[name]
    template = rng.choice(subject.commands)
    places = damaged(name, rng, folder)
    arguments = tuple(word.format(**places, out=folder / "out") for word in template.split())
    return judge(name, arguments)


def damaged(name: str, rng: random.Random, folder: Path) -> dict[str, Path]:
    """Write the damaged file, with a whole one where commands compare."""
    subject = SUBJECTS[name]
    whole = _whole(name)
    path = folder / whole.name
    places = {"file": path, "whole": whole}
    if name == "saved":
        shutil.copytree(whole, path)
        hurt = path / rng.choice(sorted(item.name for item in path.iterdir()))
        if hurt.suffix == ".parquet" and rng.random() < 0.9:
            mutating.mutate_parquet(hurt, rng)
        else:
            damage = rng.choice((mutating.mutate, mutating.mutate_json))
            damage = mutating.mutate if hurt.suffix == ".parquet" else damage
            hurt.write_bytes(damage(hurt.read_bytes(), rng))
    elif name == "nsys_sqlite" and rng.random() < 0.7:
        shutil.copyfile(whole, path)
        mutating.mutate_sqlite(path, rng)
    else:
        data = _content(name)
        if subject.shorten:
            data = shortened(data, rng)
        path.write_bytes(rng.choice(subject.damage)(data, rng))
    if name == "metrics":
        trace = folder / "run.json"
        trace.write_bytes(shortened(_content("kineto"), rng))
        places |= {"beside": trace, "whole_beside": _whole("kineto")}
    return places


def shortened(data: bytes, rng: random.Random, count: int | None = None) -> bytes:
    """A trace of events that begin one after the other, whatever kind they are of."""
    document, by_time = _by_time(data)
    events = document["traceEvents"]
    count = count or rng.choice(EVENTS)
    begin = rng.randrange(max(1, len(events) - count))
    kept = [events[at] for at in sorted(by_time[begin : begin + count])]
    return json.dumps({**document, "traceEvents": kept}).encode()


@cache
def _by_time(data: bytes) -> tuple[dict[str, Any], list[int]]:
    """A trace, and the places of its events in the order in which they begin."""
    document = json.loads(data)
    events = document["traceEvents"]
    return document, sorted(range(len(events)), key=lambda at: _begin(events[at]))


def _begin(event: dict[str, Any]) -> float:
    begin = event.get("ts")
    return float(begin) if isinstance(begin, int | float) else 0.0


@cache
def _content(name: str) -> bytes:
    """The content of a sample, decompressed."""
    path = SUBJECTS[name].path
    data = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(data)
    if path.suffix == ".zst":
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return data


_WHOLE: dict[str, Path] = {}


def _whole(name: str) -> Path:
    """An undamaged file of the same kind, small enough to be read in every case."""
    if name not in _WHOLE:
        import atexit
        import tempfile

        folder = Path(tempfile.mkdtemp(prefix="solscope-fuzz-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        subject = SUBJECTS[name]
        stem = subject.path.name.removesuffix(".gz").removesuffix(".zst")
        if name == "saved":
            source = folder / stem
            source.write_bytes(shortened(_content(name), random.Random(1), 400))
            _WHOLE[name] = solscope.open(source).save(folder / "whole.solscope")
        else:
            data = _content(name)
            _WHOLE[name] = folder / stem
            _WHOLE[name].write_bytes(
                shortened(data, random.Random(1), max(EVENTS)) if subject.shorten else data
            )
    return _WHOLE[name]


def judge(subject: str, arguments: tuple[str, ...]) -> Case:
    """Run one command, and say what is wrong with its outcome."""
    out, err = io.StringIO(), io.StringIO()
    code: int | None = None
    try:
        with time_limit(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = (
                _SPECIAL[arguments[0]](arguments[1:])
                if arguments[0] in _SPECIAL
                else run(arguments)
            )
    except Hang:
        return Case(subject, arguments, f"hang: {arguments[0]}", "")
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return Case(subject, arguments, _place(error), traceback.format_exc())
    problem, details = _problem(arguments, code, out.getvalue(), err.getvalue())
    return Case(subject, arguments, problem, details, code)


def _problem(arguments: tuple[str, ...], code: int, out: str, err: str) -> tuple[str | None, str]:
    if code == BUG:
        return _traceback_of(arguments)
    if code not in (0, 1, 2):
        return f"exit {code}: {arguments[0]}", err
    if "not enough memory" in err:
        return f"memory: {arguments[0]}", err
    lines = [line for line in err.splitlines() if not NOTE.match(line)]
    if code == 2 and (len(lines) != 1 or not lines[0].startswith("solscope: ")):
        return f"{len(lines)} lines of error: {arguments[0]}", err
    if "\x1b" in out or "\x1b" in err:
        return f"control characters: {arguments[0]}", out[:2000] + err
    if code == 0 and "--json" in arguments:
        try:
            json.loads(out, parse_constant=_not_json)
        except ValueError as error:
            return f"not JSON: {arguments[0]}", f"{error}\n{out[:2000]}"
    return None, err


def _not_json(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _traceback_of(arguments: tuple[str, ...]) -> tuple[str, str]:
    """Where a command fails: it is run once more, this time with its traceback."""
    err = io.StringIO()
    os.environ["SOLSCOPE_DEBUG"] = "1"
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
            run(arguments)
    finally:
        del os.environ["SOLSCOPE_DEBUG"]
    text = err.getvalue()
    places = [line.strip() for line in text.splitlines() if "/solscope/" in line and "line" in line]
    inside = [place for place in places if "/cli/__init__" not in place] or ["unknown place"]
    message = next((s for s in reversed(text.splitlines()) if "a bug in solscope" in s), "")
    kind = message.partition("(")[2].partition(":")[0]
    return f"{kind}: {inside[-1].partition('/solscope/')[2]}", text


def _place(error: BaseException) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/solscope/" in f.filename]
    where = (
        f"{frames[-1].filename.partition('/solscope/')[2]}:{frames[-1].lineno}" if frames else ""
    )
    return f"{type(error).__name__}: {where}"


# What is no command of its own


def _ask_dashboard(files: tuple[str, ...]) -> int:
    """Every question of the dashboard about profiles."""
    from solscope.web.dispatch import answer, endpoint_of
    from solscope.web.library import Library

    try:
        library = Library(files)
    except solscope.SolscopeError as error:
        sys.stderr.write(f"solscope: {error}\n")
        return 2
    first, last = library.entries[0].id, library.entries[-1].id
    asked = [
        *("/api/overview", f"/api/profile/{first}", f"/api/profile/{first}?hardware=H100,H200"),
        *(f"/api/profile/{first}/timeline", f"/api/profile/{first}/events?from=0&to=9000000"),
        *(f"/api/profile/{first}/range?from=0&to=9000000", f"/api/compare?a={first}&b={last}"),
        f"/api/diagnose?a={first}&b={last}",
    ]
    for question in asked:
        endpoint, query = endpoint_of(question)
        with contextlib.suppress(solscope.SolscopeError):
            json.loads(answer(endpoint, library, query), parse_constant=_not_json)
    return 0


def _add_to_store(files: tuple[str, ...]) -> int:
    """What `corpus add` takes from a profile, without the store, which costs more than that."""
    from solscope.corpus.ingest.extract import extract

    for file in files:
        try:
            extract(file)
        except solscope.SolscopeError as error:
            sys.stderr.write(f"solscope: {error}\n")
            return 2
    return 0


def _compare_cores(files: tuple[str, ...]) -> int:
    """Both scanners give the same events, facts and warnings, or both refuse the file."""
    (file,) = files
    native, python = (_read(file, core) for core in ("native", "python"))
    if isinstance(native, str) or isinstance(python, str):
        assert native == python, f"native: {native!r:.300}, python: {python!r:.300}"
        return 0 if native is python else 2 if isinstance(native, str) and _say(native) else 0
    assert native.metadata == python.metadata, _differing(native.metadata, python.metadata)
    assert native.warnings == python.warnings, f"{native.warnings} != {python.warnings}"
    assert_frame_equal(native.events, python.events, categorical_as_str=True)
    return 0


def _say(line: str) -> bool:
    sys.stderr.write(f"solscope: {line}\n")
    return True


def _differing(one: Any, other: Any) -> str:
    names = [f for f in one.__struct_fields__ if getattr(one, f) != getattr(other, f)]
    return ", ".join(f"{f}: {getattr(one, f)!r:.200} != {getattr(other, f)!r:.200}" for f in names)


def _read(file: str, core: str) -> Any:
    before = os.environ.get("SOLSCOPE_CORE")
    os.environ["SOLSCOPE_CORE"] = core
    try:
        return solscope.open(file, options=ReadOptions(max_expansion=1000))
    except solscope.SolscopeError as error:
        return str(error)
    finally:
        if before is None:
            del os.environ["SOLSCOPE_CORE"]
        else:
            os.environ["SOLSCOPE_CORE"] = before


_SPECIAL: dict[str, Callable[[tuple[str, ...]], int]] = {
    "SERVE": _ask_dashboard,
    "STORE": _add_to_store,
    "CORES": _compare_cores,
}
