"""`--with`: captures beside a profile are offered, and what a companion did not give is said."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from solscope import Profile, cli
from solscope.readers.opening import Opening

DATA = Path(__file__).parents[2] / "data/captures"
Run = Callable[..., "Output"]


class Output(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def invoke(*arguments: str | Path) -> Output:
        code = cli.run([*map(str, arguments), "--no-cache"])
        return Output(code, *capsys.readouterr())

    return invoke


@pytest.mark.parametrize("command", ["operators", "hotspots", "kernels"])
def test_captures_beside_a_profile_are_offered_and_not_used(run: Run, command: str) -> None:
    profile = DATA / "compiled/replay.json.zst"
    result = run(command, profile)
    assert result.exit_code == 0
    folder = profile.parent / "capture_traces"
    said = f"solscope: the graphs of {profile} may have been captured in {folder}; for operators "
    assert result.stderr == f"{said}and shapes of their kernels, add --with {folder}\n"


def test_nothing_is_offered_without_replays_or_captures(run: Run, tmp_path: Path) -> None:
    assert run("operators", DATA / "compiled/eager.json.zst").stderr == ""
    alone = shutil.copy(DATA / "compiled/replay.json.zst", tmp_path)
    assert run("operators", alone).stderr == ""


def test_a_folder_of_captures_gives_costs(run: Run) -> None:
    profile = DATA / "full/replay.json.zst"
    folder = profile.parent / "capture_traces"
    result = run("operators", profile, "--with", folder, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    (table,) = json.loads(result.stdout)["profiles"]
    assert table["cost_pct"] > 94
    assert sum(row["inferred_calls"] for row in table["operators"]) > 1500


def test_captures_of_another_program_are_refused_with_the_reason(run: Run) -> None:
    profile, folder = DATA / "full/replay.json.zst", DATA / "compiled/capture_traces"
    result = run("operators", profile, "--with", folder)
    assert result.exit_code == 0
    start = f"solscope: {profile} took nothing from {folder}: "
    assert result.stderr.splitlines() == [
        f"{start}9 of 12 replays: a replay has 160 kernels; the closest capture has 111",
        f"{start}3 of 12 replays: a replay has 160 kernels; the closest capture has 87",
    ]


@pytest.mark.reads_anew
def test_a_companion_is_read_once_also_where_it_does_not_fit(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    profile_of = Opening.profile

    def counted(self: Opening) -> Profile:
        read.append(Path(vars(self)["_asked"]).name)
        return profile_of(self)

    monkeypatch.setattr(Opening, "profile", counted)
    run("operators", DATA / "full/replay.json.zst", "--with", DATA / "compiled/eager.json.zst")
    assert sorted(read) == ["eager.json.zst", "replay.json.zst"]


def test_one_batch_size_of_several(run: Run) -> None:
    profile = DATA / "full/replay.json.zst"
    file = profile.parent / "capture_traces/bs_8_rank0.json.zst"
    lines = run("operators", profile, "--with", file).stderr.splitlines()
    assert lines == [
        f"solscope: {profile} took not all it could from {file}: 3 of 12 replays: "
        f"a step has {tokens} tokens; the captures given are for batch size 8"
        for tokens in (4, 2, 1)
    ]


def test_a_companion_that_is_no_profile(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    result = run("operators", DATA / "full/replay.json.zst", "--with", tmp_path)
    assert result.exit_code == 2
    assert f"{tmp_path}: no profile in this folder" in result.stderr
