"""Solutions that attack the evaluator fail alone, and nothing of a run outlives it."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("torch")

from solscope.bench.pool import arena as memory
from solscope.bench.pool.arena import Arena
from solscope.bench.pool.process import MAX_REASON, WorkerFailed, clean_text, read_answer
from solscope.bench.results.files import read_results
from solscope.bench.worker.messages import (
    Asked,
    BindInputs,
    DescribeOutputs,
    InputSpec,
    ReplayGraph,
    Request,
    TensorInput,
    TimeCalls,
    ValueInput,
)
from solscope.cli import run

ANSWER: dict[str, Any] = {"number": "1", "refused": [], "replaced": [], "result": {"outputs": []}}
FAST = ["--op", "rms_norm", "--device", "cpu", "--small", "--shapes", "top1"]
FAST += ["--extra", "0", "--rounds", "1"]
RIGHT = """
import os, sys
from pathlib import Path
import torch

def right(x, weight, eps):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)

def evaluator():
    frame = sys._getframe()
    while "asked" not in frame.f_locals:
        frame = frame.f_back
    return frame.f_locals

def arenas():
    maps = Path("/proc/self/maps").read_text().splitlines()
    return [line.split()[-1] for line in maps if "solscope-arena" in line]
"""
FORGED = """
def run(**inputs):
    there = evaluator()
    there["send"]({{"number": there["asked"].number, "refused": [], "replaced": [], {more}}})
    os._exit(0)
"""
SOLUTIONS = {
    "honest": ("passed", "def run(**inputs): return right(**inputs)"),
    "deep_reply": (
        "cheating",
        "def run(**inputs):\n"
        " for number in range(3, 64):\n"
        "  try: os.write(number, b'[' * 60000 + b'\\n')\n"
        "  except OSError: pass\n"
        " return right(**inputs)",
    ),
    "no_outputs": ("cheating", FORGED.format(more='"result": {"outputs": []}')),
    "failed_as_passed": (
        "cheating",
        FORGED.format(more='"failure": {"status": "passed", "reason": ""}'),
    ),
    "odd_output": (
        "cheating",
        FORGED.format(more='"result": {"outputs": [[{"name": "out", "shape": ["a"]}]]}'),
    ),
    "surrogate": (
        "crashed",
        FORGED.format(more='"failure": {"status": "crashed", "reason": "\\ud800 forged"}'),
    ),
    "surrogate_dtype": (
        "wrong_dtype",
        FORGED.format(
            more='"result": {"outputs": [[{"name": "out", "shape": list(inputs["x"].shape),'
            ' "dtype": "\\ud800", "alias": None}]]}'
        ),
    ),
    "surrogate_refused": (
        "cheating",
        FORGED.format(more='"result": {"outputs": []}').replace(
            '"refused": []', '"refused": ["\\ud800"]'
        ),
    ),
    "long": (
        "crashed",
        FORGED.format(more='"failure": {"status": "crashed", "reason": "A" * 15_000_000}'),
    ),
    "many_refusals": (
        "cheating",
        "def run(**inputs):\n"
        " for _ in range(2000):\n"
        "  try: os.kill(os.getppid(), 0)\n"
        "  except OSError: pass\n"
        " return right(**inputs)",
    ),
    "odd_text": ("crashed", "def run(**inputs): raise ValueError('\\udc80 \\x1b[31m')"),
    "no_text": ("oom", "def run(**inputs): raise MemoryError"),
    "interrupt": ("crashed", "def run(**inputs): raise KeyboardInterrupt"),
    "kills": ("cheating", "def run(**inputs): os.kill(os.getppid(), 9)"),
    "removes": (
        "cheating",
        "def run(**inputs):\n"
        " for path in arenas():\n"
        "  try: os.remove(path)\n"
        "  except OSError: pass\n"
        " return right(**inputs)",
    ),
    "truncates": (
        "cheating",
        "def run(**inputs):\n"
        " for number in range(3, 64):\n"
        "  try: os.ftruncate(number, 0)\n"
        "  except OSError: pass\n"
        " return right(**inputs)",
    ),
    "removes_folder": (
        "cheating",
        "import shutil\n"
        "shutil.rmtree(os.path.dirname(os.path.dirname(os.path.dirname(__file__))))\n"
        "def run(**inputs): return right(**inputs)",
    ),
    "computes_when_copied": (
        "cheating",
        "def run(**inputs):\n"
        " out = torch.empty_like(inputs['x'])\n"
        " out.clone = lambda: right(**inputs)\n"
        " out.contiguous = lambda: right(**inputs)\n"
        " out.index_select = lambda *rows: right(**inputs).index_select(*rows)\n"
        " return out",
    ),
    "input_with_a_function": (
        "cheating",
        "def run(**inputs):\n inputs['x'].copy_ = print\n return right(**inputs)",
    ),
    "input_of_another_class": (
        "cheating",
        "class Other(torch.Tensor): pass\n"
        "def run(**inputs):\n"
        " out = right(**inputs)\n"
        " inputs['x'].__class__ = Other\n"
        " return out",
    ),
    "other_bases": (
        "cheating",
        "class Before:\n"
        " def clone(self): return torch._C.TensorBase.clone(self)\n"
        "torch.Tensor.__bases__ = (Before, *torch.Tensor.__bases__)\n"
        "def run(**inputs): return right(**inputs)",
    ),
    "other_lookup": (
        "cheating",
        "find = torch.Tensor.__getattribute__\n"
        "torch.Tensor.__getattribute__ = lambda tensor, name: find(tensor, name)\n"
        "def run(**inputs): return right(**inputs)",
    ),
    "other_module": (
        "cheating",
        "class Module(type(torch)): pass\n"
        "torch.__class__ = Module\n"
        "def run(**inputs): return right(**inputs)",
    ),
    "other_list_of_kernels": (
        "cheating",
        "torch.library._impls = set()\ndef run(**inputs): return right(**inputs)",
    ),
    "no_cuda": ("cheating", "del torch.cuda\ndef run(**inputs): return right(**inputs)"),
    "plan_of_another_class": (
        "passed",
        "def setup(**inputs): return torch.nn.Parameter(torch.ones(1), requires_grad=False)\n"
        "def run(plan, **inputs): return right(**inputs)",
    ),
    "notes_on_tensors": (
        "passed",
        "def run(**inputs):\n"
        " out = right(**inputs)\n"
        " out.note = inputs['x'].note = 'seen'\n"
        " return out",
    ),
    "leaves_a_process": (
        "passed",
        "def run(**inputs):\n"
        " child = os.fork()\n"
        " if not child:\n"
        "  os.setsid()\n"
        "  os.execvp('sleep', ['sleep', '600'])\n"
        " with open(PLACE, 'a') as file: file.write(f'{child}\\n')\n"
        " return right(**inputs)",
    ),
}


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="processes are found in /proc")
@pytest.mark.usefixtures("warm_workers")
def test_each_fails_alone_and_leaves_nothing(tmp_path: Path) -> None:
    out, place = tmp_path / "r.jsonl", tmp_path / "pids"
    arguments = ["bench", "run", *FAST, "--restarts", "1", "--seconds-per-shape", "0.02"]
    for name, (_, text) in SOLUTIONS.items():
        file = tmp_path / f"{name}.py"
        file.write_text(f"{RIGHT}\nPLACE = {str(place)!r}\n{text}\n")
        arguments += ["--solution", str(file)]
    assert run([*arguments, "--out", str(out)]) == 1
    found = {line.solution: line for line in read_results([out])}
    wrong = {
        name: (found[name].status, found[name].reason)
        for name, (status, _) in SOLUTIONS.items()
        if found[name].status != status
    }
    assert not wrong
    assert found["no_text"].reason == "MemoryError"
    assert found["surrogate"].reason == "\\ud800 forged"
    assert "is \\ud800 instead of" in (found["surrogate_dtype"].reason or "")
    assert found["surrogate_refused"].reason == "\\ud800"
    assert found["long"].reason == "A" * MAX_REASON
    assert "sent a signal" in (found["many_refusals"].reason or "")
    started = [int(line) for line in place.read_text().split()]
    assert started
    assert not [pid for pid in started if is_running(pid)]


@pytest.mark.long
@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="shared memory elsewhere")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "terminated"])
def test_a_run_that_is_ended_leaves_no_worker_and_no_memory(
    tmp_path: Path, how: signal.Signals
) -> None:
    told = tmp_path / "told"
    solution = tmp_path / "sleeps.py"
    solution.write_text(
        f"import os, time\nfrom pathlib import Path\n"
        f"def run(**inputs):\n"
        f" maps = Path('/proc/self/maps').read_text()\n"
        f" lines = [l.split()[-1] for l in maps.splitlines() if 'solscope-arena' in l]\n"
        f" Path({str(told)!r} + '.new').write_text('\\n'.join([str(os.getpid()), *lines]))\n"
        f" os.rename({str(told)!r} + '.new', {str(told)!r})\n"
        f" time.sleep(600)\n"
    )
    command = [sys.executable, "-m", "solscope", "bench", "check", str(solution), *FAST]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ}
    )
    until(told.exists)
    pid, *arenas = told.read_text().split()
    assert arenas
    assert all(Path(path).exists() for path in arenas)
    process.send_signal(how)
    assert process.wait(300) == (130 if how == signal.SIGTERM else -how)
    until(lambda: not is_running(int(pid)))
    until(lambda: not any(Path(path).exists() for path in arenas))


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 300
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


FACTS = {"name": "out", "shape": [1, 2], "dtype": "bfloat16", "alias": None}
TIMES = {"outputs": [], "events_us": [1.0], "host_us": [1], "lag_us": []}


@pytest.mark.parametrize(
    ("request_", "changed"),
    [
        (DescribeOutputs([0]), {}),
        (DescribeOutputs([0]), {"result": {"outputs": [[FACTS]]}}),
        (DescribeOutputs([0]), {"result": None, "failure": {"status": "oom", "reason": ""}}),
        (TimeCalls([], False, 1.0, [], []), {"result": TIMES}),
        (ReplayGraph(1), {"result": {}}),
    ],
)
def test_a_reply_in_its_form_is_read(request_: Request[Any], changed: dict[str, Any]) -> None:
    answer, result = read_answer(request_, {**ANSWER, **changed})
    assert (answer.failure is None) == (result is not None)


@pytest.mark.parametrize(
    "changed",
    [
        {"refused": None},
        {"replaced": [1]},
        {"failure": {"status": "passed", "reason": ""}},
        {"failure": {"status": "hacked", "reason": ""}},
        {"failure": {"status": "oom", "reason": 5}},
        {"result": None},
        {"result": {**TIMES, "events_us": ["x"]}},
        {"result": {**TIMES, "events_us": [math.nan]}},
        {"result": {**TIMES, "host_us": [math.inf]}},
        {"result": {**TIMES, "lag_us": [-5]}},
        {"result": {**TIMES, "span_us": [math.nan]}},
        {"result": {**TIMES, "busy_us": [-math.inf]}},
        {"result": {**TIMES, "events_us": [10**400]}},
        {"result": {**TIMES, "activities": [-1]}},
        {"result": {**TIMES, "activities": [1 << 70]}},
        {"result": {**TIMES, "outputs": [[{**FACTS, "shape": [1] * 1001}]]}},
        {"refused": ["x"] * 1001, "result": TIMES},
        {"replaced": ["x"] * 1001, "result": TIMES},
        {"result": {**TIMES, "lag_us": None}},
        {"result": {**TIMES, "outputs": [[{**FACTS, "shape": [-1]}]]}},
        {"result": {**TIMES, "outputs": [[{**FACTS, "dtype": 7}]]}},
        {"result": {**TIMES, "outputs": [FACTS]}},
        {"result": {**TIMES, "outputs": 3}},
    ],
)
def test_a_reply_of_another_form_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        read_answer(TimeCalls([], False, 1.0, [], []), {**ANSWER, **changed})


@pytest.mark.parametrize("time_us", [math.nan, math.inf, -1.0])
def test_times_of_setup_are_bounded(time_us: float) -> None:
    with pytest.raises(msgspec.ValidationError):
        read_answer(BindInputs([]), {**ANSWER, "result": {"setup_us": [time_us]}})


def test_a_reason_can_be_written_however_it_was_forged() -> None:
    failed = WorkerFailed("crashed", "\ud800" * 15_000, dead=False)
    assert failed.reason == str(failed) == ("\\ud800" * MAX_REASON)[:MAX_REASON]
    assert clean_text(failed.reason) == failed.reason
    assert clean_text("größer \U0001f600") == "größer \U0001f600"


def test_every_request_crosses_the_pipe_as_it_is() -> None:
    """Infinities included, which JSON by the letter does not have."""
    spec: InputSpec = {"x": TensorInput(0, 4, "float32", [1], [1]), "least": ValueInput(-math.inf)}
    asked = Asked("1", BindInputs([spec]))
    line = json.dumps(msgspec.to_builtins(asked))
    assert msgspec.convert(json.loads(line), Asked) == asked


def test_memory_lies_where_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "FOLDERS", ("/nonexistent", str(tmp_path)))
    arena = Arena("cpu")
    assert Path(arena.handle().path or "").parent == tmp_path
    with pytest.raises(MemoryError, match="no room for"):
        arena.reserve(1 << 60)
    arena.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("warm_workers")
def test_a_single_value_in_a_padded_buffer_is_no_crash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """torch calls a tensor of one value contiguous, whatever its stride."""
    file = tmp_path / "padded.py"
    file.write_text(
        "import torch\n"
        "def run(x, fp8):\n"
        "    buffer = torch.empty(x.shape[0], 4)\n"
        "    largest = x.float().abs().amax(-1).clamp_min(1e-12)\n"
        "    buffer[:, 0] = largest / 448\n"
        "    codes = (x.float() / buffer[:, :1]).clamp(-448, 448)\n"
        "    return codes.to(torch.float8_e4m3fn), buffer[:, 0]\n",
        encoding="utf-8",
    )
    what = ["--op", "fp8_dynamic_per_token_quant", "--device", "cpu", "--small"]
    assert run(["bench", "check", str(file), *what, "--shapes", "top1"]) == 0, capsys.readouterr()
