"""Entries: whole or a miss, and never more than fit."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from solscope.cache import entries as entries_module
from solscope.cache.entries import Entries, entry_key
from solscope.cache.listing import ENTRIES, INDEX, MANIFEST, WORK, stored
from solscope.cache.settings import Settings
from solscope.cache.tables import UnfitError, dump, fetch, load


class Fact(msgspec.Struct, frozen=True):
    text: str
    about: dict[str, Any] = {}


@dataclass(frozen=True)
class Thing:
    rows: pl.DataFrame
    fact: Fact
    path: str = ""
    more: pl.DataFrame | None = None
    facts: tuple[Fact, ...] = field(default=())


def thing(**changes: Any) -> Thing:
    rows = pl.DataFrame(
        {
            "kind": pl.Series(["a", "b", None], dtype=pl.Enum(["b", "a"])),
            "name": pl.Series(["x", None, "y"], dtype=pl.Categorical()),
            "n": pl.Series([1, None, -(2**62)], dtype=pl.Int64),
            "f": [0.1, float("nan"), float("-inf")],
            "l": [[1, 2], [], None],
        }
    )
    fact = Fact("ü", {"n": 2**60, "f": 1.0, "list": [None, "a"], "s": {"deep": True}})
    return Thing(**{"rows": rows, "fact": fact, "facts": (Fact("b"),), **changes})


def make(folder: Path, max_bytes: int = 1 << 30) -> Entries:
    return Entries(Settings(folder, max_bytes, 0))


def put(entries: Entries, name: str, **changes: Any) -> str:
    key = entry_key(name)
    entries.put(key, thing(**changes), {"path": "p"})
    return key


def same(left: Thing, right: Thing) -> bool:
    return (
        left.rows.equals(right.rows, null_equal=True)
        and left.rows.schema == right.rows.schema
        and (left.more is None) == (right.more is None)
        and (left.fact, left.facts, left.path) == (right.fact, right.facts, right.path)
    )


def test_a_value_comes_back_as_it_was_but_for_what_is_given(tmp_path: Path) -> None:
    entries = make(tmp_path)
    key = put(entries, "a", more=pl.DataFrame({"a": []}))
    found = entries.get(key, Thing, {"path": "elsewhere"})
    assert found is not None
    assert same(found, thing(path="elsewhere", more=pl.DataFrame({"a": []})))


def test_columns_without_a_value_come_back_in_their_place(tmp_path: Path) -> None:
    entries = make(tmp_path)
    columns = [
        pl.Series("first", [None, None], dtype=pl.Enum(["a"])),
        pl.Series("number", [1, None]),
        pl.Series("text", [None, None], dtype=pl.Categorical()),
        pl.Series("list", [None, None], dtype=pl.List(pl.Int32)),
        pl.Series("name", ["x", "y"]),
        pl.Series("last", [None, None], dtype=pl.UInt8),
    ]
    for number, table in enumerate((pl.DataFrame(columns), pl.DataFrame(columns[:1]))):
        key = put(entries, str(number), more=table)
        found = entries.get(key, Thing, {"path": "elsewhere"})
        assert found is not None
        assert found.more is not None
        assert_frame_equal(found.more, table)


def test_an_unknown_key_is_a_miss(tmp_path: Path) -> None:
    assert make(tmp_path).get(entry_key("a"), Thing, {}) is None
    assert list(tmp_path.iterdir()) == []


def damage(path: Path, how: str) -> None:
    data = bytearray(path.read_bytes())
    if how == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "flipped":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    elif how == "missing":
        path.unlink()


@pytest.mark.parametrize("how", ["truncated", "empty", "flipped"])
@pytest.mark.parametrize("file", ["rows.parquet", MANIFEST])
def test_a_damaged_entry_is_a_miss_and_makes_room_for_a_good_one(
    tmp_path: Path, file: str, how: str
) -> None:
    entries = make(tmp_path)
    key = put(entries, "a")
    damage(tmp_path / ENTRIES / key / file, how)
    assert entries.get(key, Thing, {"path": "p"}) is None
    put(entries, "a")
    found = entries.get(key, Thing, {"path": "p"})
    assert found is not None
    assert same(found, thing(path="p"))


@pytest.mark.parametrize("file", ["rows.parquet", MANIFEST])
def test_an_entry_that_is_being_deleted_is_a_miss(tmp_path: Path, file: str) -> None:
    entries = make(tmp_path)
    key = put(entries, "a")
    damage(tmp_path / ENTRIES / key / file, "missing")
    assert entries.get(key, Thing, {"path": "p"}) is None


def test_an_entry_of_another_kind_is_a_miss(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Other:
        rows: pl.DataFrame
        fact: int

    entries = make(tmp_path)
    assert entries.get(put(entries, "a"), Other, {}) is None


def test_a_table_that_was_exchanged_is_a_miss(tmp_path: Path) -> None:
    entries = make(tmp_path)
    key, other = put(entries, "a"), put(entries, "b", rows=pl.DataFrame({"a": [1]}))
    (tmp_path / ENTRIES / other / "rows.parquet").replace(tmp_path / ENTRIES / key / "rows.parquet")
    assert entries.get(key, Thing, {"path": "p"}) is None


def test_entries_whose_folders_were_swapped_are_misses(tmp_path: Path) -> None:
    entries = make(tmp_path)
    folders = [tmp_path / ENTRIES / put(entries, name, fact=Fact(name)) for name in "ab"]
    folders[0].rename(tmp_path / "swap")
    folders[1].rename(folders[0])
    (tmp_path / "swap").rename(folders[1])
    for folder in folders:
        assert entries.get(folder.name, Thing, {"path": "p"}) is None
        assert not folder.exists()


def test_a_manifest_cannot_name_files_elsewhere(tmp_path: Path) -> None:
    folder = tmp_path / "entry"
    folder.mkdir()
    dump(thing(), "key", folder, {"path": ""})
    (folder / "rows.parquet").replace(tmp_path / "rows.parquet")
    text = (folder / MANIFEST).read_bytes().partition(b"\n")[2]
    text = text.replace(b'"rows":{', b'"../rows":{', 1)
    digest = hashlib.blake2b(text, digest_size=16).hexdigest()
    (folder / MANIFEST).write_bytes(f"{digest}\n".encode() + text)
    with pytest.raises(UnfitError, match="no field"):
        fetch("key", folder)


def test_an_entry_of_other_fields_is_none(tmp_path: Path) -> None:
    dump(thing(), "key", tmp_path, {"path": ""})
    with pytest.raises(UnfitError, match="other fields"):
        load(Thing, fetch("key", tmp_path), {})


@pytest.mark.parametrize(
    "fact", [Fact("a", {"t": (1, 2)}), Fact("a", {"f": float("nan")}), Fact("a", {"k": object()})]
)
def test_what_json_cannot_hold_is_not_cached(tmp_path: Path, fact: Fact) -> None:
    entries = make(tmp_path)
    assert entries.get(put(entries, "a", fact=fact), Thing, {"path": "p"}) is None
    assert list((tmp_path / ENTRIES).iterdir()) == []
    assert list((tmp_path / WORK).iterdir()) == []


def test_the_least_recently_used_entries_go_first(tmp_path: Path) -> None:
    entries = make(tmp_path)
    keys = [put(entries, name) for name in "abcd"]
    size = stored(tmp_path)[0].bytes
    now = time.time()
    for age, key in enumerate(reversed(keys)):
        os.utime(tmp_path / ENTRIES / key / MANIFEST, (now - 60 * age, now - 60 * age))
    assert entries.get(keys[0], Thing, {"path": "p"}) is not None
    make(tmp_path, 2 * size).evict()
    assert {one.path.name for one in stored(tmp_path)} == {keys[0], keys[3]}


def test_an_entry_larger_than_the_cache_is_not_kept(tmp_path: Path) -> None:
    put(make(tmp_path, 100), "a")
    assert stored(tmp_path) == []


def test_room_is_made_before_an_entry_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(make(tmp_path), "a")
    room = stored(tmp_path)[0].bytes
    totals = []
    rename = Path.rename

    def watched(path: Path, target: Path) -> Path:
        renamed = rename(path, target)
        totals.append(sum(entry.bytes for entry in stored(tmp_path)))
        return renamed

    monkeypatch.setattr(Path, "rename", watched)
    for name in "bcd":
        put(make(tmp_path, room), name)
    assert max(totals) <= room
    assert [entry.path.name for entry in stored(tmp_path)] == [entry_key("d")]


def test_what_two_writers_add_at_the_same_time_is_evicted_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second writer's entry appears after the first has made room, before it is in place."""
    put(make(tmp_path), "a")
    room = stored(tmp_path)[0].bytes
    rename = Path.rename

    def late(path: Path, target: Path) -> Path:
        if target.parent.name == ENTRIES:
            monkeypatch.setattr(Path, "rename", rename)
            put(make(tmp_path, room), "other writer")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", late)
    put(make(tmp_path, room), "b")
    assert sum(entry.bytes for entry in stored(tmp_path)) <= room


@pytest.mark.parametrize(("spare", "fits"), [(0, True), (-1, False)])
def test_an_entry_of_exactly_the_limit_is_cached(tmp_path: Path, spare: int, fits: bool) -> None:
    put(make(tmp_path / "measured"), "a")
    (entry,) = stored(tmp_path / "measured")
    put(make(tmp_path / "cache", entry.bytes + spare), "a")
    assert len(stored(tmp_path / "cache")) == fits


@pytest.mark.parametrize(("age_s", "stays"), [(-1, True), (+1, False)])
def test_entries_and_work_go_when_they_are_old_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age_s: int, stays: bool
) -> None:
    entries = make(tmp_path)
    manifest = tmp_path / ENTRIES / put(entries, "a") / MANIFEST
    work = tmp_path / WORK / "entry-left"
    work.mkdir()
    now = 2_000_000_000
    monkeypatch.setattr(time, "time", lambda: float(now))
    used = now - entries_module.UNUSED_S - age_s
    begun = now - entries_module.ABANDONED_S - age_s
    os.utime(manifest, (used, used))
    os.utime(work, (begun, begun))
    entries.evict()
    assert (manifest.exists(), work.exists()) == (stays, stays)


@pytest.mark.parametrize(("files", "left"), [(10, 10), (11, 5)])
def test_the_index_is_halved_when_it_is_beyond_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int, left: int
) -> None:
    monkeypatch.setattr(entries_module, "MAX_INDEXED", 10)
    (tmp_path / INDEX).mkdir()
    for number in range(files):
        (tmp_path / INDEX / f"stat-{number:032x}").write_text("x")
    make(tmp_path).evict()
    assert len(list((tmp_path / INDEX).iterdir())) == left


def test_an_entry_larger_than_the_cache_evicts_nothing(tmp_path: Path) -> None:
    small = put(make(tmp_path), "a")
    room = 2 * stored(tmp_path)[0].bytes
    rows = pl.DataFrame({"n": np.random.default_rng(0).integers(0, 2**62, room // 4)})
    put(make(tmp_path, room), "b", rows=rows)
    assert [one.path.name for one in stored(tmp_path)] == [small]
    assert list((tmp_path / WORK).iterdir()) == []


def test_what_has_another_name_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries_module, "MAX_INDEXED", 0)
    theirs = [tmp_path / part / "run1" / "thesis.txt" for part in (ENTRIES, INDEX, WORK)]
    for file in theirs:
        file.parent.mkdir(parents=True)
        file.write_text("mine")
        os.utime(file.parent, (1, 1))
    put(make(tmp_path), "a")
    make(tmp_path, 0).evict()
    assert stored(tmp_path) == []
    assert [file.read_text() for file in theirs] == ["mine"] * 3


def test_what_nobody_uses_and_what_a_killed_process_left_goes(tmp_path: Path) -> None:
    entries = make(tmp_path)
    old, new = put(entries, "a"), put(entries, "b")
    (tmp_path / WORK / "entry-left").mkdir()
    (tmp_path / WORK / "entry-busy").mkdir()
    long_ago = time.time() - entries_module.UNUSED_S - 60
    os.utime(tmp_path / ENTRIES / old / MANIFEST, (long_ago, long_ago))
    os.utime(tmp_path / WORK / "entry-left", (long_ago, long_ago))
    entries.evict()
    assert [one.path.name for one in stored(tmp_path)] == [new]
    assert [path.name for path in (tmp_path / WORK).iterdir()] == ["entry-busy"]


def test_the_index_of_files_stays_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries_module, "MAX_INDEXED", 10)
    (tmp_path / INDEX).mkdir()
    files = [tmp_path / INDEX / f"stat-{number:032x}" for number in range(11)]
    for number, file in enumerate(files):
        file.write_text("x")
        os.utime(file, (number, number))
    make(tmp_path).evict()
    assert sorted((tmp_path / INDEX).iterdir()) == files[6:]


def test_only_the_user_can_look_into_it(tmp_path: Path) -> None:
    put(make(tmp_path / "made" / "here"), "a")
    for folder in ("", ENTRIES, WORK):
        assert (tmp_path / "made" / "here" / folder).stat().st_mode & 0o777 == 0o700
