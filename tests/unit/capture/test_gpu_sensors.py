"""GPU sensors against stand-ins for the vendors' libraries: no GPU is needed."""

from __future__ import annotations

import ctypes
import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from solscope.capture import amd, nvml
from solscope.capture.base import MissingSensorError

Row = tuple[str, str, float]


def sampled(sensor: Any) -> dict[str, float]:
    rows: list[Row] = []
    sensor.sample(lambda _time, metric, device, value: rows.append((metric, device, value)))
    assert {device for _, device, _ in rows} <= {sensor.device}
    return {metric: value for metric, _, value in rows}


class FakeLibrary:
    """NVML for one GPU, shared with process 1, which is none of ours."""

    def __init__(self, ours: int, refuse: tuple[str, ...] = ()) -> None:
        self._ours, self._refuse = ours, refuse
        self.nvmlErrorString = SimpleNamespace(restype=None)
        self.seen: list[int] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)
        return lambda *arguments: 3 if name in self._refuse else self._answer(name, arguments)

    def _answer(self, name: str, arguments: tuple[Any, ...]) -> int:
        out: Any = getattr(arguments[-1], "_obj", None) if arguments else None
        if name == "nvmlDeviceGetUtilizationRates":
            out.gpu, out.memory = 97, 41
        elif name == "nvmlDeviceGetClockInfo":
            out.value = {1: 1980, 2: 3201}[arguments[1]]
        elif name == "nvmlDeviceGetMemoryInfo":
            out.used = 8 << 30
        elif name == "nvmlDeviceGetComputeRunningProcesses_v3":
            arguments[1]._obj.value = 2
            for place, (pid, used) in enumerate([(self._ours, 1 << 30), (1, 2 << 30)]):
                arguments[2][place].pid, arguments[2][place].used = pid, used
        elif name == "nvmlDeviceGetProcessUtilization":
            self.seen.append(arguments[3].value)
            arguments[2]._obj.value = 3
            for place, (pid, at, sm) in enumerate(
                [(self._ours, 50, 10), (self._ours, 90, 60), (1, 80, 35)]
            ):
                entry = arguments[1][place]
                entry.pid, entry.timestamp_us, entry.sm = pid, at, sm
        elif name == "nvmlDeviceGetCount_v2":
            out.value = 1
        elif name != "nvmlInit_v2" and out is not None and hasattr(out, "value"):
            out.value = VALUES.get(name, 0)
        return 0


VALUES = {
    "nvmlDeviceGetPowerUsage": 512_000,
    "nvmlDeviceGetTemperature": 61,
    "nvmlDeviceGetTotalEnergyConsumption": 123_456_789_012,
    "nvmlDeviceGetCurrentClocksThrottleReasons": 0x44,
    "nvmlDeviceGetPcieThroughput": 777,
}


def gpu(monkeypatch: pytest.MonkeyPatch, **refuse: Any) -> tuple[nvml.Nvml, FakeLibrary]:
    library = FakeLibrary(os.getpid(), **refuse)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    return nvml.Nvml(), library


def test_state_of_a_shared_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, _ = gpu(monkeypatch)
    [handle] = loaded.devices()
    assert sampled(nvml.GpuState(loaded, 0, handle, os.getpid())) == {
        "gpu_usage": 97,
        "gpu_mem_util": 41,
        "gpu_sm_frequency": 1980,
        "gpu_mem_frequency": 3201,
        "gpu_power_mw": 512_000,
        "gpu_temperature": 61,
        "gpu_energy_mj": 123_456_789_012,
        "gpu_throttle_reasons": 0x44,
        "gpu_mem_used": 8 << 30,
        "gpu_processes": 2,
        "gpu_other_processes": 1,
        "gpu_other_mem_used": 2 << 30,
        "gpu_process_usage": 60,
        "gpu_other_usage": 35,
    }


def test_shares_that_were_seen_are_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, library = gpu(monkeypatch)
    sensor = nvml.GpuState(loaded, 0, loaded.devices()[0], os.getpid())
    assert "gpu_other_usage" in sampled(sensor)
    assert "gpu_other_usage" not in sampled(sensor)
    assert library.seen == [0, 90]


def test_what_the_driver_refuses_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = ("nvmlDeviceGetPowerUsage", "nvmlDeviceGetProcessUtilization")
    loaded, _ = gpu(monkeypatch, refuse=refused)
    found = sampled(nvml.GpuState(loaded, 0, loaded.devices()[0], os.getpid()))
    assert "gpu_power_mw" not in found
    assert "gpu_process_usage" not in found
    assert found["gpu_usage"] == 97


def test_in_a_container_it_cannot_be_told_who_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver gives numbers of the host, and ours is not among them."""
    monkeypatch.setattr(ctypes, "CDLL", lambda _: FakeLibrary(ours=2**22 + 5))
    loaded = nvml.Nvml()
    found = sampled(nvml.GpuState(loaded, 0, loaded.devices()[0], os.getpid()))
    assert found["gpu_processes"] == 2
    assert not [metric for metric in found if "other" in metric or "process_usage" in metric]


def test_link(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, _ = gpu(monkeypatch)
    found = sampled(nvml.GpuLink(loaded, 0, loaded.devices()[0]))
    assert found == {"gpu_pcie_transmit": 777, "gpu_pcie_receive": 777}


def test_without_a_driver_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_name: str) -> None:
        raise OSError("libnvidia-ml.so.1: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", fail)
    with pytest.raises(MissingSensorError, match="no NVIDIA driver library"):
        nvml.Nvml()


class FakeAmdError(Exception):
    pass


def fake_amdsmi() -> Any:
    module: Any = ModuleType("amdsmi")
    module.AmdSmiException = FakeAmdError
    module.AmdSmiClkType = SimpleNamespace(GFX="gfx", MEM="mem")
    module.AmdSmiTemperatureType = SimpleNamespace(HOTSPOT=1)
    module.AmdSmiTemperatureMetric = SimpleNamespace(CURRENT=0)
    module.amdsmi_init = lambda: None
    module.amdsmi_get_gpu_activity = lambda _: {"gfx_activity": 88, "umc_activity": "N/A"}
    clocks = {"gfx": {"clk": 2100}, "mem": {"cur_clk": 1300}}
    module.amdsmi_get_clock_info = lambda _, kind: clocks[kind]
    module.amdsmi_get_gpu_vram_usage = lambda _: {"vram_total": 196_592, "vram_used": 1024}
    module.amdsmi_get_power_info = lambda _: {
        "current_socket_power": "N/A",
        "average_socket_power": 650,
    }

    def refuse(*_: Any) -> None:
        raise FakeAmdError("not supported on this guest")

    module.amdsmi_get_temp_metric = refuse
    module.amdsmi_get_gpu_process_list = lambda _: [{"pid": os.getpid()}, {"pid": 1}]
    return module


def test_amd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "amdsmi", fake_amdsmi())
    assert sampled(amd.AmdGpu(amd.load(), 3, object(), os.getpid())) == {
        "gpu_usage": 88,
        "gpu_sm_frequency": 2100,
        "gpu_mem_frequency": 1300,
        "gpu_mem_used": 1 << 30,
        "gpu_power_mw": 650_000,
        "gpu_processes": 2,
        "gpu_other_processes": 1,
    }


def test_amd_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = fake_amdsmi()

    def fail() -> None:
        raise FakeAmdError("no GPU")

    module.amdsmi_init = fail
    monkeypatch.setitem(sys.modules, "amdsmi", module)
    with pytest.raises(MissingSensorError, match="does not start: no GPU"):
        amd.load()


def test_without_amdsmi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    with pytest.raises(MissingSensorError, match="not installed"):
        amd.load()
