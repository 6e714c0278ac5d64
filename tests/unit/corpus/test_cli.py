"""`solscope corpus` as a user types it."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from solscope.cli import run
from tests.json_output import document
from tests.sampling import some
from tests.unit.corpus.traces import write_trace

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three traces, and a store with these three profiles."""
    folder = tmp_path_factory.mktemp("made")
    for at in range(3):
        write_trace(folder / "traces" / f"{at}.json", gemm_us=20 + at, day=at)
    path = str(folder / "store")
    assert run(["corpus", "init", path]) == 0
    words = ["add", path, str(folder / "traces"), "--tag", "team=x", "--workers", "1"]
    assert run(["corpus", *words]) == 0
    return folder


@pytest.fixture
def store(made: Path, tmp_path: Path, capsys: Captured) -> str:
    """A store with three profiles."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    capsys.readouterr()
    return str(tmp_path / "store")


def asked(capsys: Captured, *words: str, code: int = 0) -> Any:
    assert run(["corpus", *words, "--json"]) == code
    return document(capsys.readouterr().out)


def test_status(store: str, capsys: Captured) -> None:
    found = asked(capsys, "status", store)
    assert {"profiles", "events", "bytes", "store_schema", "engine"} <= set(found)
    assert (found["profiles"], found["events"], found["store_schema"]) == (3, 48, 2)
    assert found["bytes"] > 0
    assert found["engine"].startswith("deltalake ")
    assert run(["corpus", "status", store]) == 0
    assert "3 profiles, 48 events" in capsys.readouterr().out


def test_add_reports_what_became_of_each_file(store: str, tmp_path: Path, capsys: Captured) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    new = write_trace(tmp_path / "new.json", gemm_us=40)
    words = ("add", store, str(new), str(bad), str(tmp_path / "traces"))
    found = asked(capsys, *words, "--workers", "1", code=1)
    assert (found["added"], found["skipped"]) == (1, 3)
    ((row),) = found["failed"]
    assert row["file"] == str(bad)
    assert "unknown profile format" in row["reason"]
    assert run(["corpus", *words, "--workers", "1", "--verbose"]) == 1
    out, errors = capsys.readouterr()
    assert "added 0, skipped 4 (known content), failed 1" in out
    assert f"skipped {new}" in errors


def test_a_truncated_recording_is_named_and_marked(
    store: str, tmp_path: Path, capsys: Captured
) -> None:
    whole = write_trace(tmp_path / "cut.json", gemm_us=50, calls=20)
    cut = tmp_path / "cut.json"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size * 2 // 3])
    copy = Path(shutil.copytree(store, tmp_path / "copy"))
    assert run(["corpus", "add", str(copy), str(cut), "--workers", "1"]) == 0
    # A long path is broken where the line ends.
    printed = "".join(capsys.readouterr().out.split())
    warning = f"warning: {cut}: the file is truncated, so only its first part was added"
    assert "".join(warning.split()) in printed
    found = asked(capsys, "add", store, str(cut), str(tmp_path / "traces"), "--workers", "1")
    assert (found["added"], found["truncated"]) == (1, [str(cut)])
    (row,) = asked(capsys, "list", store, "--where", "truncated=true")["profiles"]
    assert row["file"] == str(cut)
    # Nobody else may say so.
    new = write_trace(tmp_path / "new.json", gemm_us=60)
    assert run(["corpus", "add", store, str(new), "--tag", "truncated=no"]) == 2
    assert "tag truncated is read from the profile itself" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["repair"], ["importance"], ["add", "new.json"], ["compact"]])
@pytest.mark.parametrize("left", some([b"", b'{"add": {"path": "pa', None, b'{"add": 5}'], 4))
def test_a_damaged_log_is_one_line_that_says_where(
    store: str, tmp_path: Path, capsys: Captured, words: list[str], left: bytes | None
) -> None:
    write_trace(tmp_path / "new.json", gemm_us=60)
    *_, entry = sorted(Path(store, "times", "_delta_log").glob("*.json"))
    entry.unlink() if left is None else entry.write_bytes(left)
    (command, *more) = words
    code = run(["corpus", command, store, *(str(tmp_path / name) for name in more)])
    out, errors = capsys.readouterr()
    printed = " ".join((out + errors).split())
    if left:  # Deltalake refuses such a log.
        assert code == 2
        assert len(errors.splitlines()) <= 2
        assert f"{entry}: this entry in the log of a table is damaged" in printed
    elif command == "repair":
        assert code == 1
        assert "rows expected, 0 found; remove the profile (`corpus remove`) and add" in printed
    elif command == "importance":
        assert code == 2
        assert "times has no row of these profiles; `solscope corpus verify` lists" in printed
    assert run(["corpus", "verify", store]) == 1


def test_list_and_remove(store: str, capsys: Captured) -> None:
    (first, *_) = asked(capsys, "list", store, "--where", "team=x")["profiles"]
    assert (first["gpu"], first["tags"], first["gpu_ms"]) == ("H200", {"team": "x"}, 0.05)
    assert run(["corpus", "list", store]) == 0
    text = capsys.readouterr().out
    assert first["id"][:12] in text
    assert "3 profiles" in text
    assert asked(capsys, "remove", store, first["id"][:10])["removed"] == [first["id"]]
    assert len(asked(capsys, "list", store)["profiles"]) == 2
    assert run(["corpus", "remove", store, "nothing"]) == 2


def test_verify_and_compact(store: str, capsys: Captured) -> None:
    assert asked(capsys, "verify", store)["problems"] == []
    assert asked(capsys, "compact", store)["profiles"] == 3
    file = next(Path(store, "times").glob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-9])
    assert run(["corpus", "verify", store]) == 1
    assert "cannot be read" in capsys.readouterr().out


def test_a_damaged_file_is_one_line_that_says_what_to_do(store: str, capsys: Captured) -> None:
    (file,) = Path(store, "times").glob("*.parquet")
    file.write_bytes(b"PAR1" + bytes(file.stat().st_size - 4))
    assert run(["corpus", "importance", store]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("solscope: cannot read this store (")
    assert "`solscope corpus verify`" in lines[-1]


def test_a_store_without_the_right_to_write_is_only_read(
    store: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode, **_: mode != os.W_OK)
    new = write_trace(tmp_path / "new.json", gemm_us=40)
    assert run(["corpus", "add", store, str(new), "--workers", "1"]) == 2
    assert "times: no permission to write to this folder" in capsys.readouterr().err
    assert run(["corpus", "importance", store]) == 0


def test_tags_of_known_content_do_not_change_and_that_is_said(
    store: str, tmp_path: Path, capsys: Captured
) -> None:
    words = ["add", store, str(tmp_path / "traces"), "--workers", "1", "--tag", "team=y"]
    assert run(["corpus", *words]) == 0
    assert "keep their old tags" in capsys.readouterr().err
    assert {row["tags"]["team"] for row in asked(capsys, "list", store)["profiles"]} == {"x"}


def test_query(store: str, capsys: Captured) -> None:
    sql = "SELECT gpu, COUNT(*) AS n FROM profiles GROUP BY gpu"
    assert asked(capsys, "query", store, sql)["rows"] == [{"gpu": "H200", "n": 3}]
    assert run(["corpus", "query", store, "SELECT kernel FROM times", "--limit", "2"]) == 0
    assert "2 rows of 9 (see --limit)" in capsys.readouterr().out
    assert run(["corpus", "query", store, "DROP TABLE times"]) == 2


def test_importance_and_shapes(store: str, capsys: Captured) -> None:
    found = asked(capsys, "importance", store, "--group-by", "gpu,phase", "--weight", "gpu-time")
    assert sum(row["importance_pct"] for row in found["rows"]) == pytest.approx(100)
    assert found["groups"][0]["group"] == {"gpu": "H200", "phase": "(unknown)"}
    assert run(["corpus", "importance", store, "--group-by", "gpu"]) == 0
    printed = capsys.readouterr().out
    assert "gpu H200" in printed
    assert "can be saved = share of GPU time that is saved at 80 % of the bound" in printed
    assert "calls that have a bound" not in printed
    found = asked(capsys, "shapes", store, "dense_gemm", "--cover", "0.5")
    assert found["operators"][0]["shapes"][0]["weight"] == pytest.approx(1)
    assert run(["corpus", "importance", store, "--where", "gpu"]) == 2


def test_export_suite(store: str, tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "mine.json"
    found = asked(capsys, "export-suite", store, str(out))
    assert (found["path"], found["operators"], found["shapes"]) == (str(out), 2, 2)
    assert json.loads(out.read_text())["name"] == "mine"
    assert run(["corpus", "export-suite", store, str(out)]) == 2
    assert run(["corpus", "export-suite", store, str(out), "--force"]) == 0
    capsys.readouterr()
    assert run(["corpus", "export-suite", store, "-"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["name"], len(printed["operators"])) == ("corpus", 2)


def test_trend_fails_a_job_that_got_slower(store: str, tmp_path: Path, capsys: Captured) -> None:
    assert asked(capsys, "trend", store, "dense_gemm")["changes"] == []
    for at in range(3, 12):
        write_trace(tmp_path / "more" / f"{at}.json", gemm_us=(22 if at < 6 else 40) + at, day=at)
    assert run(["corpus", "add", store, str(tmp_path / "more"), "--workers", "1"]) == 0
    capsys.readouterr()
    assert asked(capsys, "trend", store, "dense_gemm", code=1)["regressed"] is True
    assert run(["corpus", "trend", store, "dense_gemm", "--min-change", "200"]) == 0


@pytest.mark.parametrize(
    "words",
    [
        ["status", "NOWHERE"],
        ["add", "NOWHERE", "x.json"],
        ["add", "STORE", "x.json", "--tag", "novalue"],
        ["add", "STORE", "x.json", "--address", "auto"],
        ["add", "STORE", "x.json", "--batch", "3"],
        ["add", "STORE", "x.json", "--engine", "ray", "--address", "127.0.0.1:1"],
        ["list", "STORE", "--where", "phase=decode"],
        ["importance", "STORE", "--weight", "tag:none"],
        ["shapes", "STORE", "nope"],
        ["trend", "STORE", "nope"],
    ],
    ids=lambda words: " ".join(words),
)
def test_bad_usage_is_one_line(store: str, words: list[str], capsys: Captured) -> None:
    places = {"STORE": store, "NOWHERE": f"{store}/nowhere"}
    assert run(["corpus", *(places.get(word, word) for word in words)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_hostile_names_do_not_reach_the_terminal(
    store: str, tmp_path: Path, capsys: Captured
) -> None:
    path = write_trace(tmp_path / "evil\x1b[31m.json", gemm_us=50)
    tag = "note=\x1b]0;owned\x07"
    assert run(["corpus", "add", store, str(path), "--tag", tag, "--verbose"]) == 0
    assert run(["corpus", "list", store]) == 0
    assert run(["corpus", "query", store, "SELECT tags, file FROM profiles"]) == 0
    out, errors = capsys.readouterr()
    assert "\x1b" not in out + errors
    assert "\\x1b[31m.json" in errors
    assert "tags" in out


@pytest.mark.parametrize(
    ("words", "row"),
    [
        (["importance"], r"^\| [\d.]+ % \| .* \| `dense_gemm` \|$"),
        (["shapes", "dense_gemm"], r"^\| 100.0 % \| 100.0 % \| .* m=\d+ n=\d+ \|$"),
        (["trend", "dense_gemm"], r"^\| 20\d\d-.* \| `.*2\.json` \|$"),
    ],
    ids=["importance", "shapes", "trend"],
)
def test_answers_as_markdown(store: str, capsys: Captured, words: list[str], row: str) -> None:
    assert run(["corpus", words[0], store, *words[1:], "--markdown"]) == 0
    printed = capsys.readouterr().out
    assert re.search(row, printed, re.MULTILINE)
    assert "█" not in printed
