"""Names, device names of profiles, and files."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from solscope import hardware
from solscope.errors import InputError, UsageError
from solscope.hardware import find, load, match_device, merge

GIB = 1 << 30

FILE = """
name = "Mine"
title = "My GPU"
vendor = "nvidia"

[sources.sheet]
title = "a data sheet"
date = "2026-01-02"

[peaks]
"tensor.bf16" = { value = 100e12, unit = "FLOP/s", source = "sheet", note = "halved" }

[memory]
"hbm.bandwidth" = { value = 2e12, unit = "byte/s", source = "I asked", date = "2026-02-03" }
"""


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("H100", "H100"),
        ("h100", "H100"),
        ("h100-sxm", "H100"),
        ("H100-PCIe", "H100-PCIe"),
        ("h100 pcie", "H100-PCIe"),
        ("rtx 4090", "RTX4090"),
        ("xpu-a", "XPU-A"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("AMD Instinct MI300X", "MI300X"),
    ],
)
def test_names_in_any_case(written: str, name: str) -> None:
    assert find(written).name == name


def test_an_unknown_name_lists_what_exists_and_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"no hardware 'H10'; did you mean 'H100'\? .*A100-40"):
        find("H10")


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA H800", "H800"),
        ("NVIDIA H20", "H20"),
        ("NVIDIA A100-SXM4-40GB", "A100-40"),
        ("NVIDIA A100 80GB PCIe", "A100-80"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA B300 SXM6 AC", "B300"),
        ("NVIDIA GB200", "GB200"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("AMD Instinct MI250X", "MI250X"),
        ("AMD Instinct MI300X", "MI300X"),
        ("AMD Instinct MI300X VF", "MI300X"),
        ("AMD Instinct MI325X", "MI325X"),
        ("AMD Instinct MI355X", "MI355X"),
    ],
)
def test_a_device_name_finds_its_file(device: str, name: str) -> None:
    found = match_device(device)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    "device",
    [
        "NVIDIA H100 NVL",
        "NVIDIA H200 NVL",
        "NVIDIA GH200 480GB",
        "NVIDIA H20-3e",
        "NVIDIA L40",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "Tesla T4",
        "",
        None,
    ],
)
def test_another_device_finds_none(device: str | None) -> None:
    assert match_device(device) is None


def test_memory_decides_between_two_of_one_name() -> None:
    recorded = "NVIDIA A100-PG509-200"
    forty = match_device(recorded, 108, 42505273344, "sm_80")
    eighty = match_device(recorded, 108, 85899345920, "sm_80")
    assert forty is not None
    assert eighty is not None
    assert (forty.name, eighty.name) == ("A100-40", "A100-80")
    assert match_device(recorded) is None


def test_facts_find_a_device_without_a_name() -> None:
    found = match_device("", 304, 206141652992, "gfx94x")
    assert found is not None
    assert found.name == "MI300X"


def test_facts_that_fit_two_find_none() -> None:
    assert match_device("", 132, 80 * GIB, "sm_90") is None, "H100 or H800"


def test_a_partition_of_a_gpu_is_not_that_gpu() -> None:
    assert match_device("AMD Instinct MI300X", 38, 24 * GIB, "gfx942") is None


def test_an_odd_architecture_is_no_pattern() -> None:
    assert match_device("NVIDIA H200", arch="sm_9(") is None


def test_a_file_of_the_user(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(FILE, encoding="utf-8")

    mine = find(str(file))

    assert mine.name == "Mine"
    assert mine.peaks["tensor.bf16"] == hardware.Figure(
        100e12, "FLOP/s", "a data sheet", "2026-01-02", "halved"
    )
    assert mine.memory["hbm.bandwidth"].date == "2026-02-03"
    assert mine.value("l2.size") is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"tensor.bf16"', '"tensor.bf61"', "no figure 'tensor.bf61' in \\[peaks\\]"),
        ("2e12", "-2e12", "is not a positive number"),
        ('"byte/s"', '"TB/s"', "no unit 'TB/s'"),
        (', date = "2026-02-03"', "", "missing required field `date`"),
        ("[memory]", "[memory", "not a hardware file"),
        ("[memory]", "[memory]\nx = " + "9" * 5000, "not a hardware file"),
        ("{ value = 100e12", "7 # {", "must be a table"),
    ],
)
def test_a_bad_file_is_named_with_its_fault(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(FILE.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError, match=rf"bad\.toml: .*{message}"):
        load(file)


def test_a_missing_file() -> None:
    with pytest.raises(InputError, match="no such file"):
        find("nowhere.toml")


def test_measured_figures_go_first_and_the_vendor_fills_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = FILE.replace('"Mine"', '"H200"').replace("\n[sources", "\nmeasured = true\n[sources")
    for name in ("H200", "H100"):
        text = (hardware.FOLDER / f"{name}.toml").read_text(encoding="utf-8")
        (tmp_path / f"{name}.toml").write_text(text, encoding="utf-8")
    (tmp_path / "H200.measured.toml").write_text(measured, encoding="utf-8")
    monkeypatch.setattr(hardware, "FOLDER", tmp_path)

    found = find("h200", measured=True)

    assert hardware.names() == ("H100", "H200")
    assert found.measured
    assert find("h200.measured") == found
    assert found.title == "NVIDIA H200 SXM 141 GB"
    assert found.value("tensor.bf16") == 100e12
    assert found.value("tensor.fp8") == 1978.9e12
    with pytest.raises(UsageError, match=r"nothing was measured for H100 \(there is: H200\)"):
        find("H100", measured=True)


def test_merge_fills_gaps_only() -> None:
    filled = merge(find("XPU-A"), find("MI300X"))
    assert filled.value("hbm.bandwidth") == 5.3e12
    assert filled.value("llc.size") == 256 * 2**20


def test_a_measured_file_is_parsed_again_only_when_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = hardware.measured_path("H200").read_text(encoding="utf-8")
    file = tmp_path / "H200.measured.toml"
    file.write_text(text, encoding="utf-8")
    monkeypatch.setattr(hardware, "measured_path", lambda _: file)
    parsed = Mock(wraps=hardware.load)
    monkeypatch.setattr(hardware, "load", parsed)
    vendor = hardware.find("H200")
    for _ in range(3):
        assert hardware.with_measured(vendor) == hardware.with_measured(vendor)
        hardware.find("H200", measured=True)
    assert parsed.call_count == 1
    file.write_text(f"{text}\n# measured again\n", encoding="utf-8")
    hardware.with_measured(vendor)
    assert parsed.call_count == 2
