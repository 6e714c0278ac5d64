"""Attempts at a kernel: each checked, timed, and set beside bound, best and the one before."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

pytest.importorskip("torch")

from solscope.bench import tune as tuning_module
from solscope.bench.base import ShapeResult
from solscope.bench.pool.process import Stopped
from solscope.bench.results.attempts import Tuning
from solscope.bench.run.agenda import Options
from solscope.bench.run.evaluate import Evaluation
from solscope.bench.tune import MOST_ATTEMPTS, Outdated, Tuner
from solscope.cli import run
from solscope.cli.commands.bench import tuning as command
from solscope.errors import InputError, SolscopeError
from solscope.report.forms import Screen, render_text
from tests.json_output import document

RIGHT = """
import torch

def run(x, weight, eps):
    x32 = x.float()
    x32 = x32 * torch.rsqrt(x32.pow(2).mean(-1, keepdim=True) + eps)
    return (x32 * weight.float()).to(x.dtype)
"""
WRONG = RIGHT.replace("+ eps)", "+ eps) * 1.5")
HANGING = RIGHT.replace("    x32 = x.float()", "    while True:\n        x32 = x.float()")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "EXTRA", 0)
    monkeypatch.setattr(command, "SECONDS", 0.02)


def edited(file: Path, versions: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """An editor that saves these versions of a file, one per attempt, and then ends the loop."""
    file.write_text(versions[0], encoding="utf-8")
    left = iter(versions[1:])

    def save(_: float) -> None:
        text = next(left, None)
        if text is None:
            raise KeyboardInterrupt
        file.write_text(text, encoding="utf-8")

    monkeypatch.setattr(
        command,
        "time",
        SimpleNamespace(sleep=_every_second(save), monotonic=time.monotonic),
    )


def documents(out: str) -> list[Any]:
    return [msgspec.json.decode(text) for text in out.replace("}\n{", "}\0{").split("\0")]


@pytest.mark.long
@pytest.mark.usefixtures("warm_workers", "quick")
def test_wrong_and_broken_versions_are_attempts_like_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.py"
    edited(file, [RIGHT, WRONG, "def run(:\n", RIGHT + "\n# again\n"], monkeypatch)
    what = ["bench", "tune", "rms_norm", "--solution", str(file), "--shapes", "0"]
    assert run([*what, "--device", "cpu", "--small", "--json"]) == 0
    shown = documents(capsys.readouterr().out)
    statuses = [[one["status"] for one in each["attempts"]] for each in shown]
    assert statuses[0] == ["passed"]
    assert statuses[1] == ["wrong_numbers", "passed"]
    assert statuses[2] == ["crashed", "wrong_numbers", "passed"]
    assert statuses[3] == ["passed", "crashed", "wrong_numbers", "passed"]
    (shape,) = shown[3]["shapes"]
    assert shape["best_by"] == "torch-eager"
    assert shape["of_best"] == pytest.approx(shape["median_us"] / shape["best_us"])
    assert shown[3]["attempts"][0]["against"] == 1, "the last that passed"
    assert shown[2]["shapes"][0]["median_us"] is None
    assert any("times of one CPU thread" in note for note in shown[0]["notes"])


def test_a_solution_is_tried_again_when_it_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.py"
    edited(file, [RIGHT, WRONG], monkeypatch)
    wrong = line("0", 40.0, status="wrong_numbers", reason="max error 3")
    monkeypatch.setattr(tuning_module, "Evaluation", Replayed([[line("0", 40.0)], [wrong]]))
    what = ["bench", "tune", "rms_norm", "--solution", str(file), "--device", "cpu", "--json"]
    assert run(what) == 1, "the last attempt failed"
    shown = documents(capsys.readouterr().out)
    assert [each["attempts"][0]["number"] for each in shown] == [1, 2]
    assert shown[1]["attempts"][0]["reason"] == "shape 0: max error 3"


def _every_second(save: Any) -> Any:
    """What stands for sleeping: files change at one look and are the same at the next."""
    looks = 0

    def sleep(seconds: float) -> None:
        nonlocal looks
        looks += 1
        if looks % 2:
            save(seconds)

    return sleep


@pytest.mark.usefixtures("warm_workers", "quick")
def test_once_ends_with_1_when_the_attempt_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rms_norm.py").write_text(WRONG, encoding="utf-8")
    what = ["bench", "tune", "rms_norm", "--solution", str(tmp_path), "--shapes", "0"]
    assert run([*what, "--device", "cpu", "--small", "--once", "--json"]) == 1
    found = document(capsys.readouterr().out)
    assert found["attempts"][0]["status"] == "wrong_numbers"
    assert found["attempts"][0]["reason"].startswith("shape 0: ")


@pytest.mark.usefixtures("warm_workers", "quick")
def test_an_attempt_can_be_timed_in_several_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    timed: list[ShapeResult] = []

    class Noted(Evaluation):
        def run(self) -> list[ShapeResult]:
            timed.extend(lines := super().run())
            return lines

    monkeypatch.setattr(tuning_module, "Evaluation", Noted)
    (tmp_path / "rms_norm.py").write_text(RIGHT, encoding="utf-8")
    what = ["bench", "tune", "rms_norm", "--solution", str(tmp_path), "--shapes", "0"]
    assert run([*what, "--device", "cpu", "--small", "--once", "--restarts", "2", "--json"]) == 0
    assert {len(line.samples_per_restart) for line in timed} == {2}
    assert any("2 processes;" in note for note in document(capsys.readouterr().out)["notes"])


@pytest.mark.parametrize(
    ("device", "asked", "processes"), [("cuda", None, 3), ("cpu", None, 1), ("cuda", 2, 2)]
)
def test_each_process_has_its_own_seconds(device: str, asked: int | None, processes: int) -> None:
    options = command._options("rms_norm", "0", asked, "atrex", device, False, 60.0, None, False)
    assert options.restarts == processes
    assert options.seconds_per_shape == pytest.approx(processes * command.SECONDS)


@pytest.mark.usefixtures("warm_workers", "quick")
def test_once_ends_with_2_when_nothing_could_be_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rms_norm.py").write_text("import a_missing_package\n", encoding="utf-8")
    what = ["bench", "tune", "rms_norm", "--solution", str(tmp_path), "--shapes", "0"]
    assert run([*what, "--device", "cpu", "--small", "--once", "--json"]) == 2
    said = capsys.readouterr()
    assert document(said.out)["attempts"][0]["status"] == "unsupported"
    assert "nothing could be checked: every shape is unsupported (No module named" in said.err


@pytest.mark.parametrize("once", [["--once"], []])
@pytest.mark.parametrize("file", [None, "l2_norm.py", "notes.toml"])
def test_a_folder_without_a_file_for_the_operator_is_refused(
    file: str | None, once: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if file is not None:
        (tmp_path / file).touch()
    what = ["bench", "tune", "rms_norm", "--solution", str(tmp_path), "--device", "cpu", *once]
    assert run(what) == 2
    assert "has no file for rms_norm: name it rms_norm.py" in capsys.readouterr().err


def test_without_a_solution_it_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["bench", "tune", "rms_norm", "--device", "cpu"]) == 2
    assert "solscope bench new rms_norm" in capsys.readouterr().err


def test_an_operator_that_does_not_exist_is_named_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for more in ([], ["--solution", "mine.py"]):
        assert run(["bench", "tune", "rms_nrm", *more, "--device", "cpu"]) == 2
        said = capsys.readouterr().err
        assert said.startswith("solscope: no operator 'rms_nrm'; did you mean 'rms_norm'?")


# --- What an attempt is compared with, on made lines


def line(shape: str, median_us: float, **fields: Any) -> ShapeResult:
    given = {"weight": 0.5, "calls": 100.0, "bound_us": 10.0, "suite": "made", **fields}
    return ShapeResult(
        operator="rms_norm",
        shape=shape,
        solution=given.pop("solution", "mine"),
        status=given.pop("status", "passed"),
        device="cpu",
        method="cpu-v1",
        median_us=median_us,
        samples=[median_us * (1 + at / 1000) for at in range(20)],
        samples_per_restart=[20],
        s=10.0 / median_us,
        **given,
    )


class Replayed:
    """Stands for runs of the evaluator, with lines that are given."""

    def __init__(self, runs: list[list[ShapeResult]]) -> None:
        self.runs: Iterator[list[ShapeResult]] = iter(runs)
        self.solutions: list[list[str]] = []

    def __call__(self, options: Options, *_: Any) -> Replayed:
        self.solutions.append([solution.name for solution in options.solutions])
        return self

    def run(self) -> list[ShapeResult]:
        return next(self.runs)


def attempts(
    monkeypatch: pytest.MonkeyPatch,
    file: Path,
    runs: list[list[ShapeResult]],
    known: list[ShapeResult],
) -> tuple[list[Tuning], list[list[str]]]:
    file.write_text(RIGHT, encoding="utf-8")
    replayed = Replayed(runs)
    monkeypatch.setattr(tuning_module, "Evaluation", replayed)
    options = Options(operators=["rms_norm"], solutions=[], device="cpu", suite="made")
    with Tuner(options, str(file), known) as tuner:
        return [tuner.attempt() for _ in runs], replayed.solutions


def test_an_attempt_is_compared_with_the_bound_the_best_and_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = [
        line("0", 20.0, solution="fla"),
        line("0", 25.0, solution="torch-eager"),
        line("1", 5.0, solution="fla", status="cheating"),
        msgspec.structs.replace(line("1", 1.0, solution="fla"), device="NVIDIA H200"),
    ]
    runs = [
        [line("0", 40.0), line("1", 40.0)],
        [line("0", 20.0), line("1", 40.1)],
        [line("0", 40.0), line("1", 20.0)],
        [line("0", 40.0, status="timeout", reason="no answer"), line("1", 20.0)],
        [line("0", 80.0), line("1", 20.1)],
    ]
    found, solutions = attempts(monkeypatch, tmp_path / "mine.py", runs, known)
    assert solutions == [["mine"]] * 5, "results are known: nothing else is timed"
    first = found[0].shapes
    assert [(one.best_us, one.best_by, one.of_best) for one in first] == [
        (20.0, "fla", 2.0),
        (None, None, None),
    ]
    assert [one.attempts[0].change for one in found] == [None, "faster", "mixed", None, "slower"]
    assert [one.attempts[0].against for one in found] == [None, 1, 2, None, 3]
    assert found[0].attempts[0].s == pytest.approx(0.25)
    assert found[0].attempts[0].mean_us == pytest.approx(40.0)
    assert (found[3].attempts[0].s, found[3].attempts[0].reason) == (None, "shape 0: no answer")
    assert found[3].failed
    assert [one.number for one in found[4].attempts] == [5, 4, 3, 2, 1]


def test_without_results_a_baseline_is_timed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [[line("0", 40.0), line("0", 30.0, solution="torch-eager")], [line("0", 39.9)]]
    found, solutions = attempts(monkeypatch, tmp_path / "mine.py", runs, [])
    assert solutions == [["mine", "torch-eager"], ["mine"]]
    assert [one.shapes[0].best_us for one in found] == [30.0, 30.0]
    assert found[1].attempts[0].change == "cannot tell"


def test_only_the_last_attempts_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [[line("0", 40.0)] for _ in range(MOST_ATTEMPTS + 2)]
    found, _ = attempts(monkeypatch, tmp_path / "mine.py", runs, [line("0", 1.0, solution="fla")])
    assert [one.number for one in found[-1].attempts] == list(range(MOST_ATTEMPTS + 2, 2, -1))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_table_fits_the_terminal(
    width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = [line(shape, 20.0, solution="solscope-triton") for shape in "01"]
    runs = [[line("0", 40.0), line("1", 40.0)], [line("0", 30.0), line("1", 40.0)]]
    found, _ = attempts(monkeypatch, tmp_path / "mine.py", runs, known)
    text = render_text("bench_tune", found[-1], Screen(width), {})
    assert text is not None
    rows = text.splitlines()
    table = [row for row in rows if row.startswith(("shape", "0 ", "1 ", "attempt"))]
    assert max(map(len, table)) <= width
    assert any("passed, faster than 1" in row for row in rows)
    assert any("1.50" in row and "0.75" in row for row in rows)


def test_means_over_several_shapes_say_how_they_are_weighted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "mean µs: over these shapes, weighted by their calls"
    failed = line("1", 80.0, status="timeout", reason="no answer")
    for lines, shown in (
        ([line("0", 40.0, calls=3.0), line("1", 80.0, calls=1.0)], True),
        ([line("0", 40.0)], False),
        ([line("0", 40.0), failed], False),
    ):
        found, _ = attempts(monkeypatch, tmp_path / "mine.py", [lines], lines)
        text = render_text("bench_tune", found[0], Screen(100), {})
        assert text is not None
        assert (said in text) == shown
        assert ("50.00" in text) == shown, "(3 x 40 + 80) / 4"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (line("0", 1.0, solution="fla"), None),
        (
            msgspec.structs.replace(line("0", 1.0), device="NVIDIA H200"),
            "none is of device cpu (available: NVIDIA H200)",
        ),
        (
            msgspec.structs.replace(line("0", 1.0), operator="gemm"),
            "none is of operator rms_norm (available: gemm)",
        ),
        (line("0", 1.0, suite="atrex"), "none is of suite made (available: atrex)"),
        (line("0", 1.0, scale=0.5), "none is of scale 1.0 (available: 0.5)"),
    ],
)
def test_results_that_cannot_be_compared_are_named(
    given: ShapeResult, said: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [[line("0", 40.0), line("0", 30.0, solution="torch-eager")]]
    (found,), solutions = attempts(monkeypatch, tmp_path / "mine.py", runs, [given])
    unused = [note for note in found.notes if "not used" in note]
    assert unused == ([] if said is None else [f"the results given are not used: {said}"])
    assert ("torch-eager" in solutions[0]) == bool(unused)


# --- Files that are saved while an attempt runs


@pytest.mark.usefixtures("warm_workers", "quick")
def test_saving_ends_an_attempt_that_hangs_and_begins_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.py"
    edited(file, [HANGING, RIGHT], monkeypatch)
    save_when_running(file, RIGHT, monkeypatch)
    what = ["bench", "tune", "rms_norm", "--solution", str(file), "--shapes", "0"]
    assert run([*what, "--device", "cpu", "--small", "--timeout", "10", "--json"]) == 0
    found = capsys.readouterr()
    (shown,) = documents(found.out)
    assert [(one["number"], one["status"]) for one in shown["attempts"]] == [(2, "passed")]
    assert f"s: {file} was saved again" in found.err


def save_when_running(file: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Save a file as soon as something is said about the shape that is checked."""

    @contextmanager
    def running_line(_: str) -> Iterator[Callable[[str], None]]:
        def say(said: str) -> None:
            if "shape 0" in said:
                file.write_text(text, encoding="utf-8")

        yield say

    monkeypatch.setattr(command, "running_line", running_line)
    monkeypatch.setattr(tuning_module, "POLL_S", 0.02)


class Stopping:
    """Stands for a run that waits for its workers until these are killed."""

    def __init__(self, end: Callable[[], list[ShapeResult]]) -> None:
        self.end = end

    def __call__(self, _: Options, __: Any, spawner: Any) -> Stopping:
        self.spawner = spawner
        return self

    def run(self) -> list[ShapeResult]:
        for _ in range(10_000):
            if self.spawner.stopped:
                return self.end()
            time.sleep(0.001)
        raise AssertionError("nobody ended the workers")


def _raise(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize(
    "end",
    [
        lambda: [line("0", 40.0, status="crashed", reason="SIGKILL")],
        lambda: _raise(Stopped()),
        lambda: _raise(SolscopeError("a worker process did not start")),
    ],
)
def test_whatever_comes_of_killed_workers_is_no_attempt(
    end: Callable[[], list[ShapeResult]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(RIGHT, encoding="utf-8")
    monkeypatch.setattr(tuning_module, "POLL_S", 0.001)
    options = Options(operators=["rms_norm"], solutions=[], device="cpu", suite="made")
    with Tuner(options, str(file), []) as tuner:
        monkeypatch.setattr(tuning_module, "Evaluation", Stopping(end))
        with pytest.raises(Outdated):
            tuner.attempt(outdated=lambda: True)
        spawner = tuner._spawner
        assert spawner is not None
        assert not spawner.stopped, "what starts workers stays, and may start others"
        monkeypatch.setattr(tuning_module, "Evaluation", Replayed([[line("0", 40.0)]]))
        found = tuner.attempt()
        assert tuner._spawner is spawner
    assert [one.number for one in found.attempts] == [2], "workers can be started again"


def test_ctrl_c_ends_the_loop_even_when_files_were_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(RIGHT, encoding="utf-8")
    monkeypatch.setattr(tuning_module, "POLL_S", 0.001)
    monkeypatch.setattr(tuning_module, "Evaluation", Stopping(lambda: _raise(KeyboardInterrupt())))
    options = Options(operators=["rms_norm"], solutions=[], device="cpu", suite="made")
    with Tuner(options, str(file), []) as tuner, pytest.raises(KeyboardInterrupt):
        tuner.attempt(outdated=lambda: True)


# --- Waiting for a change


def test_files_that_are_being_written_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "POLL_S", 0.0)
    looks = iter(["a", None, "half", "b", "b"])
    tuner: Any = type("Tuner", (), {"fingerprint": lambda _: next(looks)})()
    assert command._changed(tuner, "a") == "b"
    assert list(looks) == []


def test_an_error_of_the_evaluator_does_not_end_the_loop(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = iter(["a", "b"])

    class Busy:
        place = "mine.py"

        def fingerprint(self) -> str:
            try:
                return next(looks)
            except StopIteration:
                raise KeyboardInterrupt from None

        number = 0

        def attempt(self, *_: Any) -> Tuning:
            raise InputError("the GPU is busy")

    monkeypatch.setattr(command, "POLL_S", 0.0)
    monkeypatch.setattr(command, "_changed", lambda tuner, _: tuner.fingerprint())
    busy, output = Busy(), type("Output", (), {"as_json": True})()
    assert command._watch(busy, output) == 1  # type: ignore[arg-type]
    said = capsys.readouterr().err.split("\n")
    waiting = "solscope: waiting for a change of mine.py; Ctrl-C ends"
    assert [line for line in said if line] == ["solscope: the GPU is busy", waiting] * 2
