"""Each limit of adding profiles at its edge: the last value that passes, the first that fails."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from solscope.corpus.ingest import add, describe
from solscope.corpus.ingest.describe import LONGEST_TEXT, MOST_TAGS, check_tag, read_sidecar
from solscope.corpus.ingest.task import Outcome
from solscope.corpus.rows import Extract
from solscope.corpus.schema import schema
from solscope.errors import InputError


def test_the_length_of_a_tag() -> None:
    check_tag("team", "x" * LONGEST_TEXT)
    with pytest.raises(InputError, match=f"longer than {LONGEST_TEXT} characters"):
        check_tag("team", "x" * (LONGEST_TEXT + 1))


@pytest.mark.parametrize(
    ("number", "valid"), [(0, False), (1, True), (2**32 - 1, True), (2**32, False)]
)
def test_degrees_of_parallelism(number: int, valid: bool) -> None:
    if valid:
        check_tag("tp", str(number))
        return
    with pytest.raises(InputError, match="out of range"):
        check_tag("tp", str(number))


def sidecar(folder: Path, text: str) -> dict[str, str]:
    (folder / "a.solscope.json").write_text(text)
    return read_sidecar(folder / "a.json.gz")


def test_the_number_of_tags_in_a_sidecar(tmp_path: Path) -> None:
    tags = {f"tag{number}": "x" for number in range(MOST_TAGS)}
    assert sidecar(tmp_path, json.dumps(tags)) == tags
    with pytest.raises(InputError, match=f"more than {MOST_TAGS} tags"):
        sidecar(tmp_path, json.dumps({**tags, "last": "x"}))


def test_the_size_of_a_sidecar(tmp_path: Path) -> None:
    assert sidecar(tmp_path, "{}".ljust(describe._LARGEST_SIDECAR)) == {}
    with pytest.raises(InputError, match="too large for a sidecar"):
        sidecar(tmp_path, "{}".ljust(describe._LARGEST_SIDECAR + 1))


class Store:
    """Notes the sizes of the batches that are committed."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def append(self, extracts: list[Extract]) -> list[str]:
        self.batches.append(len(extracts))
        return [extract.profile["id"] for extract in extracts]


def take(store: Store, profiles: int) -> None:
    paths = [str(number) for number in range(profiles)]
    run = add._Run(store, paths, None)  # type: ignore[arg-type]
    times, steps = (schema(name).to_frame(eager=True).drop("entry") for name in ("times", "steps"))
    for path in paths:
        run.take(Outcome(path, extract=Extract({"id": path, "tags": "{}"}, times.clear(1), steps)))


@pytest.mark.parametrize(("profiles", "batches"), [(3, []), (4, [4]), (7, [4]), (8, [4, 4])])
def test_profiles_of_a_batch(
    monkeypatch: pytest.MonkeyPatch, profiles: int, batches: list[int]
) -> None:
    monkeypatch.setattr(add, "BATCH_PROFILES", 4)
    monkeypatch.setattr(add, "BATCH_SECONDS", 1e9)
    store = Store()
    take(store, profiles)
    assert store.batches == batches


@pytest.mark.parametrize(("rows", "batches"), [(2, [2]), (3, [])])
def test_rows_of_a_batch(monkeypatch: pytest.MonkeyPatch, rows: int, batches: list[int]) -> None:
    monkeypatch.setattr(add, "BATCH_ROWS", rows)
    monkeypatch.setattr(add, "BATCH_SECONDS", 1e9)
    store = Store()
    take(store, 2)
    assert store.batches == batches


@pytest.mark.parametrize(("now_s", "batches"), [(4.9, []), (5.0, [2])])
def test_seconds_of_a_batch(
    monkeypatch: pytest.MonkeyPatch, now_s: float, batches: list[int]
) -> None:
    clock = iter([0.0, 0.0, 0.0, now_s])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    store = Store()
    take(store, 2)
    assert store.batches == batches
