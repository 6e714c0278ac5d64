"""Where commands write: files, folders, and `-`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from solscope.cli import run
from solscope.errors import UsageError
from solscope.files import new_file

DEMO = "demo:vllm-b200"


def test_html_goes_to_standard_output_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["report", DEMO, "-o", "page.html"]) == 0
    assert capsys.readouterr().out.startswith("page.html (")
    assert run(["report", DEMO, "-o", "-"]) == 0
    assert capsys.readouterr().out == Path("page.html").read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_one_export_goes_to_standard_output_and_others_to_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "a.csv"
    assert run(["export", DEMO, "--perfetto", "-", "--csv", str(table)]) == 0
    assert json.loads(capsys.readouterr().out)["traceEvents"]
    assert run(["export", DEMO, "--csv", "-"]) == 0
    assert capsys.readouterr().out == table.read_text(encoding="utf-8")


def test_a_file_may_still_be_called_dash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["export", DEMO, "--csv", "./-"]) == 0
    assert Path("-").read_text(encoding="utf-8").startswith("row,kind,name")


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["report", DEMO, "-o", "-", "--json"], "only one result can go to standard output"),
        (["export", DEMO, "--csv", "-", "--json"], "only one result can go to standard output"),
        (
            ["export", DEMO, "--csv", "-", "--perfetto", "-"],
            "only one result can go to standard output",
        ),
        (["export", DEMO, "--parquet", "-"], "give a folder name"),
        (["bench", "check", "torch-eager", "--out", "-"], "give a file name"),
        (["bench", "new", "rms_norm", "-o", "-"], "give a folder name"),
        (["capture", "--pid", "1", "-o", "-"], "give a file name"),
        (["lab", "record", "--out", "-"], "give a folder name"),
        (["lab", "pack", ".", "-o", "-"], "give a folder name"),
        (["report", DEMO, "-o", "."], ". is a folder; give a file name"),
        (["bench", "new", "rms_norm", "-o", "a"], "a is a file; give a folder name"),
    ],
)
def test_refusals_are_one_line(
    command: list[str],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a").touch()
    assert run(command) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert reason in printed.err
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_device_is_not_replaced_by_a_file() -> None:
    with pytest.raises(UsageError, match="not a regular file"), new_file(Path("/dev/null")):
        raise AssertionError("nothing may be written")
    assert Path("/dev/null").is_char_device()


def test_a_program_without_standard_output_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert run(["suite", "list"]) == 0
    sys.stdout.close()


@pytest.mark.long
def test_the_report_of_a_run_begins_with_its_ranks(tmp_path: Path) -> None:
    target = tmp_path / "run.html"
    assert run(["report", "demo:ranks", "-o", str(target)]) == 0
    data = target.read_text(encoding="utf-8").partition('id="solscope-data"')[2]
    pages = json.loads(data.partition(">")[2].partition("</script>")[0])["pages"]
    kinds = [page["kind"] for page in pages]
    assert kinds[:2] == ["ranks", "comparison"]
    assert set(kinds[2:]) == {"profile"}
    assert len(kinds) == 2 + len(pages[0]["run"]["ranks"])
    assert pages[0]["headline"]["advice"]
