"""What a solution is and how it is found."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from solscope.bench.catalog import built_in, find_solution  # noqa: E402
from solscope.bench.workloads import workloads  # noqa: E402
from solscope.errors import InputError, UsageError  # noqa: E402


def test_eager_solutions_exist_for_all_operators_and_compile_is_the_same_files() -> None:
    eager, compiled = find_solution("torch-eager"), find_solution("torch-compile")
    assert set(workloads()) <= set(eager.operators())
    assert compiled.file("rms_norm") == eager.file("rms_norm")
    assert compiled.hash("rms_norm") != eager.hash("rms_norm")
    assert {"torch-eager", "torch-compile"} <= set(built_in().names())


def test_a_folder_is_a_solution_and_helpers_change_its_hash(tmp_path: Path) -> None:
    folder = tmp_path / "my_kernels"
    folder.mkdir()
    (folder / "rms_norm.py").write_text("from _help import run\n")
    (folder / "_help.py").write_text("run = None\n")
    (folder / "l2_norm.cu").write_text("// kernel\n")
    found = find_solution(str(folder))
    assert (found.name, found.operators()) == ("my-kernels", ["l2_norm", "rms_norm"])
    before = found.hash("rms_norm")
    (folder / "_help.py").write_text("run = 1\n")
    assert found.hash("rms_norm") != before
    entry = found.stage("l2_norm", tmp_path / "staged")
    assert entry.name == "l2_norm_entry.py"
    compile(entry.read_text(), entry.name, "exec")
    assert {p.name for p in entry.parent.iterdir()} == {
        "l2_norm.cu",
        "l2_norm_entry.py",
        "_help.py",
    }


def test_a_solution_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'torch-eager'"):
        find_solution("torch-eagre")
    with pytest.raises(InputError, match="no such file"):
        find_solution(str(tmp_path / "none.py"))
    (tmp_path / "solution.toml").write_text("titel = 1\n")
    with pytest.raises(InputError, match="titel"):
        find_solution(str(tmp_path))
