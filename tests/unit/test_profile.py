"""Profiles: what they refuse, what they know of themselves, saving and opening again."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import solscope
from solscope.errors import DamagedFileError, InputError, UsageError
from solscope.events import EVENT_SCHEMA
from solscope.profile import (
    Device,
    Metadata,
    Profile,
    ProfileWarning,
    is_saved_profile,
    load_saved,
)
from solscope.views.coverage import coverage
from tests.making import aggregate, attributed, event, profile

SMALL = profile(event("kernel", "k", 0, 5))
FULL = replace(
    profile(
        event("cpu_op", "aten::mm", 0, 90, external_id=3, input_dims="[[2,3],[3,4]]"),
        event("runtime", "cudaLaunchKernel", 10, 5, correlation=7),
        event("kernel", "void gemm<1>(核)", 40, 30, correlation=7, grid="1,2,3", rank=1),
        event("memcpy", "", -5, None, bytes=2**40),
        framework="vllm",
        versions={"torch_version": "2.8.0"},
        rank=1,
        world_size=8,
        host="box",
        unix_offset_ns=1_700_000_000_123_456_789,
        stage="decode",
        about={"with_stack": True, "a.tag": "x", "schemaVersion": 1, "f": 0.5},
    ),
    metrics=pl.DataFrame(
        {"t_ns": [1, 2], "metric": ["power_w", "load"], "device": [0, None], "value": [1.5, 2.0]}
    ),
    warnings=(ProfileWarning("truncated", "the file is cut off"),),
)


# Saving


def test_a_saved_profile_opens_without_loss(tmp_path: Path) -> None:
    opened = load_saved(FULL.save(tmp_path / "saved"))
    assert (opened.path, opened.format) == (FULL.path, FULL.format)
    assert opened.metadata == FULL.metadata
    assert opened.warnings == FULL.warnings
    assert_frame_equal(opened.events, FULL.events, categorical_as_str=True)
    assert opened.events.schema == EVENT_SCHEMA
    assert opened.metrics is not None
    assert FULL.metrics is not None
    assert_frame_equal(opened.metrics, FULL.metrics, categorical_as_str=True)


def test_aggregates_are_saved(tmp_path: Path) -> None:
    row = {"kind": "kernel", "name": "k", "calls": 3, "total_ns": 90, "mean_ns": 30.0}
    made = aggregate(row).profile
    opened = load_saved(made.save(tmp_path / "saved"))
    assert opened.is_aggregate
    assert opened.metrics is None
    assert_frame_equal(opened.aggregates, made.aggregates, categorical_as_str=True)


def test_open_takes_a_saved_profile(tmp_path: Path) -> None:
    folder = SMALL.save(tmp_path / "new" / "saved")
    assert folder == tmp_path / "new" / "saved"
    assert solscope.open(folder).path == str(folder)
    assert os.listdir(tmp_path / "new") == ["saved"]  # noqa: PTH208


def test_save_refuses_what_exists(tmp_path: Path) -> None:
    SMALL.save(tmp_path / "saved")
    with pytest.raises(UsageError, match=r"saved exists; pass force=True to replace it$"):
        FULL.save(tmp_path / "saved")
    assert load_saved(tmp_path / "saved").events.height == 1


def test_force_replaces_a_saved_profile(tmp_path: Path) -> None:
    SMALL.save(tmp_path / "saved")
    FULL.save(tmp_path / "saved", force=True)
    assert load_saved(tmp_path / "saved").events.height == 4
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]


def test_force_replaces_nothing_but_a_saved_profile(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("one")
    with pytest.raises(
        UsageError, match="exists and is not a saved profile; it will not be replaced"
    ):
        SMALL.save(tmp_path / "thesis", force=True)
    assert (tmp_path / "thesis" / "chapter").read_text() == "one"


def test_the_old_profile_stays_when_the_new_one_cannot_be_put_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = SMALL.save(tmp_path / "saved")
    rename = Path.rename

    def fail_once(self: Path, to: Path) -> Path:
        if to == target and not self.name.endswith(".old"):
            raise OSError(28, "No space left on device")
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", fail_once)
    with pytest.raises(OSError, match="No space left"):
        FULL.save(target, force=True)
    assert load_saved(target).events.height == 1
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]


def test_a_save_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        SMALL.save(tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []


def test_what_is_a_saved_profile(tmp_path: Path) -> None:
    assert is_saved_profile(SMALL.save(tmp_path / "saved"))
    assert not is_saved_profile(tmp_path)
    assert not is_saved_profile(tmp_path / "absent")


# Damage


def change_manifest(old: bytes, new: bytes) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / "profile.json").read_bytes()
        assert old in text
        (folder / "profile.json").write_bytes(text.replace(old, new))

    return change


def change_events(**columns: object) -> Callable[[Path], None]:
    return lambda folder: pl.DataFrame(columns).write_parquet(folder / "events.parquet")


NESTED = b"[" * 100_000 + b"]" * 100_000
DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no manifest": (lambda folder: (folder / "profile.json").unlink(), "No such file"),
    "no events": (lambda folder: (folder / "events.parquet").unlink(), "No such file"),
    "no aggregates": (lambda folder: (folder / "aggregates.parquet").unlink(), "No such file"),
    "manifest cut off": (lambda folder: (folder / "profile.json").write_bytes(b"{"), "truncated"),
    "manifest lacks a member": (change_manifest(b'"format"', b'"form"'), "`format`"),
    "manifest with a wrong type": (change_manifest(b'"kineto"', b"7"), "`str`"),
    "manifest not UTF-8": (change_manifest(b"made.json", b"\xff.json"), "utf-8"),
    "manifest nested too deep": (
        change_manifest(b'"about": {}', b'"about": {"a": %s}' % NESTED),
        "recursion",
    ),
    "not Parquet": (lambda folder: (folder / "events.parquet").write_bytes(b"x"), "arquet"),
    "Parquet without content": (
        lambda folder: (folder / "events.parquet").write_bytes(b"PAR1" * 3),
        "arquet",
    ),
    "unknown column": (change_events(secret=[1]), "column 'secret' is not one of kind, name"),
    "unknown kind": (change_events(kind=["quantum"]), "quantum"),
    "text for a number": (change_events(start_ns=["soon"]), "soon"),
    "metrics of another kind": (
        lambda folder: pl.DataFrame({"a": [1]}).write_parquet(folder / "metrics.parquet"),
        "column 'a' is not one of t_ns",
    ),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_a_damaged_folder_is_one_line(tmp_path: Path, case: str) -> None:
    damage, reason = DAMAGES[case]
    folder = SMALL.save(tmp_path / "saved")
    damage(folder)
    with pytest.raises(DamagedFileError) as caught:
        load_saved(folder)
    message = str(caught.value)
    assert message.startswith(f"{folder}: this saved profile cannot be read (")
    assert message.endswith("); save it again from the original profile")
    assert reason in message
    assert len(message.splitlines()) == 1


def test_a_folder_of_another_version(tmp_path: Path) -> None:
    folder = SMALL.save(tmp_path / "saved")
    change_manifest(b'"solscope_profile": 1', b'"solscope_profile": 2')(folder)
    with pytest.raises(DamagedFileError) as caught:
        load_saved(folder)
    assert str(caught.value) == (
        f"{folder}: saved by format version 2, this solscope reads 1; "
        "save it again from the original profile"
    )


def test_the_manifest_can_be_read_by_others(tmp_path: Path) -> None:
    folder = SMALL.save(tmp_path / "saved")
    manifest = msgspec.json.decode((folder / "profile.json").read_bytes())
    assert manifest["solscope_profile"] == 1
    assert manifest["format"] == "kineto"


# Sums

CENTURY = 100 * 365 * 24 * 3600 * 10**9
TOO_LONG = "made.*: its durations add up to more than two centuries"


def test_events_beyond_two_centuries_are_refused() -> None:
    with pytest.raises(DamagedFileError, match=TOO_LONG):
        profile(event("kernel", "a", 0, CENTURY), event("kernel", "b", 0, CENTURY + 1))


def test_one_century_is_believed() -> None:
    assert profile(event("kernel", "a", 0, CENTURY)).events["dur_ns"].to_list() == [CENTURY]


def test_aggregates_beyond_two_centuries_are_refused() -> None:
    row = {"kind": "kernel", "calls": 1, "total_ns": 2 * CENTURY}
    with pytest.raises(DamagedFileError, match=TOO_LONG):
        aggregate({**row, "name": "a"}, {**row, "name": "b"})


def test_tables_are_made_to_conform() -> None:
    made = Profile("x", "kineto", Metadata(), pl.DataFrame({"kind": ["kernel"], "start_ns": [1]}))
    assert made.events.schema == EVENT_SCHEMA
    assert made.events["dur_ns"].to_list() == [None]


def test_a_foreign_column_is_refused() -> None:
    with pytest.raises(InputError, match="column 'odd' is not one of kind, name"):
        Profile("x", "kineto", Metadata(), pl.DataFrame({"odd": [1]}))


# Coverage

LAUNCH = event("runtime", "cudaLaunchKernel", 0, 1, correlation=1)


def linked_pct(*events: dict[str, object]) -> float | None:
    return profile(*events).coverage.linked_pct


def test_coverage_is_the_share_of_gpu_time_with_a_launch() -> None:
    linked = event("kernel", "a", 5, 30, correlation=1)
    lost = event("kernel", "b", 40, 50, correlation=99)
    bare = event("memcpy", "c", 90, 20)
    assert linked_pct(LAUNCH, linked, lost, bare) == 30.0


def test_launches_belong_to_their_rank() -> None:
    linked = event("kernel", "a", 5, 30, correlation=1)
    assert linked_pct({**LAUNCH, "rank": 0}, {**linked, "rank": 0}) == 100.0
    assert linked_pct({**LAUNCH, "rank": 0}, {**linked, "rank": 1}) == 0.0


def test_coverage_of_no_gpu_time() -> None:
    assert linked_pct(LAUNCH) is None
    assert linked_pct(LAUNCH, event("kernel", "a", 5, 0, correlation=1)) is None
    assert linked_pct(LAUNCH, event("kernel", "a", 5, None, correlation=1)) is None


def test_a_launch_that_is_recorded_twice_counts_once() -> None:
    driver = event("driver", "cuLaunchKernel", 0, 1, correlation=1)
    assert linked_pct(LAUNCH, driver, event("kernel", "a", 5, 30, correlation=1)) == 100.0


# Labels

LABELS = {
    Device(0, name="NVIDIA H200"): "NVIDIA H200",
    Device(1): "GPU 1 (not described)",
    Device(2, vendor="amd", arch="gfx942", compute_units=304, memory_bytes=192 << 30): (
        "AMD GPU 2 (gfx942, 304 CUs, 192 GiB)"
    ),
    Device(3, vendor="nvidia", arch="sm_90"): "NVIDIA GPU 3 (sm_90)",
}


@pytest.mark.parametrize("device", LABELS)
def test_the_label_of_a_device(device: Device) -> None:
    assert device.label == LABELS[device]


def test_coverage_is_that_of_the_views_with_several_processes() -> None:
    # Both processes use correlation 1, and correlation 0 is no id at all.
    made = attributed(
        event("runtime", "cudaLaunchKernel", 0, 5, correlation=1, pid=1),
        event("runtime", "cudaGetDevice", 0, 5, correlation=0, pid=2),
        event("kernel", "gemm", 10, 30, correlation=1, pid=1),
        event("kernel", "gemm", 50, 10, correlation=1, pid=2),
        event("kernel", "gemm", 70, 10, correlation=0, pid=2),
    )
    assert made.profile.coverage.linked_pct == 60.0
    assert coverage(made).linked_pct == 60.0
