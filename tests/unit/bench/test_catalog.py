"""What a solution is and how it is found."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from solscope.bench.catalog import BYTECODE, built_in, find_solution  # noqa: E402
from solscope.bench.run.agenda import Options  # noqa: E402
from solscope.bench.run.evaluate import evaluate  # noqa: E402
from solscope.bench.workloads import SMALL, workloads  # noqa: E402
from solscope.cli import run  # noqa: E402
from solscope.errors import InputError, UsageError  # noqa: E402
from solscope.operators import OPERATOR_MODULES, operator  # noqa: E402


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
    entry = found.stage("l2_norm", tmp_path / "staged").path
    assert entry.name == "l2_norm_entry.py"
    compile(entry.read_text(), entry.name, "exec")
    assert {p.name for p in entry.parent.iterdir()} == {
        "l2_norm.cu",
        "l2_norm_entry.py",
        BYTECODE,
    }


def test_only_helpers_that_are_imported_count(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    folder.mkdir()
    files = {
        "rms_norm.py": "from _rows import norm\ndef run(x):\n    import _late\n",
        "l2_norm.py": "import torch\n",
        "_rows.py": "from _tiles import tile\nfrom __future__ import annotations\n",
        "_tiles.py": "from _rows import norm\n",
        "_late.py": "",
        "_other.py": "",
        "_broken.py": "def (",
        "kernel.h": "// shared by all\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    found = find_solution(str(folder))
    used = {"rms_norm.py", "_rows.py", "_tiles.py", "_late.py", "kernel.h"}
    assert {path.name for path in found.sources("rms_norm")} == used
    assert {path.name for path in found.sources("l2_norm")} == {"l2_norm.py", "kernel.h"}
    before = found.hash("rms_norm")
    (folder / "_other.py").write_text("changed = True\n")
    assert found.hash("rms_norm") == before
    (folder / "_tiles.py").write_text("tile = 128\n")
    assert found.hash("rms_norm") != before
    staged = found.stage("rms_norm", tmp_path / "staged").path.parent
    assert {path.name for path in staged.iterdir()} == used | {BYTECODE}


def test_what_was_changed_in_a_staged_copy_is_named_and_put_back(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("import torch\n")
    staged = find_solution(str(file)).stage("rms_norm", tmp_path / "staged")
    folder = staged.path.parent
    assert staged.changed() == []
    file.write_text("import os\n")  # the copy is what runs, whatever becomes of the file
    assert staged.changed() == []
    staged.path.write_text("import sys\n")
    (folder / "planted.py").write_text("")
    (folder / BYTECODE).unlink()
    (folder / BYTECODE).mkdir()
    (folder / BYTECODE / "mine.pyc").write_bytes(b"")
    assert staged.changed() == [BYTECODE, "mine.py", "planted.py"]
    staged.write()
    assert staged.changed() == []
    assert staged.path.read_text() == "import torch\n"
    staged.path.unlink()
    staged.path.symlink_to(file)
    file.write_text("import torch\n")
    assert staged.changed() == ["mine.py"], "what a link points to can change later"


def _imported_pipe(at: Path) -> None:
    (at / "rms_norm.py").write_text("import _y\n")
    os.mkfifo(at / "_y.py")


Odd = Callable[[Path], object]
ODD: dict[str, tuple[Odd, str]] = {
    "pipe for its sources": (
        lambda at: os.mkfifo(at / "rms_norm.py"),
        "rms_norm.py: not a regular",
    ),
    "device": (lambda at: (at / "rms_norm.py").symlink_to("/dev/zero"), "not a regular file"),
    "pipe for a helper": (lambda at: os.mkfifo(at / "_x.h"), "_x.h: not a regular file"),
    "folder for a helper": (lambda at: (at / "_x.h").mkdir(), "_x.h: not a regular file"),
    "link to nothing": (lambda at: (at / "_x.h").symlink_to("/none"), "_x.h: No such file"),
    "unreadable": (lambda at: (at / "_x.h").symlink_to("/proc/self/mem"), "_x.h: Input/output"),
    "imported pipe": (_imported_pipe, "_y.py: not a regular file"),
    "name of a helper": (
        lambda at: Path(os.fsdecode(os.fsencode(at / "_x") + b"\xff.h")).write_text(""),
        "not valid UTF-8",
    ),
    "deep": (
        lambda at: (at / "rms_norm.py").write_text(f"x = {'-' * 200_000}1\n"),
        "rms_norm.py: nested too deeply",
    ),
    "pipe for its description": (lambda at: os.mkfifo(at / "solution.toml"), "not a regular file"),
    "description that is a loop": (
        lambda at: (at / "solution.toml").symlink_to("solution.toml"),
        "solution.toml: Too many levels of symbolic links",
    ),
    "deep description": (
        lambda at: (at / "solution.toml").write_text(f"title = {'[' * 100_000}"),
        "solution.toml: nested too deeply",
    ),
}


@pytest.mark.parametrize("what", ODD)
def test_odd_files_in_the_folder_of_a_solution_are_named(
    tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make, said = ODD[what]
    make(tmp_path)
    if not os.path.lexists(tmp_path / "rms_norm.py"):
        (tmp_path / "rms_norm.py").write_text("run = None\n")
    assert run(["bench", "check", str(tmp_path), "--op", "rms_norm", "--device", "cpu"]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert str(tmp_path) in shown
    assert len(shown.splitlines()) == 1


def test_the_name_of_a_folder_must_be_text(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/bad\xff"
    os.mkdir(folder)  # noqa: PTH102 - a name that no Path prints
    with pytest.raises(InputError, match="bad\ufffd: the name is not valid UTF-8"):
        find_solution(os.fsdecode(folder))


def test_a_solution_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'torch-eager'"):
        find_solution("torch-eagre")
    with pytest.raises(InputError, match="no such file"):
        find_solution(str(tmp_path / "none.py"))
    (tmp_path / "solution.toml").write_text("titel = 1\n")
    with pytest.raises(InputError, match="titel"):
        find_solution(str(tmp_path))


def test_a_broken_solution_is_named_and_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("broken", "title = 3"), ("good", 'title = "Good"')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "solution.toml").write_text(text)
    monkeypatch.setattr("solscope.bench.catalog.FOLDER", tmp_path)
    with pytest.warns(UserWarning, match="skipped: .*broken"):
        assert built_in().names() == ("good",)
    with pytest.warns(UserWarning, match="skipped: .*broken"):
        assert find_solution("good").about.title == "Good"


@pytest.mark.usefixtures("warm_workers")
def test_a_solution_that_raises_on_import_does_not_stop_the_others(tmp_path: Path) -> None:
    file = tmp_path / "raises.py"
    file.write_text('raise ValueError("no such card")\n')
    options = Options(
        operators=["rms_norm"],
        solutions=[find_solution(str(file)), find_solution("torch-eager")],
        shapes="0",
        device="cpu",
        scale=SMALL,
        extra=0,
        rounds=1,
        check_only=True,
    )
    status = {line.solution: line.status for line in evaluate(options)}
    assert status == {"raises": "crashed", "torch-eager": "passed"}


def test_an_operator_without_shapes_is_named() -> None:
    listed = set(workloads())
    without = next(name for name in OPERATOR_MODULES if name not in listed and operator(name).task)
    options = Options([without], [find_solution("torch-eager")], device="cpu", scale=SMALL)
    with pytest.raises(UsageError, match=f"has no shapes of {without}"):
        evaluate(options)
