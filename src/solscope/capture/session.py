"""A recording from inside a program: samples, and a profile of some steps, that belong together."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from solscope.capture.background import BackgroundSampler
from solscope.capture.files import METRICS, TRACE, check_free, finish_metrics, finish_trace, partial
from solscope.capture.sampler import MAX_PERIOD_MS, MIN_PERIOD_MS
from solscope.errors import MissingToolError, UsageError


class Capture:
    """Records this process from `with` to the end of its block.

    Samples of host and GPU are taken all the time, by another process. The torch profiler runs for
    `steps` steps, after `skip` others; call `step()` at the end of each. Without `steps` it runs to
    the end of the block. Files: `NAME.trace.json.gz` and `NAME.metrics.csv`.
    """

    def __init__(
        self,
        name: str | Path,
        *,
        steps: int | None = None,
        skip: int = 0,
        period_ms: float = MIN_PERIOD_MS,
        shapes: bool = True,
        stacks: bool = False,
        profile: bool = True,
        spin: bool = False,
        force: bool = False,
    ) -> None:
        if not MIN_PERIOD_MS <= period_ms <= MAX_PERIOD_MS:
            raise UsageError(f"period_ms is {period_ms:g}, but must be at least {MIN_PERIOD_MS:g}")
        if (steps is not None and steps < 1) or skip < 0:
            raise UsageError("steps must be at least 1 and skip at least 0")
        stem = str(name)
        self.trace = Path(stem + TRACE) if profile else None
        self.metrics = Path(stem + METRICS)
        self.missing: list[str] = []
        """Sensors that this machine does not have."""
        self._steps, self._skip, self._period_ms, self._spin = steps, skip, period_ms, spin
        self._force = force
        self._done = 0
        self._profiler: Any = _profiler(shapes, stacks) if profile else None
        self._running = False
        self._stack = ExitStack()

    def __enter__(self) -> Capture:
        paths = filter(None, (self.trace, self.metrics))
        check_free(*paths, force=self._force, option="force=True")
        samples = partial(self.metrics)
        sampler = BackgroundSampler(os.getpid(), samples, self._period_ms, spin=self._spin)
        self.missing = sampler.missing
        with ExitStack() as stack:
            stack.callback(finish_metrics, samples, self.metrics)
            stack.callback(sampler.close)
            stack.callback(self._stop)
            if not self._skip:
                self._start()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, traceback)

    def step(self) -> None:
        """Say that a step has ended."""
        self._done += 1
        if self._done == self._skip:
            self._start()
        elif self._steps is not None and self._done == self._skip + self._steps:
            self._stop()

    def _start(self) -> None:
        from solscope.capture.garbage import mark_collections

        if self._profiler is None:
            return
        self._marks = mark_collections()
        self._marks.__enter__()
        self._profiler.start()
        self._running = True

    def _stop(self) -> None:
        if not self._running or self.trace is None:
            return
        self._running = False
        _wait_for_gpu()
        self._profiler.stop()
        self._marks.__exit__(None, None, None)
        raw = self.trace.with_name(f"{self.trace.name}.raw.json")
        self._profiler.export_chrome_trace(str(raw))
        finish_trace(raw, self.trace)


def _profiler(shapes: bool, stacks: bool) -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingToolError(
            "profiling needs torch (pip install torch); pass profile=False to record only samples"
        ) from error
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    return torch.profiler.profile(activities=activities, record_shapes=shapes, with_stack=stacks)


def _wait_for_gpu() -> None:
    """Work of the last step that is still running belongs to the profile."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()
