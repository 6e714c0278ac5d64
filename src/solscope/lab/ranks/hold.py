"""A kernel that was there before: it holds multiprocessors of this process until told to stop.

It is launched before the recording starts, so that the profiler does not see it, as it does not see
the work of other processes. What the rank launches finds fewer multiprocessors, while libraries
choose the same kernels as on the other ranks.
"""

from __future__ import annotations

from typing import Any

LIMIT_MS = 6000
"""Milliseconds after which the kernel ends by itself."""
_SOURCE = """
extern "C" __global__ void hold(volatile int* stop, int limit_ms, float* sink) {
  __shared__ volatile int over;
  __shared__ volatile float pad[11000];
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  if (threadIdx.x == 0) over = 0;
  pad[threadIdx.x] = threadIdx.x;
  __syncthreads();
  float x = pad[threadIdx.x];
  while (!over) {
    for (int i = 0; i < 512; i++) x = x * 0.999f + 1.0f;
    if (threadIdx.x == 0) {
      asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
      if (*stop || now - begin > limit_ms * 1000000ULL) over = 1;
    }
  }
  if (x < -1.0f) sink[0] = x;
}
"""


class Hold:
    """Holds `count` multiprocessors from `start` to `stop`, one block of 1,024 threads on each."""

    def __init__(self, count: int, limit_ms: int = LIMIT_MS) -> None:
        import torch

        self._count, self._limit_ms = count, limit_ms
        self._kernel: Any = torch.cuda._compile_kernel(_SOURCE, "hold")
        self._stop = torch.zeros(1, dtype=torch.int32).pin_memory()
        self._sink = torch.zeros(1, device="cuda")
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._done = torch.cuda.Event()  # type: ignore[no-untyped-call]
        # Once before, so that nothing has to be loaded while it runs.
        self._stop[0] = 1
        self._launch()
        torch.cuda.synchronize()

    def start(self) -> None:
        """Begin to hold."""
        self._stop[0] = 0
        self._launch()

    def stop(self) -> bool:
        """End it; returns whether it held until now."""
        held = not self._done.query()  # type: ignore[no-untyped-call]
        self._stop[0] = 1
        return held

    def _launch(self) -> None:
        arguments = [self._stop, self._limit_ms, self._sink]
        grid, block = (self._count, 1, 1), (1024, 1, 1)
        self._kernel(grid=grid, block=block, args=arguments, stream=self._stream)
        self._done.record(self._stream)
