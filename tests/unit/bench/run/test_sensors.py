"""Readings of the GPU during timed calls."""

from __future__ import annotations

from ctypes import c_void_p

import pytest

torch = pytest.importorskip("torch")

from solscope.bench.run.sensors import Card, Reading, Watch  # noqa: E402
from solscope.capture.base import MissingSensorError  # noqa: E402


def test_sensors_are_those_of_the_gpu_that_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Machine:
        gpus = "ab"

        def devices(self) -> list[c_void_p]:
            return [c_void_p(ord(name)) for name in self.gpus]

        def by_uuid(self, uuid: str) -> c_void_p | None:
            return c_void_p(ord(uuid)) if uuid in self.gpus else None

    monkeypatch.setattr("solscope.bench.run.sensors.Nvml", Machine)
    assert Card("b")._device.value == ord("b")
    for unknown in (None, "c"):
        with pytest.raises(MissingSensorError, match="which of 2 GPUs"):
            Card(unknown)
    monkeypatch.setattr(Machine, "gpus", "a")
    assert Card(None)._device.value == ord("a")


def test_sensors_give_the_readings_of_their_windows() -> None:
    watch = Watch("cpu")
    assert watch.during([(0.0, 1.0)]).reason == "no GPU is used"
    watch.readings = [Reading(at, 1000 + at, 2000, 300, 50, 4) for at in (1.0, 2.0, 3.0, 9.0)]
    found = watch.during([(1.5, 4.0)])
    assert found.sm_clock_mhz == [1002.0, 1002.5, 1003.0]
    assert found.throttle == ["power cap"]
