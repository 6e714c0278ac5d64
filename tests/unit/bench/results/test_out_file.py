"""Results are written whole or not at all, and what cannot be written is said before a run."""

from __future__ import annotations

import errno
import json
from io import FileIO
from pathlib import Path
from typing import Any

import msgspec
import pytest

from solscope.bench.base import ShapeResult
from solscope.bench.catalog import find_solution
from solscope.bench.results.files import (
    _write_whole,
    append_result,
    read_results,
    require_appendable,
)
from solscope.bench.run.failures import why_nothing
from solscope.bench.workloads import choose, workloads
from solscope.cli import run
from solscope.errors import InputError, UsageError

LINE = ShapeResult("rms_norm", "0", "mine", "passed", "cpu", "cpu-v1")


class Full(FileIO):
    """A file on a disk that has room for a few bytes more."""

    def write(self, data: Any) -> int:
        if self.tell() > 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(bytes(data)[:5])


def test_nothing_of_a_line_stays_on_a_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_bytes(b"before\n")
    with Full(str(path), "ab+") as file, pytest.raises(OSError, match="No space"):
        _write_whole(file, b"a line that is too long\n")
    assert path.read_bytes() == b"before\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device here")
def test_a_full_disk_is_one_line_that_says_what_to_do() -> None:
    with pytest.raises(InputError, match=r"/dev/full: No space .* --resume"):
        append_result(Path("/dev/full"), LINE)


def test_a_file_that_cannot_take_results_is_refused_first(tmp_path: Path) -> None:
    require_appendable(tmp_path / "new.jsonl")
    append_result(tmp_path / "r.jsonl", LINE)
    require_appendable(tmp_path / "r.jsonl")
    (tmp_path / "mine.py").write_text("def run(): ...\n")
    for name in ("mine.py", "missing/r.jsonl", "."):
        with pytest.raises(UsageError):
            require_appendable(tmp_path / name)
    assert (tmp_path / "mine.py").read_text() == "def run(): ...\n"


def test_a_line_that_is_nested_too_deeply_is_no_result(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    append_result(path, LINE)
    nested = "[" * 5000 + "]" * 5000
    path.write_text(path.read_text().replace('"axes":{}', f'"axes":{{"a":{nested}}}'))
    with pytest.raises(InputError, match="line 1 is not a result"):
        read_results([path])


def test_what_would_run_nothing_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    (tmp_path / "empty").mkdir()
    check = ["bench", "check", str(tmp_path / "empty"), "--device", "cpu", "--small"]
    assert run([*check, "--op", "rms_norm"]) == 2
    assert "no file for rms_norm" in capsys.readouterr().err
    assert run([*check, "--op", ","]) == 2
    assert run(["bench", "check", "mien"]) == 2
    assert "no file, folder or built-in solution 'mien'" in capsys.readouterr().err
    with pytest.raises(UsageError, match="top0"):
        choose(workloads("atrex")["rms_norm"], "top0")


WARM = pytest.mark.usefixtures("warm_workers")
CPU = ["--device", "cpu", "--extra", "0", "--rounds", "1", "--op", "rms_norm"]


@WARM
def test_a_run_in_which_every_shape_is_unsupported_exits_with_2_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    out = tmp_path / "r.jsonl"
    check = ["bench", "check", "torch-eager", *CPU, "--shapes", "53", "--max-bytes", "1000"]
    assert run([*check, "--json", "--out", str(out)]) == 2
    printed = capsys.readouterr()
    assert [one["status"] for one in json.loads(printed.out)["results"]] == ["unsupported"]
    assert [one.status for one in read_results([out])] == ["unsupported"]
    last = printed.err.splitlines()[-1]
    assert last.startswith("solscope: nothing could be checked: every shape is unsupported (torch-")
    assert "moves 109 MB, more than the 0 MB allowed here (--max-bytes)" in last


@pytest.mark.long
@WARM
def test_a_shape_that_is_unsupported_beside_others_is_no_failure(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    out = tmp_path / "r.jsonl"
    check = ["bench", "check", "torch-eager", *CPU, "--shapes", "15,53", "--max-bytes", "10000"]
    assert run([*check, "--out", str(out)]) == 0
    assert {one.shape: one.status for one in read_results([out])} == {
        "15": "passed",
        "53": "unsupported",
    }


@WARM
def test_what_failed_is_not_right_because_a_resumed_run_does_not_try_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    out, mine = tmp_path / "r.jsonl", tmp_path / "mine.py"
    mine.write_text("def run(x, weight, eps):\n    return x.clone()\n")
    check = ["bench", "check", str(mine), *CPU, "--small", "--out", str(out), "--shapes"]
    assert run([*check, "53"]) == 1
    assert run([*check, "53", "--resume"]) == 1
    printed = capsys.readouterr()
    assert "0 results: nothing to run" in printed.out
    assert f"skipped 1, already in {out}: 1 wrong_numbers" in printed.err
    mine.write_text(
        "import torch\n\ndef run(x, weight, eps):\n"
        "    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)\n"
    )
    assert run([*check, "53", "--resume"]) == 0
    assert "already in" not in capsys.readouterr().err
    large = ["bench", "check", "torch-eager", *CPU, "--max-bytes", "10000", "--out", str(out)]
    assert run([*large, "--shapes", "53"]) == 2
    assert run([*large, "--shapes", "53", "--resume"]) == 2
    assert run([*large, "--shapes", "15"]) == 0
    assert run([*large, "--shapes", "15,53", "--resume"]) == 0
    assert run([*large[:-2], "--resume"]) == 2
    assert "--resume needs --out FILE" in capsys.readouterr().err


def test_only_lines_that_say_unsupported_say_that_nothing_was_run() -> None:
    unsupported = msgspec.structs.replace(LINE, status="unsupported", reason="needs triton")
    assert why_nothing([]) is None
    assert why_nothing([LINE, unsupported]) is None
    other = msgspec.structs.replace(unsupported, reason="too large")
    why = why_nothing([other, unsupported, unsupported])
    assert why == "every shape is unsupported (mine: needs triton; and 1 more, see above)"


@WARM
def test_a_time_budget_that_ends_before_the_first_shape_exits_with_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr("solscope.bench.run.evaluate.Evaluation._left", lambda _self: 0.0)
    check = ["bench", "check", "torch-eager", *CPU, "--small", "--time-budget", "9"]
    assert run(check) == 2
    assert "nothing was done in the 9 s of --time-budget" in capsys.readouterr().err


@pytest.mark.parametrize("base", ["nope", "../../bench", ".."])
def test_a_base_is_a_built_in_solution(tmp_path: Path, base: str) -> None:
    (tmp_path / "solution.toml").write_text(f'base = "{base}"\n')
    with pytest.raises(InputError, match="no built-in solution"):
        find_solution(str(tmp_path))
