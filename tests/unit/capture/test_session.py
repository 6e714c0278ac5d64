"""`with solscope.capture(...)`: a profile and samples that belong together."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from pathlib import Path

import pytest

import solscope
from solscope.errors import UsageError

if not sys.platform.startswith("linux"):
    pytest.skip("the sensors are those of Linux", allow_module_level=True)

torch = pytest.importorskip("torch")


def work(samples: Path | None = None) -> None:
    """A step; it lasts until samples of it were written, however long that takes."""
    from torch.profiler import record_function

    with record_function("engine_step"):
        torch.ones(8) + 1
        if samples is not None:
            before = samples.stat().st_size
            while samples.stat().st_size < before + 1000:
                time.sleep(0.01)


def ranges_of(path: Path) -> list[str]:
    events = solscope.open(path).events
    return list(events.filter(events["kind"] == "annotation")["name"])


def test_two_files_that_belong_together(tmp_path: Path) -> None:
    with solscope.capture(tmp_path / "run", steps=2, skip=1) as recording:
        for _ in range(5):
            work(tmp_path / "run.metrics.csv.partial")
            recording.step()
        assert recording.trace is not None
        assert recording.trace.exists(), "the profile is written when its steps are done"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "run.metrics.csv",
        "run.trace.json.gz",
    ]
    profile = solscope.open(recording.trace)
    assert profile.metrics is not None
    assert "oncpu_ns" in set(profile.metrics["metric"])
    assert not {"metrics_outside", "metrics_unaligned"} & {w.code for w in profile.warnings}
    assert ranges_of(recording.trace).count("engine_step") == 2


def test_without_steps_all_of_the_block_is_profiled(tmp_path: Path) -> None:
    with solscope.capture(tmp_path / "run") as recording:
        for _ in range(3):
            work()
    assert recording.trace is not None
    assert ranges_of(recording.trace).count("engine_step") == 3


def test_garbage_collections_are_marked(tmp_path: Path) -> None:
    with solscope.capture(tmp_path / "run") as recording:
        gc.collect()
    assert recording.trace is not None
    assert "gc" in ranges_of(recording.trace)
    assert not [mark for mark in gc.callbacks if "mark_collections" in repr(mark)]


def test_an_error_in_the_block_keeps_what_was_recorded(tmp_path: Path) -> None:
    def serve() -> None:
        with solscope.capture(tmp_path / "run"):
            work()
            raise RuntimeError("out of tokens")

    with pytest.raises(RuntimeError, match="out of tokens"):
        serve()
    assert (tmp_path / "run.trace.json.gz").exists()
    assert (tmp_path / "run.metrics.csv").exists()


def test_samples_alone(tmp_path: Path) -> None:
    with solscope.capture(tmp_path / "run", profile=False) as recording:
        recording.step()
    assert recording.trace is None
    assert [path.name for path in tmp_path.iterdir()] == ["run.metrics.csv"]


def test_files_are_not_replaced_unasked(tmp_path: Path) -> None:
    (tmp_path / "run.metrics.csv").write_text("mine")
    with pytest.raises(UsageError, match=r"run\.metrics\.csv exists"):
        solscope.capture(tmp_path / "run", profile=False).__enter__()
    assert (tmp_path / "run.metrics.csv").read_text() == "mine"


@pytest.mark.parametrize("options", [{"period_ms": 1}, {"steps": 0}, {"skip": -1}])
def test_options_that_make_no_sense(options: dict[str, int], tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        solscope.capture(tmp_path / "run", profile=False, **options)  # type: ignore[arg-type]


def test_the_package_is_a_module_and_can_be_called() -> None:
    code = (
        "import solscope; first = solscope.capture; import solscope.capture.sampler as s;"
        "assert first is solscope.capture and callable(first), first;"
        "import types; assert isinstance(first, types.ModuleType) and first.sampler is s"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
