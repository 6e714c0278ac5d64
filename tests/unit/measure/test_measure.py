"""Measuring without a GPU: statistics, choices, and the file it writes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from solscope import measure
from solscope.cli import run
from solscope.errors import MissingToolError, UsageError
from solscope.hardware import load
from solscope.measure.__main__ import main
from solscope.measure.card import Card, MeasuredCard, ProbeTimes, Reading, calls_in, short_name
from solscope.measure.file import check_free, write
from solscope.measure.floors import kernel_seconds, least_floor
from solscope.measure.memory import copy_sizes, memory_bandwidth
from solscope.measure.products import matrix_rates

GIB = 1 << 30


class FakeEvent:
    """A device event on a clock that each call moves on by its own time."""

    clock_ms = 0.0

    def __init__(self, enable_timing: bool) -> None:
        self.at_ms = 0.0

    def record(self) -> None:
        self.at_ms = FakeEvent.clock_ms

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: FakeEvent) -> float:
        return end.at_ms - self.at_ms


def takes(call_ms: float) -> Callable[[], None]:
    def run() -> None:
        FakeEvent.clock_ms += call_ms

    return run


def card_of(**properties: int) -> Card:
    torch = MagicMock()
    torch.cuda.Event = FakeEvent
    torch.version.hip = None
    torch.cuda.get_device_properties.return_value = SimpleNamespace(**properties)
    return Card(torch)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("solscope.measure.card.smi", lambda *_: {})
    monkeypatch.setattr("solscope.measure.card.PAUSE_S", 0.0)


def test_a_window_holds_as_many_calls_as_fill_it() -> None:
    assert calls_in(20.0, 3.0) == 7
    assert calls_in(20.0, 50.0) == 1
    assert calls_in(20.0, 0.0) == 200_000


def test_time_per_call_is_that_of_the_call() -> None:
    timing = card_of().time(takes(2.5))
    assert timing.median_ms == pytest.approx(2.5)
    assert len(timing.windows_ms) == 35, "0.7 s in windows of 20 ms"


def test_bursts_are_timed_one_by_one() -> None:
    timing = card_of().time_bursts(takes(4.0), 4.0)
    assert timing.windows_ms == pytest.approx([4.0] * 7)


def test_spread_says_how_sure_the_median_is() -> None:
    assert ProbeTimes([9.0, 10.0, 10.0, 10.0, 11.0]).spread == (
        "median of 5 windows, middle half within 0.0 %"
    )
    assert ProbeTimes([8.0, 9.0, 10.0, 11.0, 12.0]).spread.endswith("within 20.0 %")
    assert ProbeTimes([1.0]).spread == "1 window"


def test_buffers_fit_on_the_card_and_not_in_its_cache() -> None:
    assert copy_sizes(141 * GIB, 60 << 20) == [GIB // 2, 2 * GIB, 4 * GIB]
    assert copy_sizes(8 * GIB, 0) == [GIB // 2, 2 * GIB]
    assert copy_sizes(2 * GIB, GIB) == [GIB // 2], "the largest that fits"


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100-PCIe"),
        ("NVIDIA GB200", "GB200"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("AMD Instinct MI300X VF", "MI300X"),
        ("NVIDIA Quadro X/1", "Quadro-X-1"),
    ],
)
def test_a_device_gets_a_short_name(device: str, name: str) -> None:
    assert short_name(device) == name


def test_bandwidth_is_the_largest_of_read_write_and_copy() -> None:
    card = card_of(total_memory=8 * GIB, L2_cache_size=0)
    card.time = lambda run, **_: ProbeTimes([1.0])  # type: ignore[method-assign]
    rates = {r.name: r.value for r in memory_bandwidth(card)}
    # The larger buffer is 2 GiB. In 1 ms a sum reads it once, a dot product or copy moves it twice.
    assert rates == {
        "hbm.read": 4 * GIB * 1e3,
        "hbm.write": 2 * GIB * 1e3,
        "hbm.copy": 4 * GIB * 1e3,
        "hbm.bandwidth": 4 * GIB * 1e3,
    }


def test_a_matrix_rate_is_work_over_time() -> None:
    card = card_of()
    card.time = lambda run, **_: ProbeTimes([2.0])  # type: ignore[method-assign]
    card.time_bursts = lambda run, call_ms: ProbeTimes([1.0])  # type: ignore[method-assign]
    found = {reading.name: reading for reading in matrix_rates(card)}
    assert list(found)[:4] == [
        "tensor.bf16",
        "tensor.bf16.sustained",
        "tensor.fp16",
        "tensor.fp16.sustained",
    ]
    # 2 * 16384 * 8192 * 8192 FLOP in 1 ms, and in 2 ms
    assert found["tensor.bf16"].value == pytest.approx(2.199e15, rel=1e-3)
    assert found["tensor.bf16.sustained"].value == pytest.approx(1.0995e15, rel=1e-3)
    assert found["tensor.int8"].unit == "op/s"


def test_a_precision_that_the_card_lacks_is_skipped_and_named() -> None:
    card = card_of()
    card.time = lambda run, **_: (run(), ProbeTimes([1.0]))[1]  # type: ignore[method-assign]
    card.time_bursts = lambda run, call_ms: ProbeTimes([1.0])  # type: ignore[method-assign]
    card.torch._scaled_mm.side_effect = RuntimeError("only for sm_89 and later\nand more")
    names = [reading.name for reading in matrix_rates(card)]
    assert "tensor.fp8" not in names
    assert "tensor.int8" in names
    assert card.skipped == ["tensor.fp8: only for sm_89 and later"]


def test_the_floor_is_the_smaller_of_two_measurements() -> None:
    assert least_floor([0.9e-6, 0.7e-6, 0.8e-6], 1.1e-6, "empty").value == 0.7e-6
    assert least_floor([0.9e-6], 0.5e-6, "empty").value == 0.5e-6
    assert least_floor([], 0.5e-6, "empty").method == "graph.floor (empty kernel)"


def test_kernels_of_a_trace() -> None:
    trace = {
        "traceEvents": [
            {"cat": "kernel", "dur": 0.75},
            {"cat": "kernel", "dur": 0},
            {"cat": "cuda_runtime", "dur": 3.0},
            {"ph": "M"},
        ]
    }
    assert kernel_seconds(trace) == [0.75e-6]


MEASURED = MeasuredCard(
    "H200",
    "NVIDIA H200",
    "nvidia",
    "sm_90",
    [
        Reading("peaks", "tensor.bf16", 777.6912e12, "FLOP/s", 'a "quoted" method'),
        Reading("memory", "hbm.size", 150109880320, "byte", "driver"),
        Reading("chip", "launch.floor", 5.00172e-07, "s", "graph"),
    ],
    {"driver_version": "580.1", "skipped": "tensor.fp8: no\n\x1b[31m"},
)


def test_the_written_file_loads_again(tmp_path: Path) -> None:
    path = tmp_path / "H200.measured.toml"

    write(MEASURED, path)

    found = load(path)
    assert (found.name, found.title, found.measured) == ("H200", "NVIDIA H200", True)
    assert found.value("tensor.bf16") == 777.691e12
    assert found.value("hbm.size") == 150109880320
    assert found.value("launch.floor") == 5.00172e-07
    assert found.peaks["tensor.bf16"].note == 'a "quoted" method'
    assert found.peaks["tensor.bf16"].source == "solscope hardware measure on NVIDIA H200"
    assert found.about == {"driver_version": "580.1", "skipped": "tensor.fp8: no??[31m"}
    assert [file.name for file in tmp_path.iterdir()] == [path.name], "nothing half-written"


def test_standard_output_gets_the_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure, "measure", lambda _say: MEASURED)
    assert run(["hardware", "measure", "--out", "-"]) == 0
    path = tmp_path / "printed.toml"
    path.write_text(capsys.readouterr().out, encoding="utf-8")
    assert load(path).value("tensor.bf16") == 777.691e12


def test_an_existing_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match="--force"):
        write(MEASURED, path)
    assert path.read_text(encoding="utf-8") == "mine"
    write(MEASURED, path, force=True)
    assert load(path).name == "H200"


def test_a_folder_that_is_missing_is_named_before_measuring(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        check_free(tmp_path / "none" / "a.toml", force=False)


def test_without_torch_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingToolError, match="pip install torch"):
        measure.import_torch()


def test_without_a_gpu_the_message_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = MagicMock()
    torch.cuda.is_available.return_value = False
    monkeypatch.setitem(sys.modules, "torch", torch)
    with pytest.raises(MissingToolError, match="finds none"):
        measure.import_torch()


def test_it_runs_from_a_clone_without_any_package(tmp_path: Path) -> None:
    """`-S` and `-E` hide all that is installed: what is left is a clone and Python."""
    folder = Path(measure.__file__).parent
    done = subprocess.run(
        [sys.executable, "-S", "-E", str(folder), str(tmp_path / "a.toml")],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("solscope: measuring needs PyTorch: pip install torch")
    assert done.stderr.count("\n") == 1


def test_alone_it_says_how_to_call_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err
