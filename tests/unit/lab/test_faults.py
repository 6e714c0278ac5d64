"""Every fault that needs no GPU: it acts, and leaves nothing behind."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from solscope.lab.cgroup import CpuGroup, NoGroupError
from solscope.lab.faults import faults
from solscope.lab.faults.base import Rig
from solscope.lab.faults.catalog import FAULTS
from solscope.lab.fork_server import ForkServer
from solscope.lab.loop import Loop
from tests.sampling import some

if not sys.platform.startswith("linux"):
    pytest.skip("the lab is for Linux", allow_module_level=True)
torch = pytest.importorskip("torch")


LAYERS = 2.0
"""Of the tiny model: what some doses count."""


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("lab")
    cores = os.sched_getaffinity(0)
    with ForkServer(cores, with_torch=False) as fork_server:
        loop = Loop("cpu", folder / "loop.log", tiny=True, helpers=1)
        loop.configure(loop.defaults)
        yield Rig(loop, fork_server, cores, cores, None, "not in this test", folder, loop.defaults)
        loop.close()


@pytest.mark.parametrize("name", some((fault.name for fault in FAULTS), 2))
def test_a_fault_leaves_nothing_behind(name: str, rig: Rig) -> None:
    fault = faults().get(name)
    reason = fault.unavailable(rig)
    # Changes of the program itself are harmless on a CPU, too.
    if reason and not (fault.needs_gpu and fault.family == "software"):
        pytest.skip(reason)
    threads, files = threading.active_count(), sorted(rig.folder.iterdir())
    with fault.inject(rig) as set_dose:
        for dose in (fault.doses[0], 0.0, fault.doses[1]):
            set_dose(min(dose, LAYERS) if fault.rebuilds else dose)
            rig.loop.step()
    assert rig.loop.hooks == {}
    assert rig.loop.settings == rig.base
    assert not rig.loop.lock.locked()
    assert threading.active_count() == threads
    assert sorted(rig.folder.iterdir()) == files
    assert os.sched_getaffinity(0) == rig.cores


def step_s(rig: Rig, count: int = 4) -> float:
    start = time.perf_counter()
    for _ in range(count):
        rig.loop.step()
    return (time.perf_counter() - start) / count


@pytest.mark.parametrize(("name", "dose"), [("slow_sleep", 200.0), ("slow_work", 200.0)])
def test_a_slow_section_takes_what_its_dose_says(name: str, dose: float, rig: Rig) -> None:
    with faults().get(name).inject(rig) as set_dose:
        set_dose(dose)
        assert step_s(rig, 2) >= 0.2


def test_a_held_lock_makes_the_step_wait(rig: Rig) -> None:
    with faults().get("lock_held").inject(rig) as set_dose:
        set_dose(100.0)
        time.sleep(0.05)
        assert step_s(rig) > 0.02


def test_collections_happen_once_a_step(rig: Rig) -> None:
    import gc

    seen: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            seen.append(rig.loop.index)

    with faults().get("gc").inject(rig) as set_dose:
        set_dose(1.0)
        gc.callbacks.append(note)
        first = rig.loop.index
        for _ in range(4):
            rig.loop.step()
        gc.callbacks.remove(note)
    assert set(seen) == set(range(first, first + 4))


def test_forced_writes_are_counted_by_the_dose(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[int] = []
    with faults().get("disk_io").inject(rig) as set_dose:
        monkeypatch.setattr(os, "fsync", forced.append)
        set_dose(0.5)
        for _ in range(8):
            rig.loop.step()
    assert len(forced) == 4


def test_one_core_for_the_main_thread_and_some_helpers(rig: Rig) -> None:
    if len(rig.cores) < 2:
        pytest.skip("there is one core only")
    [helper] = rig.loop.helper_ids
    with faults().get("cpu_affinity").inject(rig) as set_dose:
        set_dose(1.0)
        assert len(os.sched_getaffinity(0)) == len(os.sched_getaffinity(helper)) == 1
    assert os.sched_getaffinity(helper) == rig.cores


def test_more_prefills(rig: Rig) -> None:
    with faults().get("workload_mix").inject(rig) as set_dose:
        set_dose(2.0)
        assert rig.loop.settings.prefill_every == 1


def test_a_quota_is_set_and_taken_away() -> None:
    try:
        group = CpuGroup()
    except NoGroupError as error:
        pytest.skip(str(error))
    name = "cpu.max" if group.version == 2 else "cpu.cfs_quota_us"
    try:
        assert str(os.getpid()) in (group.folder / "cgroup.procs").read_text().split()
        group.limit(0.5)
        assert (group.folder / name).read_text().split()[0] == "50000"
        group.limit(None)
        assert (group.folder / name).read_text().split()[0] in ("max", "-1")
    finally:
        group.close()
    assert not group.folder.exists()


def test_no_quota_without_a_group(rig: Rig) -> None:
    assert faults().get("cpu_quota").unavailable(rig) == "not in this test"


def test_a_disk_that_is_none(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(time, "perf_counter", lambda: 0.0)
    reason = faults().get("disk_io").unavailable(rig)
    assert reason is not None
    assert "fsync is free" in reason
    assert not Path(rig.folder / "probe.log").exists()
