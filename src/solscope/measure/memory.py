"""Bandwidth of the memory and of the L2 cache, and the sizes that the driver reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from solscope.measure.card import OPTIONAL, Card, Probe, Reading, first_line, l2_size

GIB = 1 << 30
COPY_SIZES = (GIB // 2, 2 * GIB, 4 * GIB)
"""Bytes of each buffer that is read, written or copied."""
READ_SOURCE = """extern "C" __global__ void solscope_read(
    const float4* data, float* out, int count, int rounds) {
  const int stride = gridDim.x * blockDim.x;
  const int first = blockIdx.x * blockDim.x + threadIdx.x;
  float total = 0.0f;
  for (int round = 0; round < rounds; ++round) {
    for (int i = first; i < count; i += 2 * stride) {
      float4 a, b;
      asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];"
                   : "=f"(a.x), "=f"(a.y), "=f"(a.z), "=f"(a.w) : "l"(data + i));
      asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];"
                   : "=f"(b.x), "=f"(b.y), "=f"(b.z), "=f"(b.w) : "l"(data + i + stride));
      total += a.x + a.y + a.z + a.w + b.x + b.y + b.z + b.w;
    }
  }
  if (total == 0.12345f) out[0] = total;
}
"""
"""Reads a buffer again and again, past the L1 cache (`cg`)."""
READ_THREADS = 1024
"""Threads of a block that reads the L2."""
READ_BLOCKS_PER_SM = 2
"""With 1024 threads each, 2 blocks occupy an SM fully on data-center GPUs (2048 threads)."""
READ_ROUNDS = 256
"""Times that one launch reads the buffer, so that the launch itself counts little."""


def memory_bandwidth(card: Card) -> Iterator[Reading]:
    """Read, write and copy of buffers far larger than the L2."""
    rates: dict[str, list[tuple[float, str]]] = {"read": [], "write": [], "copy": []}
    for size in copy_sizes(int(card.properties.total_memory), l2_size(card)):
        for kind, moved, run in _moves(card.torch, size):
            timing = card.time(run, warm_s=0.1, timed_s=0.3)
            how = f"{size / GIB:g} GiB buffer, {timing.spread}"
            rates[kind].append((moved / timing.median_ms * 1e3, how))
    best = {kind: max(timed) for kind, timed in rates.items() if timed}
    for kind, (rate, how) in best.items():
        yield Reading("memory", f"hbm.{kind}", rate, "byte/s", how)
    kind = max(best, key=lambda name: best[name])
    yield Reading("memory", "hbm.bandwidth", best[kind][0], "byte/s", f"hbm.{kind}, the largest")


def _moves(torch: Any, size: int) -> Iterator[tuple[str, int, Probe]]:
    """Kind, bytes moved per call, and the call. A copy moves each byte twice."""
    source = torch.rand(size // 4, device="cuda")
    other = torch.rand(size // 4, device="cuda")
    yield "read", size, lambda: torch.sum(source)
    yield "read", 2 * size, lambda: torch.dot(source, other)
    yield "write", size, lambda: other.fill_(1.5)
    yield "copy", 2 * size, lambda: other.copy_(source)


def copy_sizes(memory_bytes: int, cache_bytes: int) -> list[int]:
    """Buffer sizes of which three fit on the card and none in its cache."""
    fitting = [size for size in COPY_SIZES if 3 * size < memory_bytes]
    return [size for size in fitting if size >= 4 * cache_bytes] or fitting[-1:]


def cache_bandwidth(card: Card) -> Iterator[Reading]:
    """Repeated reads, inside one kernel, of buffers that fit in half of the L2."""
    kernel = card.compile(READ_SOURCE, "solscope_read")
    if kernel is None or card.is_amd:
        card.skipped.append("l2.bandwidth: no kernel could be compiled")
        return
    blocks = READ_BLOCKS_PER_SM * int(card.properties.multi_processor_count)
    step = 2 * blocks * READ_THREADS
    out = card.torch.zeros(1, device="cuda")
    rates = []
    for size in (l2_size(card) // 4, l2_size(card) // 2):
        count = max(1, size // 16 // step) * step
        data = card.torch.rand(4 * count, device="cuda")
        launch = {"grid": (blocks, 1, 1), "block": (READ_THREADS, 1, 1)}
        arguments = [data, out, count, READ_ROUNDS]
        try:
            timing = card.time(lambda: kernel(args=arguments, **launch), timed_s=0.4)  # noqa: B023
        except OPTIONAL as error:
            card.skipped.append(f"l2.bandwidth: {first_line(error)}")
            return
        how = f"{READ_ROUNDS} reads of {count * 16 / 2**20:.1f} MiB in a kernel, {timing.spread}"
        rates.append((16.0 * count * READ_ROUNDS / timing.median_ms * 1e3, how))
    rate, how = max(rates)
    yield Reading("memory", "l2.bandwidth", rate, "byte/s", how)


def sizes(card: Card) -> Iterator[Reading]:
    """What the driver says of the card."""
    properties = card.properties
    for section, name, value, unit in (
        ("memory", "hbm.size", properties.total_memory, "byte"),
        ("memory", "l2.size", l2_size(card), "byte"),
        ("chip", "sm.count", properties.multi_processor_count, "count"),
    ):
        if value:
            yield Reading(section, name, int(value), unit, "as the driver reports it")
