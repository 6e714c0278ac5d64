"""From what a user names to profiles."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from solscope.errors import InputError
from solscope.readers import find_profiles
from tests.making import event, profile

TRACE = json.dumps(
    {"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 5, "args": {}}]}
)
METRICS = "t_ns,metric,device,value\n1,power_w,GPU 0,300\n"
SAMPLES = pl.DataFrame({"t_ns": [1], "metric": ["power_w"], "device": [0], "value": [300.0]})


def put(folder: Path, *names: str, text: str = TRACE) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def save(path: Path) -> None:
    """A saved profile with metrics."""
    replace(profile(event("kernel", "k", 0, 5)), metrics=SAMPLES).save(path)


def found(folder: Path, *inputs: str) -> list[str]:
    """Profiles behind inputs, all relative to the folder."""
    paths = find_profiles([folder / name for name in inputs])
    return [str(Path(path).relative_to(folder)) for path in paths]


def test_files_as_named_each_once(tmp_path: Path) -> None:
    put(tmp_path, "b.json", "a.json")
    assert found(tmp_path, "b.json", "a.json", "b.json") == ["b.json", "a.json"]


def test_a_missing_file_is_left_to_whoever_opens_it() -> None:
    assert find_profiles(["absent.json"]) == ["absent.json"]


def test_demos_are_passed_on() -> None:
    assert find_profiles(["demo:vllm-b200"]) == ["demo:vllm-b200"]


# Folders


def test_a_folder_stands_for_the_profiles_in_it(tmp_path: Path) -> None:
    put(tmp_path, "b.json", "a.json")
    put(tmp_path, "notes.txt", "config.json", text="{}")
    assert found(tmp_path, ".") == ["a.json", "b.json"]


def test_folders_in_a_folder_are_not_entered(tmp_path: Path) -> None:
    put(tmp_path, "a.json", "older/b.json")
    assert found(tmp_path, ".") == ["a.json"]


def test_rank_folders_are_entered(tmp_path: Path) -> None:
    put(tmp_path, "rank1/t.json", "rank0/t.json", "Rank_2/t.json", "rank0/more/t.json")
    assert found(tmp_path, ".") == ["Rank_2/t.json", "rank0/t.json", "rank1/t.json"]


def test_hidden_files_are_passed_over(tmp_path: Path) -> None:
    put(tmp_path, ".a.json", "b.json", "rank0/.c.json", "rank0/d.json")
    assert found(tmp_path, ".") == ["b.json", "rank0/d.json"]


def test_a_folder_with_saved_profiles(tmp_path: Path) -> None:
    put(tmp_path, "a.json")
    save(tmp_path / "saved")
    assert found(tmp_path, ".") == ["a.json", "saved"]


def test_a_saved_profile_called_rank_is_one_profile(tmp_path: Path) -> None:
    save(tmp_path / "rank0")
    assert found(tmp_path, ".") == ["rank0"]


def test_a_saved_profile_itself(tmp_path: Path) -> None:
    save(tmp_path / "saved")
    assert found(tmp_path, "saved") == ["saved"]


def test_metrics_files_belong_to_the_profile_beside_them(tmp_path: Path) -> None:
    put(tmp_path, "a.json")
    put(tmp_path, "a.metrics.csv", text=METRICS)
    assert found(tmp_path, ".") == ["a.json"]
    assert found(tmp_path, "*") == ["a.json"]


def test_a_metrics_file_that_is_named_is_taken(tmp_path: Path) -> None:
    put(tmp_path, "a.metrics.csv", text=METRICS)
    assert found(tmp_path, "a.metrics.csv") == ["a.metrics.csv"]


def test_damaged_files_of_a_folder_are_reported(tmp_path: Path) -> None:
    put(tmp_path, "a.json")
    (tmp_path / "b.json.gz").write_bytes(b"\x1f\x8b" + bytes(50))
    put(tmp_path, "c.json", text="")
    skipped: dict[str, str] = {}
    paths = find_profiles([tmp_path], skipped.__setitem__)
    assert paths == [str(tmp_path / "a.json")]
    assert list(skipped) == [str(tmp_path / "b.json.gz"), str(tmp_path / "c.json")]
    assert "damaged compressed file" in skipped[str(tmp_path / "b.json.gz")]
    assert skipped[str(tmp_path / "c.json")] == f"{tmp_path / 'c.json'} is empty"


# Nothing found


def refusal(given: Path) -> str:
    with pytest.raises(InputError) as caught:
        find_profiles([given])
    return str(caught.value)


def test_an_empty_folder(tmp_path: Path) -> None:
    assert refusal(tmp_path) == f"{tmp_path}: no profile in this folder"


def test_a_folder_with_only_folders_names_them(tmp_path: Path) -> None:
    put(tmp_path, "monday/a.json", "tuesday/a.json")
    assert refusal(tmp_path) == (
        f"{tmp_path}: no profile in this folder; it has folders, name one of them: monday, tuesday"
    )


def test_a_folder_with_one_damaged_file_says_why(tmp_path: Path) -> None:
    put(tmp_path, "a.json", text="")
    assert refusal(tmp_path) == (
        f"{tmp_path}: no profile in this folder ({tmp_path / 'a.json'} is empty)"
    )


# Globs


def test_a_glob_in_order(tmp_path: Path) -> None:
    put(tmp_path, "r1.json", "r0.json", "other.json")
    assert found(tmp_path, "r*.json") == ["r0.json", "r1.json"]


def test_saved_profiles_match_globs_and_other_folders_do_not(tmp_path: Path) -> None:
    save(tmp_path / "a.solscope")
    put(tmp_path, "a.folder/x.json", "a.json")
    assert found(tmp_path, "a.*") == ["a.json", "a.solscope"]


def test_a_glob_that_matches_only_metrics(tmp_path: Path) -> None:
    put(tmp_path, "a.metrics.csv", text=METRICS)
    assert refusal(tmp_path / "*") == f"{tmp_path / '*'}: no profile matches"


def test_a_file_name_that_looks_like_a_glob(tmp_path: Path) -> None:
    put(tmp_path, "a[1].json", "a1.json")
    assert found(tmp_path, "a[1].json") == ["a[1].json"]
