"""The bound: the largest of the terms that no kernel can avoid.

Work of one pipe adds up, whatever its precision; tensor cores, vector units, special-function units
and memory work at the same time, so the slowest of them decides.

* `tensor`, `vector`: sum over precisions of FLOP / peak.
* `sfu`: special functions. Vector units can compute them too (polynomials, as attention kernels for
  Blackwell do), so the term shares them out between both units in the fastest way.
* memory: bytes over the bandwidth of the innermost memory that can hold the working set. Data that
  fits in a cache may already be there, so HBM does not limit it. Where the speed of that cache is
  not known, `l1` is used instead: no byte moves faster than the SMs load and store. Reads and
  writes may touch the same bytes, so the working set is taken as the larger of the two. `cold` says
  that the caches were flushed: all reads come from HBM, and so must those writes leave that no
  cache can hold.
* `interconnect`, `host`: bytes in the busier direction over half of the bandwidth, which counts
  both.
* `launch`: device time of an empty kernel.
* `serial`: steps of a recurrence x least time from one step to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from solscope.hardware import Hardware
from solscope.operators.base import Cost, Published
from solscope.roofline.base import Bound

EMULATED_SFU_FLOP = 10
"""Vector FLOP slots that one emulated exponential takes at least: a cubic polynomial (3 fused
multiply-adds) and the split into integer and fraction (2 additions), each a slot of 2 FLOP.
FlashAttention-4 computes part of its exponentials so; better polynomials take more."""

CACHES = ("l2", "llc")
"""From the innermost outward."""

PUBLISHED_PIPES = {
    "bf16": "tensor.bf16",
    "fp16": "tensor.fp16",
    "fp8_e4m3": "tensor.fp8",
    "fp32": "vector.fp32",
}
"""The pipe that the public suite charges for each declared dtype; its fp32 is never tf32."""

Term = tuple[str, "float | None"]
"""Name and seconds; null seconds if the hardware file has no figure."""


def bound(cost: Cost, hardware: Hardware, *, published: bool = False, cold: bool = False) -> Bound:
    """The least time of one call with this cost.

    `published` follows the public suite instead: max(sum of FLOP / peak, bytes / HBM), no more.
    `cold` says that the caches were flushed before the call, as benchmarks do.
    """
    if published:
        return _largest(_published(cost.flops, cost.bytes, hardware))
    return _largest(
        [
            *_pipe("tensor", cost.flops, hardware),
            *_pipe("vector", cost.flops, hardware),
            *_sfu(cost.flops, hardware),
            *(_cold_memory(cost, hardware) if cold else _memory(cost, hardware)),
            *_both_ways("interconnect", cost.link_bytes, hardware),
            *_both_ways("host", cost.host_bytes, hardware),
            ("launch", hardware.value("launch.floor")),
            *_serial(cost.serial_steps, hardware),
        ]
    )


def published_bound(published: Published, hardware: Hardware) -> Bound:
    """The bound as the public suite computes it, from the cost as it states it."""
    flops = {PUBLISHED_PIPES.get(dtype, dtype): count for dtype, count in published.flops.items()}
    return _largest(_published(flops, published.read_bytes + published.write_bytes, hardware))


def _largest(terms: Iterable[Term]) -> Bound:
    terms_us: dict[str, float] = {}
    missing = []
    for name, seconds in terms:
        if seconds is None:
            missing.append(name)
        else:
            terms_us[name] = seconds * 1e6
    limiter = max(terms_us, key=lambda name: terms_us[name], default=None)
    return Bound(None if limiter is None else terms_us[limiter], limiter, terms_us, missing)


def _pipe(unit: str, flops: Mapping[str, float], hardware: Hardware) -> Iterator[Term]:
    """The time that one unit needs for its work in all precisions."""
    own = {pipe: count for pipe, count in flops.items() if pipe.startswith(f"{unit}.") and count}
    rated = {pipe: count for pipe, count in own.items() if pipe in hardware.peaks}
    if rated:
        name = next(iter(rated)) if len(rated) == 1 else unit
        yield name, sum(count / hardware.peaks[pipe].value for pipe, count in rated.items())
    yield from ((pipe, None) for pipe in own if pipe not in rated)


def _sfu(flops: Mapping[str, float], hardware: Hardware) -> Iterator[Term]:
    count = flops.get("sfu", 0)
    if not count:
        return
    sfu, vector = hardware.value("sfu"), hardware.value("vector.fp32")
    if sfu is None or vector is None:
        yield "sfu", None
        return
    shared = (flops.get("vector.fp32", 0) + EMULATED_SFU_FLOP * count) / (
        vector + EMULATED_SFU_FLOP * sfu
    )
    yield "sfu", min(count / sfu, shared)


def _memory(cost: Cost, hardware: Hardware) -> Iterator[Term]:
    if not cost.bytes:
        return
    working_set = max(sum(cost.read_bytes.values()), sum(cost.write_bytes.values()))
    level = next(
        (cache for cache in CACHES if working_set <= (hardware.value(f"{cache}.size") or 0)), "hbm"
    )
    rate = hardware.value(f"{level}.bandwidth")
    yield level, _over(cost.bytes, rate)
    ceiling = hardware.value("l1.bandwidth")
    if rate is None and ceiling is not None:
        yield "l1", cost.bytes / ceiling


def _cold_memory(cost: Cost, hardware: Hardware) -> Iterator[Term]:
    if not cost.bytes:
        return
    cache_bytes = max(hardware.value(f"{cache}.size") or 0 for cache in CACHES)
    leaving = max(0.0, sum(cost.write_bytes.values()) - cache_bytes)
    moved = sum(cost.read_bytes.values()) + leaving
    yield "hbm", _over(moved, hardware.value("hbm.bandwidth"))


def _both_ways(link: str, size: float, hardware: Hardware) -> Iterator[Term]:
    if size:
        yield link, _over(2 * size, hardware.value(f"{link}.bandwidth"))


def _serial(steps: int, hardware: Hardware) -> Iterator[Term]:
    if steps:
        step = hardware.value("serial.step")
        yield "serial", None if step is None else steps * step


def _published(flops: Mapping[str, float], size: float, hardware: Hardware) -> Iterator[Term]:
    peaks = {pipe: hardware.peaks.get(pipe) for pipe, count in flops.items() if count}
    lacking = [pipe for pipe, peak in peaks.items() if peak is None]
    if lacking:
        yield from ((pipe, None) for pipe in lacking)
    elif peaks:
        name = next(iter(peaks)) if len(peaks) == 1 else "compute"
        yield name, sum(flops[pipe] / peak.value for pipe, peak in peaks.items() if peak)
    yield "hbm", _over(size, hardware.value("hbm.bandwidth"))


def _over(amount: float, rate: float | None) -> float | None:
    return None if rate is None else amount / rate
