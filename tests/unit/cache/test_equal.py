"""A result from the cache is the result, byte for byte."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.unit.cache.answers import COMMANDS

HERE = Path(__file__).parent
DATA = HERE.parents[1] / "data"
SHARED = HERE.parents[3] / "shared" / "data"
SUFFIXES = (".json", ".json.gz", ".json.zst", ".sqlite", ".csv", ".txt")


def answers(out: Path, files: Sequence[str], **settings: str) -> dict[str, str]:
    """What a fresh process answers: categories then have other numbers than they had before."""
    paths = [str(HERE.parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {
        "PYTHONPATH": os.pathsep.join(paths),
        "SOLSCOPE_CACHE_MIN_BYTES": "0",
        "SOLSCOPE_NO_CACHE": "",
    }
    env = {**os.environ, **own, **settings}
    subprocess.run(
        [sys.executable, str(HERE / "answers.py"), str(out), *files], env=env, check=True
    )
    return {path.name: path.read_text(encoding="utf-8") for path in out.iterdir()}


def check(files: Sequence[str], tmp_path: Path) -> None:
    cache = {"SOLSCOPE_CACHE_DIR": str(tmp_path / "cache")}
    without = answers(tmp_path / "without", files, SOLSCOPE_NO_CACHE="1")
    first = answers(tmp_path / "first", files, **cache)
    second = answers(tmp_path / "second", files, **cache)
    readings = [each.pop("readings").splitlines() for each in (without, first, second)]
    assert len(without) == len(files) * len(COMMANDS)
    assert first == without
    assert second == without
    assert len(readings[0]) >= len(files)
    # Readers of several files are not cached, nor is what is no profile at all.
    again = {file for file in readings[2] if not file.endswith(".csv")}
    assert not again & {file for file in files if without[f"{files.index(file)}-show"][0] == "0"}


@pytest.mark.long
def test_profiles_of_every_format_give_the_same_answers(tmp_path: Path) -> None:
    names = ("kineto_b200.json.gz", "nsys_h100.sqlite", "nsys_decode_kern_sum.csv")
    texts = ("nsys_kern_sum.txt", "rocprofv3.json.gz")
    demos = ["demo:vllm-b200", "demo:vllm-mi300x-graph"]
    check([*(str(DATA / name) for name in (*names, *texts)), *demos], tmp_path)


@pytest.mark.long
def test_recordings_of_every_folder_give_the_same_answers(tmp_path: Path) -> None:
    """The smallest and the largest of each format: files of one folder are much alike.

    So are runs of several ranks, each of which has a folder of its own below one.
    """
    if not SHARED.is_dir():
        pytest.skip("the recordings are not here")
    kinds: dict[tuple[str, ...], list[Path]] = defaultdict(list)
    for path in SHARED.rglob("*"):
        if path.name.endswith(SUFFIXES) and ".metrics." not in path.name:
            folders = path.relative_to(SHARED).parent.parts[:2]
            kinds[(*folders, path.name.partition(".")[2])].append(path)
    ends = [{f(paths, key=_size) for f in (min, max)} for paths in kinds.values()]
    check(sorted({str(path) for pair in ends for path in pair}), tmp_path)


def _size(path: Path) -> tuple[int, str]:
    return path.stat().st_size, path.name
