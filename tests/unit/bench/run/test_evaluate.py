"""A whole run on the CPU: lines, resuming, exit codes, templates."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

pytest.importorskip("torch")

import solscope.bench
from solscope.bench.base import EVALUATOR, ShapeResult
from solscope.bench.pool.device_memory import MemoryBudget
from solscope.bench.results.files import append_result, read_results
from solscope.cli import run
from tests.evil import SAMPLES
from tests.json_output import document

pytestmark = pytest.mark.usefixtures("warm_workers")
SOLUTIONS = Path(solscope.bench.__file__).parent / "solutions"
FAST = ["--device", "cpu", "--small", "--extra", "2", "--rounds", "1"]
TIMED = [*FAST, "--restarts", "2", "--seconds-per-shape", "0.05"]
CONTRACT = {
    *("operator", "shape", "solution", "status", "device", "method", "median_us", "p20_us"),
    *("p80_us", "samples", "bound_us", "limiter", "s", "max_error"),
}


def test_a_run_writes_a_line_per_shape_and_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "r.jsonl"
    arguments = ["bench", "run", "--op", "fused_add_rms_norm", "--solution", "torch-eager"]
    arguments += ["--shapes", "0,1", "--out", str(out), *TIMED]
    assert run(arguments) == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(line["shape"], line["status"]) for line in lines] == [("0", "passed"), ("1", "passed")]
    for line in lines:
        assert line.keys() >= CONTRACT
        assert (line["device"], line["method"], line["s"]) == ("cpu", "cpu-v1", None)
        assert line["p20_us"] <= line["median_us"] <= line["p80_us"]
        assert sum(line["samples_per_restart"]) == len(line["samples"]) > 0
        assert len(line["samples_per_restart"]) == 2
        assert line["checked_calls"] >= 2 * 2 * 3
        assert len(line["solution_hash"]) == 16
        assert line["run"]["versions"]["torch"]
    capsys.readouterr()
    assert run([*arguments, "--resume"]) == 0
    assert "nothing to run" in capsys.readouterr().out
    assert len(out.read_text().splitlines()) == 2


def test_what_is_near_the_fastest_or_out_of_date_is_timed_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "r.jsonl"
    arguments = ["bench", "run", "--op", "l2_norm", "--solution", "torch-eager", "--shapes", "0"]
    arguments += ["--out", str(out), *TIMED, "--restarts"]
    assert run([*arguments, "1"]) == 0
    assert run([*arguments, "2", "--near", "5", "--resume"]) == 0
    assert "no time" not in capsys.readouterr().err
    another = ["--solution", "torch-compile"]
    assert run([*arguments, "2", "--near", "5", "--resume", *another]) == 0
    said = f"1 line of torch-compile has no time in {out}: run it without --near"
    assert said in capsys.readouterr().err
    assert [len(line.samples_per_restart) for line in read_results([out])] == [1, 2]
    again = read_results([out])[1]
    run_of_then = {**again.run, "id": "older"}
    old = replace(again, evaluator=1, digest="", run_digest="", run=run_of_then)
    append_result(out, old)
    assert run([*arguments, "1", "--renew", str(EVALUATOR), "--resume"]) == 0
    assert [line.evaluator for line in read_results([out])[2:]] == [1, EVALUATOR]
    assert run(["bench", "verify", str(out)]) == 0


def test_a_template_passes_as_it_is_and_fails_when_broken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    assert run(["bench", "new", "silu_and_mul", "-o", str(folder)]) == 0
    assert "--op silu_and_mul (without a GPU: --device cpu --small)" in capsys.readouterr().err
    triton = ["bench", "new", "silu_and_mul", "-o", str(tmp_path / "t"), "--language", "triton"]
    assert run(triton) == 0
    assert capsys.readouterr().err.endswith("--op silu_and_mul\n")
    assert sorted(path.name for path in folder.iterdir()) == ["silu_and_mul.py", "solution.toml"]
    assert run(["bench", "new", "silu_and_mul", "-o", str(folder)]) == 2
    assert "--force" in capsys.readouterr().err
    out = tmp_path / "r.jsonl"
    check = ["bench", "check", str(folder), "--op", "silu_and_mul", "--shapes", "0", *FAST]
    check += ["--out", str(out)]
    assert run(check) == 0
    file = folder / "silu_and_mul.py"
    file.write_text(
        file.read_text() + "\n\n_right = run\n\n\ndef run(x):\n    return 2 * _right(x)\n"
    )
    assert run([*check, "--json"]) == 1
    shown = capsys.readouterr().out
    results = document(shown[shown.index('{\n  "schema"') :])["results"]
    assert [result["status"] for result in results] == ["wrong_numbers"]
    right, wrong = read_results([out])
    assert right.solution_hash != wrong.solution_hash
    assert right.seeds
    assert not set(right.seeds) & set(wrong.seeds)


def checked(
    folder: Path, text: str, code: int, capsys: pytest.CaptureFixture[str]
) -> dict[str, Any]:
    """The line of a kernel for `rms_norm` that is checked, which must end with this code."""
    (folder / "rms_norm.py").write_text(text)
    command = ["bench", "check", str(folder), "--op", "rms_norm", "--device", "cpu", "--small"]
    assert run([*command, "--shapes", "top1", "--json"]) == code
    shown = capsys.readouterr().out
    (line,) = document(shown[shown.index('{\n  "schema"') :])["results"]
    found: dict[str, Any] = line
    return found


OUT_OF_MEMORY = """
import torch
def run(x, weight, eps):
    if eps != 1e-6:
        raise MemoryError("out of memory")
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, 1e-6)
"""


def test_extra_cases_without_memory_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = checked(tmp_path, OUT_OF_MEMORY, 0, capsys)
    assert "other parameters and lengths" in line["declined"]


CHOOSES_ONCE = """
import pathlib, torch
def run(x, weight, eps):
    with pathlib.Path(FILE).open("a") as file:
        file.write(f"{len(x)} ")
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)
"""


def test_what_chooses_a_kernel_once_chooses_on_the_heaviest_shape(tmp_path: Path) -> None:
    """Also where an earlier run has it, so that a resumed run times the same kernels."""
    seen, out = tmp_path / "seen.txt", tmp_path / "r.jsonl"
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "rms_norm.py").write_text(CHOOSES_ONCE.replace("FILE", repr(str(seen))))
    command = ["bench", "run", "--solution", str(folder), "--op", "rms_norm", "--device", "cpu"]
    command += ["--extra", "0", "--rounds", "1", "--restarts", "1", "--seconds-per-shape", "0.01"]
    command += ["--resume", "--out", str(out), "--scale", "0.01", "--shapes"]
    assert run([*command, "52"]) == 0
    (heaviest,) = read_results([out])
    assert run([*command, "52,45"]) == 0
    _, light = read_results([out])
    calls = [int(rows) for rows in seen.read_text().split()]
    checked = calls.index(light.axes["tokens"])
    timed = calls.index(heaviest.axes["tokens"], checked)
    assert calls[timed - 1] == calls[checked] == light.axes["tokens"]
    assert calls[-1] == light.axes["tokens"]


ONE_BUFFER = """
import torch
buffers = {}
def run(x, weight, eps):
    out = buffers.setdefault(x.shape, torch.empty_like(x))
    out.copy_(torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps))
    return out
"""


def test_one_buffer_for_all_calls_is_called_that(tmp_path: Path) -> None:
    (tmp_path / "rms_norm.py").write_text(ONE_BUFFER)
    out = tmp_path / "r.jsonl"
    command = ["bench", "run", "--solution", str(tmp_path), "--op", "rms_norm", "--shapes", "top1"]
    assert run([*command, *TIMED, "--restarts", "1", "--extra", "0", "--out", str(out)]) == 1
    (line,) = read_results([out])
    assert line.status == "wrong_numbers"
    assert "as one buffer does: return new tensors" in (line.reason or "")


OUT_OF_MEMORY_AT_FIRST = """
import torch
left = LEFT
def run(x, weight, eps):
    global left
    left -= 1
    if left >= 0:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)
"""


def timed_with_shared_memory(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The line of a kernel for `rms_norm` where checks share memory, as they do on a GPU."""
    monkeypatch.setattr("solscope.bench.run.evaluate.MemoryBudget", lambda _: MemoryBudget(1e12))
    (folder / "rms_norm.py").write_text(text)
    out = folder / "r.jsonl"
    command = ["bench", "run", "--solution", str(folder), "--op", "rms_norm", "--shapes", "top1"]
    command += [*TIMED, "--restarts", "1", "--extra", "0", "--out", str(out)]
    code = run(command)
    (line,) = read_results([out])
    assert code == (line.status != "passed")
    return line


SAYS_NO_MEMORY_WHEN_TIMED = """
import torch
calls = 0
def run(x, weight, eps):
    global calls
    calls += 1
    if calls == 8:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)
"""
ALSO_CHANGES_ITS_INPUT = OUT_OF_MEMORY_AT_FIRST.replace("LEFT", "1").replace(
    "        raise", "        x.zero_()\n        raise"
)


def test_what_runs_out_of_memory_while_it_is_timed_is_not_timed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a solution that finds itself slow could ask for another time."""
    line = timed_with_shared_memory(tmp_path, SAYS_NO_MEMORY_WHEN_TIMED, monkeypatch)
    assert (line.status, line.median_us) == ("oom", None)


def test_what_else_was_found_is_not_forgotten_with_the_first_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = timed_with_shared_memory(tmp_path, ALSO_CHANGES_ITS_INPUT, monkeypatch)
    assert line.status == "oom"
    assert "changed its input x" in line.reason


@pytest.mark.parametrize(("times", "status", "rounds"), [(1, "passed", 3), (2, "oom", 1)])
def test_what_ran_out_of_a_memory_that_is_shared_is_tried_once_more(
    times: int, status: str, rounds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a check, and in the timing after it, which has a process of its own."""
    text = OUT_OF_MEMORY_AT_FIRST.replace("LEFT", str(times))
    line = timed_with_shared_memory(tmp_path, text, monkeypatch)
    assert (line.status, line.rounds) == (status, rounds)
    assert (line.median_us is not None) == (status == "passed")


WRONG_EPSILON = """
import torch
def run(x, weight, eps):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, 1e-6)
"""


def test_a_failed_extra_case_says_its_sizes_and_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which of two: where the epsilon drawn for the first hardly differs, the extreme one fails."""
    line = checked(tmp_path, WRONG_EPSILON, 1, capsys)
    case, *_ = line["reason"].partition(": out: ")
    assert re.fullmatch(
        r"with (other parameters and lengths|extreme inputs) "
        r"\(tokens = \d+, hidden = \d+, eps = (0\.\d+|\de-\d+)\)",
        case,
    )
    assert " instead of " in line["reason"]
    assert "\n" not in line["reason"]


@pytest.mark.parametrize(
    ("sample", "named"), [("cached_by_pointer", True), ("skipping_rows", False)]
)
def test_outputs_of_the_call_before_are_called_that(
    tmp_path: Path, sample: str, named: bool
) -> None:
    out = tmp_path / "r.jsonl"
    arguments = ["bench", "check", str(SAMPLES / f"{sample}.py"), "--op", "rms_norm"]
    arguments += ["--shapes", "0", "--device", "cpu", "--small", "--extra", "0", "--out", str(out)]
    assert run(arguments) == 1
    (line,) = read_results([out])
    assert line.status == "wrong_numbers"
    assert ("for the inputs before, at the same addresses" in (line.reason or "")) is named


@pytest.mark.parametrize("language", ["triton", "cuda"])
def test_templates_in_other_languages_have_a_kernel_of_their_own(
    tmp_path: Path, language: str
) -> None:
    assert run(["bench", "new", "rms_norm", "-o", str(tmp_path), "--language", language]) == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert {"rms_norm.py", "_kernel.py", "solution.toml"} <= names
    for path in tmp_path.glob("*.py"):
        compile(path.read_text(), path.name, "exec")
    assert f'language = "{language}"' in (tmp_path / "solution.toml").read_text()


CACHED_REASON = """
from _honest import run as honest
KNOWN = {}
def run(q, k, v, h, g, scale, chunk_size):
    key = tuple(q.reshape(-1)[:4].tolist())
    if key not in KNOWN:
        KNOWN[key] = honest(q, k, v, h, g, scale, chunk_size)
    return KNOWN[key].clone()
"""
SCRIBBLES = """
from _honest import run as honest
CALLS = []
def run(q, k, v, h, g, scale, chunk_size):
    out = honest(q, k, v, h, g, scale, chunk_size)
    CALLS.append(1)
    if len(CALLS) == 2:
        q.zero_()
    return out
"""


def test_one_sequence_has_twins_and_what_one_candidate_spoils_the_next_does_not_see(
    tmp_path: Path,
) -> None:
    operator = "chunk_delta_rule_output"
    honest = (SOLUTIONS / "torch_eager" / f"{operator}.py").read_text(encoding="utf-8")
    arguments = ["bench", "run", "--op", operator, "--shapes", "0"]
    for name, text in (("remembers", CACHED_REASON), ("scribbles", SCRIBBLES)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "_honest.py").write_text(honest, encoding="utf-8")
        (folder / f"{operator}.py").write_text(text, encoding="utf-8")
        arguments += ["--solution", str(folder)]
    out = tmp_path / "r.jsonl"
    arguments += ["--solution", "torch-eager", "--out", str(out), *TIMED]
    assert run([*arguments, "--extra", "0"]) == 1
    found = {one.solution: one for one in read_results([out])}
    assert (found["remembers"].status, found["remembers"].rounds) in (
        ("wrong_numbers", 2),
        ("wrong_numbers", 3),
    )
    assert (found["scribbles"].status, found["scribbles"].rounds) == ("mutated_input", 2)
    assert (found["torch-eager"].status, found["torch-eager"].rounds) == ("passed", 3)


def test_a_crash_says_where_in_the_solution(tmp_path: Path) -> None:
    file, out = tmp_path / "mine.py", tmp_path / "r.jsonl"
    file.write_text("def run(x, weight, eps):\n    return x.reshape(7, -1, 0)\n", encoding="utf-8")
    what = ["bench", "check", str(file), "--op", "rms_norm", "--shapes", "0", "--out", str(out)]
    assert run([*what, *FAST]) == 1
    (found,) = read_results([out])
    assert found.status == "crashed"
    assert "RuntimeError at mine.py, line 2: " in (found.reason or "")
    file.write_text("walk = 1\n", encoding="utf-8")
    assert run([*what, *FAST]) == 1
    assert read_results([out])[-1].reason == "mine.py has no function run"


SEARCHED = """
import gc
from torch.nn.functional import rms_norm

if any(one is rms_norm for one in gc.get_objects()):
    raise RuntimeError("torch is searched")

def run(x, weight, eps):
    return rms_norm(x, weight.shape, weight, eps)
"""


def test_workers_do_not_search_torch_for_garbage(tmp_path: Path) -> None:
    file, out = tmp_path / "mine.py", tmp_path / "r.jsonl"
    file.write_text(SEARCHED, encoding="utf-8")
    what = ["bench", "check", str(file), "--op", "rms_norm", "--shapes", "0", "--out", str(out)]
    run([*what, "--device", "cpu", "--small", "--extra", "0", "--rounds", "1"])
    assert [(one.status, one.reason) for one in read_results([out])] == [("passed", None)]


WHERE_COMPILED = """
import os
import torch
from torch.nn.functional import rms_norm

@torch.compiler.disable
def run(x, weight, eps):
    if os.environ.get("TORCHINDUCTOR_CACHE_DIR", "").endswith("compiled"):
        raise RuntimeError("timed with a cache of its own")
    return rms_norm(x.float(), weight.shape, weight.float(), eps).to(x.dtype)
"""


@pytest.mark.long
def test_kernels_that_were_compiled_for_checks_are_not_timed(tmp_path: Path) -> None:
    folder, out = tmp_path / "mine", tmp_path / "r.jsonl"
    folder.mkdir()
    (folder / "solution.toml").write_text("compile = true\n", encoding="utf-8")
    (folder / "rms_norm.py").write_text(WHERE_COMPILED, encoding="utf-8")
    what = ["bench", "run", "--solution", str(folder), "--op", "rms_norm", "--shapes", "0"]
    assert run([*what, "--out", str(out), *TIMED, "--restarts", "1"]) == 1
    (found,) = read_results([out])  # the checks passed: they have the usual cache
    assert "timed with a cache of its own" in (found.reason or "")


ROUTES = """
from _honest import run as honest
def setup(**inputs):
    return honest(**inputs)
def run(plan, **inputs):
    return tuple(part.clone() for part in plan)
"""


@pytest.mark.parametrize(
    "operator",
    ["moe_align_block_size", pytest.param("moe_count_and_sort", marks=pytest.mark.long)],
)
def test_what_a_layer_computes_is_no_plan_of_a_step(operator: str, tmp_path: Path) -> None:
    honest = (SOLUTIONS / "torch_eager" / f"{operator}.py").read_text(encoding="utf-8")
    (tmp_path / "_honest.py").write_text(honest, encoding="utf-8")
    (tmp_path / f"{operator}.py").write_text(ROUTES, encoding="utf-8")
    out = tmp_path / "r.jsonl"
    what = ["bench", "check", str(tmp_path), "--op", operator, "--shapes", "0", "--out", str(out)]
    run([*what, *FAST])
    (found,) = read_results([out])
    assert found.status in ("unsupported", "wrong_shape")
    assert "meta" in (found.reason or "")


@pytest.mark.long
def test_a_small_shape_has_a_bound_that_nobody_published(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    what = ["--op", "fused_moe", "--shapes", "0", "--solution", "torch-eager", "--hardware", "H200"]
    assert run(["bench", "run", *what, "--out", str(out), *TIMED]) == 0
    (line,) = read_results([out])
    assert line.bound_us is not None
    assert line.published_us is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--op", "rms_norm", "--shapes", "999"], "no shape '999'"),
        (["--op", "nothing"], "no operator 'nothing'"),
        (["--op", "softmax"], "softmax has no reference"),
        (["--op", "rms_norm", "--suite", "none"], "no suite"),
        (["--op", "rms_norm", "--methods", "graph"], "graph cannot come first"),
        (["--near", "5", "--shapes", "999"], "--near needs --out FILE"),
        (["--near", "nan", "--out", "r.jsonl", "--shapes", "999"], "--near nan: expected a finite"),
        (["--near", "inf", "--out", "r.jsonl", "--shapes", "999"], "--near inf: expected a finite"),
        (["--renew", "2", "--shapes", "999"], "--renew needs --resume"),
        (
            ["--renew", "99", "--resume", "--out", "r.jsonl", "--shapes", "999"],
            "the newest evaluator is ",
        ),
    ],
)
def test_bad_usage_is_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", "run", "--solution", "torch-eager", "--device", "cpu", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_line_reads_back_as_it_was_written() -> None:
    import msgspec

    result = ShapeResult("rms_norm", "0", "x", "passed", "cpu", "cpu-v1", samples=[1.5])
    assert msgspec.json.decode(msgspec.json.encode(result), type=ShapeResult) == result
