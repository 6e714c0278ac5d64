"""What is recorded about the machine of a run."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from solscope.bench.catalog import built_in  # noqa: E402
from solscope.bench.run import machine  # noqa: E402
from solscope.bench.run.machine import PACKAGES, machine_mark  # noqa: E402


def test_versions_of_every_package_that_a_solution_needs_are_recorded() -> None:
    stated = {name for one in built_in() for name in one.about.dependencies}
    needed = {name.partition("==")[0] for name in stated}
    assert "sglang" in needed
    assert needed - {"einops", "ninja", "nvidia-ml-py", "packaging", "requests"} <= set(PACKAGES)


def test_a_mark_tells_machines_and_gpus_apart_without_naming_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marks = []
    for number in ("GPU-1", "GPU-2", "GPU-1"):
        monkeypatch.setattr(machine, "gpu_uuid", lambda number=number: number)
        marks.append(machine_mark("cuda"))
    if marks[0] is None:
        pytest.skip("this system does not number its starts")
    assert marks[0] == marks[2] != marks[1]
    assert machine_mark("cpu") == machine_mark("cpu") not in marks
    assert "GPU" not in marks[0]
    monkeypatch.setattr(machine, "gpu_uuid", lambda: None)
    assert machine_mark("cuda") is None
