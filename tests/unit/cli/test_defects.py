"""Files that once ended a command with exit code 70, or never: now a result or one clear line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import solscope
from solscope.attribution import rule_set
from solscope.bench.catalog import cache_folder
from solscope.cli import run
from solscope.readers.limits import MAX_DEVICES
from tests.sampling import some

LAUNCH = {
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 5,
    "dur": 2, "args": {"correlation": 1, "External id": 1},
}  # fmt: skip
COMMANDS = (
    *("show {}", "show --slowest {}", "kernels {}", "layers {}", "operators {}", "hotspots {}"),
    *("efficiency {}", "host {}", "ranks {}", "diagnose {}", "whatif --hardware B200 {}"),
    *("compare {} {}", "compare --kernels {} {}", "diagnose {} {}"),
    *("report {} -o {}.html", "export {} --redact --perfetto {}.out.json"),
)


def activity(**fields: Any) -> dict[str, Any]:
    """A kernel; a field that is null is left out."""
    args = {"device": 0, "stream": 7, "correlation": 1}
    event = {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 10, "dur": 5, "args": args}
    return {name: value for name, value in (event | fields).items() if value is not None}


def copied(**fields: Any) -> dict[str, Any]:
    return activity(cat="gpu_memcpy", **({"name": "Memcpy HtoD"} | fields))


def trace(path: Path, *events: dict[str, Any], **header: Any) -> Path:
    device = {"id": 0, "name": "NVIDIA H100 80GB HBM3"}
    path.write_text(json.dumps({"deviceProperties": [device], **header, "traceEvents": events}))
    return path


def check(capsys: pytest.CaptureFixture[str], path: Path, commands: tuple[str, ...]) -> None:
    for command in commands:
        code = run([word.format(path) for word in command.split()])
        err = capsys.readouterr().err
        lines = [line for line in err.splitlines() if not line.startswith("redacted: ")]
        assert code in (0, 1, 2), (command, err)
        assert len(lines) == (code == 2), (command, err)


WITHOUT = {
    "no kernel has a start": (activity(ts=None), activity(ts="x", name="b")),
    "some activities have no start": (activity(), activity(ts=None), copied(ts=None)),
    "nothing has a name": (
        *(activity(name=None), copied(name=None, ts=30), activity(ts=20, name=None)),
    ),
    "every row twice": (activity(), activity(), copied(ts=20), copied(ts=20)),
}


@pytest.mark.parametrize(
    "case",
    [case if "start" in case else pytest.param(case, marks=pytest.mark.long) for case in WITHOUT],
)
def test_activities_without_what_all_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    check(capsys, trace(tmp_path / "a.json", LAUNCH, *WITHOUT[case]), COMMANDS)


def test_activities_without_a_start_beside_metrics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = trace(tmp_path / "a.json", LAUNCH, activity(ts=None), activity(ts=None, name="b"))
    (tmp_path / "a.metrics.csv").write_text(
        "t_ns,metric,device,value\n10,gpu_clock_mhz,0,1000\n20,gpu_clock_mhz,0,1000\n"
    )
    check(capsys, path, ("show {}", "diagnose {}", "report {} -o {}.html"))


@pytest.mark.parametrize("column", some(["stream", "device", "process_group_ranks", "sequence"], 2))
def test_numbers_beyond_i32_in_a_saved_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], column: str
) -> None:
    path = trace(tmp_path / "a.json", LAUNCH, activity(), copied(ts=30))
    saved = solscope.open(path).save(tmp_path / "saved")
    events = pl.read_parquet(saved / "events.parquet")
    dtype = pl.String if column == "process_group_ranks" else pl.Int64
    huge = pl.lit(2**40).cast(dtype).alias(column)
    events.with_columns(huge).write_parquet(saved / "events.parquet")
    check(capsys, saved, ("show {}", "ranks {}", "hotspots {}", "report {} -o {}.html"))


@pytest.mark.parametrize("content", ["a = " + "[" * 5000, "[sources.x]\n[peaks]\na = {source='x'}"])
def test_a_hardware_file_that_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(content)
    check(capsys, path, ("hardware show {}", "operators demo:vllm-mi300x-graph --hardware {}"))


@pytest.mark.parametrize("name", ["rules.toml", "model.json", "results.jsonl"])
def test_other_files_nested_without_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = tmp_path / name
    path.write_text('{"schema": ' + "[" * 50_000 if "json" in name else "a = " + "[" * 50_000)
    commands = {
        "rules.toml": ("kernels --explain x --rules {}",),
        "model.json": ("layers demo:vllm-mi300x-graph --model {}",),
        "results.jsonl": ("bench score {}",),
    }
    check(capsys, path, commands[name])


def test_results_that_are_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(b'{"op\xff": 1}\n{}\n')
    check(capsys, path, ("bench score {}", "bench leaderboard {}"))


def test_work_does_not_grow_with_the_devices_that_a_file_claims(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    claims = range(MAX_DEVICES + 1)
    places = [{"device": n, "stream": n} for n in claims]
    many = [activity(ts=n, args=place) for n, place in zip(claims, places, strict=True)]
    path = trace(tmp_path / "many.json", *many)
    begin = time.process_time()
    check(capsys, path, ("show {}", "ranks {}", "report {} -o {}.html"))
    assert time.process_time() - begin < 20
    assert run(["show", str(path)]) == 2
    assert "257 GPUs" in capsys.readouterr().err
    odd = [activity(args={"device": n, "stream": 7}) for n in (0, 2**31 - 1, -(2**31))]
    assert run(["show", str(trace(tmp_path / "odd.json", *odd))]) == 0


def test_a_pattern_that_never_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule_set, "SEARCH_SECONDS", 0.05)
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nid = "x.y"\ncategory = "gemm"\npattern = "(a+)+$"\n')
    path = trace(tmp_path / "a.json", activity(name="a" * 60 + "b"))
    assert run(["kernels", "--rules", str(rules), str(path)]) == 2
    assert "rule 'x.y'" in capsys.readouterr().err


def test_a_relative_cache_folder_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert cache_folder().is_absolute()
    monkeypatch.setenv("XDG_CACHE_HOME", "/srv/cache")
    assert cache_folder() == Path("/srv/cache/solscope/bench")


def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("words", [{}, {"COMP_WORDS": "solscope", "COMP_CWORD": "x"}])
def test_completion_that_no_shell_asked_for(words: dict[str, str]) -> None:
    process = start("-m", "solscope", _SOLSCOPE_COMPLETE="bash_complete", **words)
    out, err = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert "COMP_WORDS" in err
    assert len(err.splitlines()) == 1


def test_ctrl_c_while_the_program_is_imported() -> None:
    wait = (
        # Programs that a shell started in the background ignore Ctrl-C, and so do their children.
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import builtins, time; real = builtins.__import__\n"
        "def slow(name, *rest):\n"
        "    if name == 'solscope.cli': print('go', flush=True); time.sleep(60)\n"
        "    return real(name, *rest)\n"
        "builtins.__import__ = slow\n"
        "from solscope.__main__ import main; main()\n"
    )
    process = start("-c", wait)
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert (process.returncode, err) == (130, "solscope: interrupted\n")
