"""The program around its commands: help, exit codes, one line per failure, completion."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from solscope import __version__
from solscope.cli import app, run
from solscope.cli.libraries import import_numpy
from solscope.demo import DEMOS

SRC = Path(__file__).parents[3] / "src"
KERNEL = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 5, "args": {"device": 0}}
TRACE = json.dumps({"schemaVersion": 1, "traceEvents": [KERNEL]})

Capture = pytest.CaptureFixture[str]
Fail = Callable[[BaseException], None]


@pytest.fixture(autouse=True)
def no_debug(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--debug` sets this variable; undone after each test."""
    monkeypatch.setenv("SOLSCOPE_DEBUG", "")


@pytest.fixture
def doctor_raises(monkeypatch: pytest.MonkeyPatch) -> Fail:
    """Makes `solscope doctor` raise."""

    def make(error: BaseException) -> None:
        def fail(**_options: object) -> None:
            raise error

        monkeypatch.setattr(app.commands["doctor"], "callback", fail)

    return make


# Help and version


def test_no_arguments_print_help(capsys: Capture) -> None:
    assert run([]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Usage: solscope [OPTIONS] COMMAND [ARGS]...")
    assert "solscope show demo:vllm-b200" in out
    assert err == ""


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help(capsys: Capture, option: str) -> None:
    assert run([option]) == 0
    assert capsys.readouterr().out.startswith("Usage: solscope ")


@pytest.mark.parametrize("group", ["suite", "hardware"])
def test_a_group_without_a_command_prints_its_help(capsys: Capture, group: str) -> None:
    assert run([group]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"Usage: solscope {group} ")
    assert err == ""


def test_version(capsys: Capture) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"solscope, version {__version__}\n"


# Bad usage: one line, and 2

MISUSES = {
    "unknown command": (["shwo"], "shwo", "solscope"),
    "unknown option": (["show", "--colour", "x"], "--colour", "solscope show"),
    "missing file": (["show"], "FILE|FOLDER|GLOB...", "solscope show"),
    "no number": (["show", "--top", "many", "x"], "--top", "solscope show"),
    "bad choice": (["kernels", "--by", "size"], "'size' is not one of", "solscope kernels"),
    "no output": (["export", "x"], "choose an output: --perfetto", "solscope export"),
}


@pytest.mark.parametrize("case", MISUSES)
def test_misuse(capsys: Capture, case: str) -> None:
    arguments, says, where = MISUSES[case]
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert err.startswith("solscope: ")
    assert says in err
    assert err.endswith(f" (see {where} --help)\n")


# Failures


def test_an_unforeseen_exception_is_one_line_and_70(capsys: Capture, doctor_raises: Fail) -> None:
    doctor_raises(ZeroDivisionError("a\nb\x1b[31m"))
    assert run(["doctor"]) == 70
    assert capsys.readouterr() == (
        "",
        "solscope: a bug in solscope (ZeroDivisionError: a b\\x1b[31m); "
        "please report it, with --debug for details\n",
    )


def test_debug_adds_the_traceback(capsys: Capture, doctor_raises: Fail) -> None:
    doctor_raises(ZeroDivisionError("a"))
    assert run(["--debug", "doctor"]) == 70
    err = capsys.readouterr().err
    assert err.startswith("Traceback (most recent call last):\n")
    assert "\nZeroDivisionError: a\nsolscope: a bug in solscope (" in err


def test_an_error_of_the_operating_system(capsys: Capture, doctor_raises: Fail) -> None:
    doctor_raises(OSError(28, "No space left on device", "/out.csv"))
    assert run(["doctor"]) == 2
    assert capsys.readouterr().err == "solscope: /out.csv: No space left on device\n"


def test_out_of_memory(capsys: Capture, doctor_raises: Fail) -> None:
    doctor_raises(MemoryError())
    assert run(["doctor"]) == 2
    assert capsys.readouterr().err == "solscope: not enough memory for this profile\n"


def test_an_interrupt_gives_130(capsys: Capture, doctor_raises: Fail) -> None:
    doctor_raises(KeyboardInterrupt())
    assert run(["doctor"]) == 130
    assert capsys.readouterr() == ("", "\nsolscope: interrupted\n")


@pytest.mark.parametrize("argument", ["--help", "doctor"])
def test_a_closed_pipe_is_no_failure(argument: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "solscope", argument],
        env={**os.environ, "PYTHONPATH": str(SRC)},
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_what_asked_to_run_at_the_end_runs() -> None:
    code = (
        "import atexit, sys; from solscope.cli import main;"
        "atexit.register(print, 'at exit'); main(sys.argv[1:])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "show", "no such file"],
        env={**os.environ, "PYTHONPATH": str(SRC)},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, b"at exit\n")
    assert done.stderr.count(b"\n") == 1


def test_the_limit_of_threads_is_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "numpy", raising=False)
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    limits: list[str | None] = []
    monkeypatch.setattr(
        "solscope.cli.libraries.import_module",
        lambda _: limits.append(os.environ.get("OPENBLAS_NUM_THREADS")),
    )
    import_numpy()
    assert limits == ["1"]
    assert "OPENBLAS_NUM_THREADS" not in os.environ


def test_threads_are_waited_for() -> None:
    code = (
        "import sys, threading; from solscope.cli import main;"
        "threading.Timer(0.3, print, ['late']).start(); main(['--version'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(SRC)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout.endswith(b"late\n")


# File names


@pytest.mark.parametrize(
    ("command", "members"),
    [
        (["show"], ("profiles", 0, "path")),
        (["compare", "demo:vllm-b200"], ("profiles", 1, "path")),
        (["compare", "demo:vllm-b200"], ("profiles", 1, "label")),
    ],
)
def test_json_with_a_file_name_that_is_not_utf8(
    tmp_path: Path, capsys: Capture, command: list[str], members: tuple[str | int, ...]
) -> None:
    path = tmp_path / os.fsdecode(b"tr\xffce.json")
    path.write_text(TRACE)
    assert run([*command, str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    for member in members:
        found = found[member]
    assert Path(found).name.removesuffix(".json") == "tr\ufffdce"


def test_layers_json_with_a_file_name_that_is_not_utf8(tmp_path: Path, capsys: Capture) -> None:
    from solscope.demo import resolve

    path = tmp_path / os.fsdecode(b"tr\xffce.json.gz")
    path.symlink_to(resolve("demo:vllm-b200"))
    assert run(["layers", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["profiles"] == ["tr\ufffdce"]


def test_skipped_files_of_a_folder_are_named_on_stderr(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "a.json").write_text(TRACE)
    (tmp_path / "b.json").write_text("")
    (tmp_path / "c\x1b.json").write_text("")
    assert run(["show", str(tmp_path), "--json"]) == 0
    out, err = capsys.readouterr()
    assert [Path(found["path"]).name for found in json.loads(out)["profiles"]] == ["a.json"]
    assert err.splitlines() == [
        f"solscope: skipped {tmp_path}/b.json: {tmp_path}/b.json is empty",
        f"solscope: skipped {tmp_path}/c\\x1b.json: {tmp_path}/c\\x1b.json is empty",
    ]


# Shell completion


def completions(*arguments: str, incomplete: str) -> list[tuple[str, str]]:
    """What a shell offers, and as which type."""
    shell = ShellComplete(app, {}, "solscope", "_SOLSCOPE_COMPLETE")
    return [(item.value, item.type) for item in shell.get_completions(list(arguments), incomplete)]


def test_commands_are_completed() -> None:
    assert completions(incomplete="sh") == [("show", "plain")]


@pytest.mark.parametrize("command", ["show", "kernels", "layers", "compare", "export"])
def test_demos_are_completed(command: str) -> None:
    expected = [("demo:vllm-b200", "plain"), ("demo:vllm-mi300x-graph", "plain")]
    assert completions(command, incomplete="demo:vllm") == expected


def test_demos_are_completed_where_they_fit() -> None:
    every = [f"demo:{name}" for name in DEMOS if name not in ("bench-h200", "lab")]
    assert [name for name, _ in completions("show", incomplete="demo:")] == every
    assert completions("bench", "score", incomplete="demo:") == [("demo:bench-h200", "plain")]
    assert completions("lab", "score", incomplete="d") == [("demo:lab", "plain")]
    assert completions("demo", "run", incomplete="dia") == [("diagnose", "plain")]


def test_a_demo_is_completed_from_its_start() -> None:
    expected = [("demo:vllm-mi300x-graph", "plain")]
    assert completions("show", incomplete="demo:vllm-m") == expected


@pytest.mark.parametrize("incomplete", ["", "tra", "demo:x"])
def test_files_are_left_to_the_shell(incomplete: str) -> None:
    assert completions("show", incomplete=incomplete) == [(incomplete, "file")]


@pytest.mark.parametrize(
    ("words", "incomplete", "offered"),
    [
        ("bench run --op", "rms", ["rms_norm"]),
        ("bench run --op", "rms_norm,l2", ["rms_norm,l2_norm"]),
        ("bench run --op", "rms_norm,rms", []),
        ("bench run --suite decode --op", "d", ["dense_gemm"]),
        ("bench run --suite no-such-suite --op", "softm", ["softmax"]),
        ("bench run --solution", "torch", ["torch-compile", "torch-eager"]),
        ("bench run --hardware", "MI3", ["MI300X", "MI325X", "MI355X"]),
        ("bench check", "fl", ["fla", "flashinfer"]),
        ("bench new", "fused_a", ["fused_add_rms_norm"]),
        ("bench score --suite", "", ["atrex", "decode"]),
        ("bench compare --solution-b", "torch-e", ["torch-eager"]),
        ("suite show", "layer", ["layer_norm"]),
        ("suite verify rms_norm", "l2", ["l2_norm"]),
        ("suite shapes --suite decode", "u", ["unified_attention"]),
        ("suite roofline --hardware", "H200,xp", ["H200,XPU-A"]),
        ("suite list --suite", "d", ["decode"]),
        ("hotspots --hardware", "h20", ["H20", "H200"]),
        ("hardware show H100", "gb", ["GB200"]),
        ("corpus shapes store", "softm", ["softmax"]),
        ("corpus trend store", "st", ["step"]),
    ],
)
def test_names_are_completed(words: str, incomplete: str, offered: list[str]) -> None:
    found = completions(*words.split(), incomplete=incomplete)
    assert found == [(name, "plain") for name in offered]


@pytest.mark.parametrize(
    "words", ["bench check", "bench run --solution", "suite list --suite", "hotspots --hardware"]
)
def test_what_is_no_name_is_left_to_the_shell(words: str) -> None:
    assert completions(*words.split(), incomplete="./mi") == [("./mi", "file")]


def test_the_program_prints_a_completion_script(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_SOLSCOPE_COMPLETE", "zsh_source")
    with pytest.raises(SystemExit) as stop:
        run([])
    assert stop.value.code == 0
    assert capsys.readouterr().out.startswith("#compdef solscope\n")


# Python warnings are for developers


@pytest.mark.parametrize("debug", [False, True])
def test_a_python_warning_is_printed_only_with_debug(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, debug: bool
) -> None:
    def warn(**_options: object) -> None:
        warnings.warn("deprecated in Polars 9", UserWarning, stacklevel=2)
        sys.stdout.write("result\n")

    monkeypatch.setattr(app.commands["doctor"], "callback", warn)
    with warnings.catch_warnings():
        # As outside pytest, which makes warnings errors and records them.
        warnings.showwarning = _print_warning  # type: ignore[assignment]
        warnings.simplefilter("default")
        assert run([*(["--debug"] if debug else []), "doctor"]) == 0
    out, err = capsys.readouterr()
    assert out == "result\n"
    assert ("deprecated in Polars 9" in err) is debug


def _print_warning(message: object, *_details: object) -> None:
    sys.stderr.write(f"{message}\n")


def test_a_warning_stays_an_error_where_it_is_one(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def warn(**_options: object) -> None:
        warnings.warn("leaked", UserWarning, stacklevel=2)

    monkeypatch.setattr(app.commands["doctor"], "callback", warn)
    assert run(["doctor"]) == 70
    assert "UserWarning: leaked" in capsys.readouterr().err
