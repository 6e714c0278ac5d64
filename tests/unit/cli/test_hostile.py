"""Small hostile inputs that once broke something: each ends in a result or in one clear line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import solscope
from solscope.cli import run
from solscope.names import demangle, short_name


def kernel(**more: Any) -> dict[str, Any]:
    args = {"device": 0, "stream": 7, "correlation": 1}
    return {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 10, "dur": 5, "args": args} | more


LAUNCH = {
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 5,
    "dur": 2, "args": {"correlation": 1, "External id": 1},
}  # fmt: skip


def op(name: str, dims: Any) -> dict[str, Any]:
    args = {"External id": 1, "Input Dims": dims}
    return {
        "ph": "X",
        "cat": "cpu_op",
        "name": name,
        "pid": 1,
        "tid": 1,
        "ts": 4,
        "dur": 9,
        "args": args,
    }


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "extra",
    [
        {"ph": "X", "cat": "overhead", "name": "x", "dur": 5},
        {"ph": "X", "cat": "user_annotation", "pid": 1, "tid": 1, "ts": 1, "dur": 50},
        op("aten::mm", 5),
        op("aten::mm", True),
        op("aten::_flash_attention_forward", nested(900)),
        {
            "ph": "X", "cat": "user_annotation", "pid": 1, "tid": 1, "ts": 1, "dur": 50,
            "name": f"execute_context_{'9' * 5000}(1)_generation_0(0)",
        },
        {
            "ph": "X", "cat": "user_annotation", "pid": 1, "tid": 1, "ts": 1, "dur": 50,
            "name": f"step[DECODE bs={'9' * 30}]",
        },
        {"ph": "X", "cat": "cpu_op", "name": "x", "pid": 1, "tid": 1, "ts": int("1" + "0" * 400)},
        {"ph": "X", "cat": "cpu_op", "name": "x", "pid": 1, "tid": 1, "ts": "1e99999999999999999"},
        {"ph": "X", "cat": "kernel", "name": "gemm", "ts": 90, "dur": 5, "args": ["no", "object"]},
        {"ph": "X", "cat": "c" * 100_000, "name": "x", "ts": 1, "dur": 1},
    ],
    ids=[
        "overhead without time", "nameless annotation", "number for shapes", "flag for shapes",
        "deep shapes", "endless context", "endless batch", "endless time", "endless exponent",
        "list for args", "endless category",
    ],
)  # fmt: skip
def test_odd_events_do_not_break_the_views(
    core: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], extra: dict[str, Any]
) -> None:
    path = tmp_path / "odd.json"
    path.write_text(json.dumps({"traceEvents": [LAUNCH, kernel(), extra]}))
    assert run(["show", str(path)]) == 0
    out, err = capsys.readouterr()
    assert "gemm" in out
    assert err == ""
    assert max(map(len, out.splitlines())) < 2000


def test_a_device_with_absurd_memory_has_no_memory(core: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    device = {"id": 0, "name": "", "totalGlobalMem": 10**400}
    path.write_text(json.dumps({"deviceProperties": [device], "traceEvents": [kernel()]}))
    assert solscope.open(path).metadata.devices[0].memory_bytes is None


def test_a_world_of_billions_of_ranks_lists_none_as_missing(tmp_path: Path) -> None:
    for rank in (0, 1):
        info = {"rank": rank, "world_size": 2**31 - 1}
        trace = {"distributedInfo": info, "traceEvents": [kernel()]}
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(trace))
    paths = solscope.find_profiles([tmp_path])
    made = [solscope.summarize(solscope.attribute(solscope.open(path))) for path in paths]
    assert solscope.runs(made)[0].missing == []


@pytest.mark.parametrize(
    "name", [" " * 150_000 + "]", "[clone " * 40_000 + "x]y]", "CUB_" * 4000, "_ZN" + "9" * 9000]
)
def test_endless_names_are_read_in_no_time(name: str) -> None:
    assert short_name(name)


def test_a_name_that_expands_without_end_is_left_alone() -> None:
    # Each S_ pair doubles what came before.
    bomb = "_Z1fI" + "1AI" + "iiE" + "".join(f"1AI{a}{a}E" for a in ["S_"] * 30) + "EvT_"
    assert len(demangle(bomb)) < 100_000


def test_a_pipe_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert run(["show", str(pipe)]) == 2
    assert "not a regular file" in capsys.readouterr().err


def test_a_file_name_that_is_no_text_prints_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"bad\xff.json")  # noqa: PTH118 - bytes on purpose
    Path(os.fsdecode(path)).write_text(json.dumps({"traceEvents": [kernel()]}))
    assert run(["show", "--json", os.fsdecode(path)]) == 0
    assert json.loads(capsys.readouterr().out)["profiles"][0]["kernels"] == 1


@pytest.mark.parametrize(
    "rule", ["pattern = 'a{99999999999999}'", "pattern = '" + "(" * 5000 + "x" + ")" * 5000 + "'"]
)
def test_rules_that_cannot_be_compiled_give_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rule: str
) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(f'[[rule]]\nid = "x.y"\ncategory = "gemm"\n{rule}\n')
    assert run(["kernels", "--explain", "x", "--rules", str(path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
