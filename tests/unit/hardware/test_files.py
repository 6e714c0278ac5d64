"""Every hardware file: complete, sane, and exact where the published roofline rests on it."""

from __future__ import annotations

import re

import pytest

from solscope.hardware import find, names
from solscope.hardware.base import CHIP, MEMORY, PIPES

every_gpu = pytest.mark.parametrize("name", names())

UNIT = {
    "tensor": "FLOP/s",
    "vector": "FLOP/s",
    "bandwidth": "byte/s",
    "size": "byte",
    "count": "count",
    "boost": "Hz",
    "base": "Hz",
    "step": "s",
}


def test_all_gpus_have_a_file() -> None:
    assert names() == (
        "A100-40",
        "A100-80",
        "B200",
        "B300",
        "GB200",
        "H100",
        "H100-PCIe",
        "H20",
        "H200",
        "H800",
        "L4",
        "L40S",
        "MI250X",
        "MI300X",
        "MI325X",
        "MI355X",
        "RTX4090",
        "XPU-A",
    )


@every_gpu
def test_the_file_is_named_after_the_gpu(name: str) -> None:
    assert find(name).name == name


@every_gpu
def test_every_figure_has_a_source_and_a_date(name: str) -> None:
    for figure in find(name).figures.values():
        assert len(figure.source) > 20, "a title, not a key"
        assert re.fullmatch(r"20\d\d-[01]\d-[0-3]\d", figure.date)


@every_gpu
def test_every_figure_has_the_unit_of_its_kind(name: str) -> None:
    for key, figure in find(name).figures.items():
        kind = key.partition(".")[0] if key in PIPES else key.rpartition(".")[2]
        expected = "op/s" if key in ("sfu", "tensor.int8") else UNIT[kind]
        if key == "clock.tensor":
            expected = "Hz"
        assert figure.unit == expected, key


@every_gpu
def test_what_every_bound_needs_is_there(name: str) -> None:
    assert {"tensor.bf16", "tensor.fp16", "vector.fp32", "hbm.bandwidth"} <= find(
        name
    ).figures.keys()


@every_gpu
def test_narrow_types_are_never_slower(name: str) -> None:
    gpu = find(name)
    order = ["vector.fp32", "tensor.tf32", "tensor.bf16", "tensor.fp8", "tensor.fp6", "tensor.fp4"]
    rates = [gpu.peaks[pipe].value for pipe in order if pipe in gpu.peaks]
    assert rates == sorted(rates)


@every_gpu
def test_sizes_are_of_the_right_order(name: str) -> None:
    gpu = find(name)
    ranges = {
        "hbm.size": (20e9, 400e9),
        "l2.size": (4e6, 200e6),
        "hbm.bandwidth": (0.2e12, 10e12),
        "l2.bandwidth": (2e12, 100e12),
        "clock.boost": (1e9, 3e9),
        "sm.count": (50, 320),
    }
    for key, (low, high) in ranges.items():
        value = gpu.value(key)
        assert value is None or low <= value <= high, key


@pytest.mark.parametrize(
    ("name", "flop_per_sm_and_clock"),
    [("A100-80", 2048), ("L4", 1024), ("L40S", 1024), ("MI300X", 2048), ("MI355X", 4096)],
)
def test_bf16_follows_from_units_and_clock(name: str, flop_per_sm_and_clock: int) -> None:
    gpu = find(name)
    count, clock = gpu.value("sm.count"), gpu.value("clock.boost")
    assert count is not None
    assert clock is not None
    assert gpu.value("tensor.bf16") == pytest.approx(
        flop_per_sm_and_clock * count * clock, rel=0.015
    )


@pytest.mark.parametrize(
    ("name", "tensor_clock"), [("H100", 1.83e9), ("H100-PCIe", 1.62e9), ("H200", 1.83e9)]
)
def test_hopper_rates_are_dense(name: str, tensor_clock: float) -> None:
    gpu = find(name)
    count = gpu.value("sm.count") or 0
    assert gpu.value("tensor.bf16") == pytest.approx(4096 * count * tensor_clock, rel=0.001)
    assert gpu.value("tensor.fp8") == pytest.approx(8192 * count * tensor_clock, rel=0.001)
    assert gpu.value("vector.fp32") == pytest.approx(
        256 * count * (gpu.value("clock.boost") or 0), rel=0.001
    )


def test_h20_is_as_the_suite_published_it() -> None:
    gpu = find("H20")
    assert gpu.value("tensor.bf16") == gpu.value("tensor.fp16") == 148000000000000.0
    assert gpu.value("tensor.fp8") == 296000000000000.0
    assert gpu.value("tensor.tf32") == 74000000000000.0
    assert gpu.value("vector.fp32") == 44000000000000.0
    assert gpu.value("hbm.bandwidth") == 4000000000000.0


def test_xpu_a_has_what_the_suite_published_and_nothing_else() -> None:
    assert {key: figure.value for key, figure in find("XPU-A").figures.items()} == {
        "tensor.bf16": 232650000000000.0,
        "tensor.fp16": 232650000000000.0,
        "tensor.fp8": 465300000000000.0,
        "vector.fp32": 29100000000000.0,
        "hbm.bandwidth": 5300000000000.0,
    }


@every_gpu
def test_keys_are_those_of_the_contract(name: str) -> None:
    assert find(name).figures.keys() <= {*PIPES, *MEMORY, *CHIP}
