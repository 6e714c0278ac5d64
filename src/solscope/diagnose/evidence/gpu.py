"""Evidence about the GPU: its kernels, copies, clocks and other users."""

from __future__ import annotations

from solscope.diagnose.evidence.base import Answer
from solscope.diagnose.findings.findings import Findings
from solscope.text import as_percent

THROTTLE_BITS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal limit",
    0x40: "hardware thermal limit",
    0x80: "power brake",
}
"""Bits of NVML's clock event reasons that make a GPU slow."""


def kernels_slower(f: Findings) -> Answer:
    """The same kernels take longer per call."""
    ratio = f.gpu.per_call_ratio(same_grid=True)
    if ratio is None:
        return Answer(None, "no kernels in common")
    return Answer(ratio >= 1 + f.limits.kernel_grew, f"the same kernels take ×{ratio:.2f} per call")


def kernels_same(f: Findings) -> Answer:
    """The same kernels take as long as before."""
    ratio = f.gpu.per_call_ratio()
    if ratio is None:
        return Answer(None, "no kernels in common")
    holds = abs(ratio - 1) <= f.limits.kernel_same
    return Answer(holds, f"the same kernels take ×{ratio:.2f} per call")


def all_kernels_slower(f: Findings) -> Answer:
    """Most categories of kernels got slower, not one of them alone."""
    ratios = f.gpu.slow_categories
    if len(ratios) < f.limits.kernel_categories:
        return Answer(None, "too few categories of kernels")
    slow = [c for c, ratio in ratios.items() if ratio >= 1 + f.limits.kernel_grew]
    text = f"{len(slow)} of {len(ratios)} categories of kernels are slower per call"
    return Answer(len(slow) >= f.limits.categories_slower * len(ratios), text)


def waits_though_launched(f: Findings) -> Answer:
    """Launched work starts later than before."""
    share = f.share("launch_wait")
    added = f.parts.by_family["launch_wait"]
    share_text = f"{as_percent(share)} of the difference"
    text = f"launched work waits {added:+.2f} ms longer per step ({share_text})"
    return Answer(f.delta_ms > 0 and share >= f.limits.part, text)


def other_processes(f: Findings) -> Answer:
    """Another process is on the GPU."""
    counts = [f.sensors.counter(name) for name in ("gpu_other_processes", "gpu_processes")]
    sampled = [count for count in counts if count is not None]
    if not sampled:
        return Answer(None, "processes on the GPU were not counted")
    count = max(sampled, key=lambda pair: pair.delta)
    text = f"{count.abnormal:.0f} processes on the GPU (normal {count.normal:.0f})"
    return Answer(count.delta >= 1, text)


def foreign_gpu(f: Findings) -> Answer:
    """Others use the GPU: as its driver says, or as use beyond what the trace shows."""
    other = f.sensors.counter("gpu_other_usage")
    if other is not None and other.delta >= f.limits.foreign_gpu:
        return Answer(
            True, f"other processes use {other.abnormal:.0f} % of the GPU ({other.normal:.0f} %)"
        )
    usage = f.sensors.counter("gpu_usage")
    if usage is None:
        return Answer(None if other is None else False, "no foreign use of the GPU was sampled")
    busy = [100 * (1 - idle) for idle in (idle_share(f, 0), idle_share(f, 1))]
    foreign = (usage.normal - busy[0], usage.abnormal - busy[1])
    text = (
        f"the GPU is in use {usage.abnormal:.0f} % of the time, by this trace {busy[1]:.0f} % "
        f"(normal {usage.normal:.0f} %, {busy[0]:.0f} %)"
    )
    return Answer(foreign[1] - max(0.0, foreign[0]) >= f.limits.foreign_gpu, text)


def idle_share(f: Findings, side: int) -> float:
    """Part of the step in which this trace leaves the GPU idle."""
    busy = sum(
        (c.normal_ms, c.abnormal_ms)[side]
        for c in f.parts.components
        if c.family in ("compute", "comm", "memcpy")
    )
    total = (f.parts.normal_ms, f.parts.abnormal_ms)[side]
    return 1 - busy / total if total else 0.0


def shared_gpu(f: Findings) -> Answer:
    """Another process is on the GPU, or uses it."""
    answers = (other_processes(f), foreign_gpu(f))
    holding = [answer for answer in answers if answer.holds]
    text = "; ".join(answer.text for answer in holding or answers)
    unknown = all(answer.holds is None for answer in answers)
    return Answer(None if unknown else bool(holding), text)


def alone(f: Findings) -> Answer:
    """Nobody else came to the GPU, by the number of processes and by their use."""
    answers = (other_processes(f), foreign_gpu(f))
    text = "; ".join(answer.text for answer in answers)
    if any(answer.holds for answer in answers):
        return Answer(False, text)
    unknown = [answer.text for answer in answers if answer.holds is None]
    return Answer(None, unknown[0]) if unknown else Answer(True, text)


def slower_by_itself(f: Findings) -> Answer:
    """The clock fell although nobody else uses the GPU."""
    fell, shared = clock_fell(f), shared_gpu(f)
    return Answer(None if fell.holds is None else fell.holds and not shared.holds, fell.text)


def interrupted(f: Findings) -> Answer:
    """Some calls of the same kernels take much longer, the typical one does not."""
    mean, typical = f.gpu.per_call_ratio(mean=True), f.gpu.per_call_ratio()
    if mean is None or typical is None:
        return Answer(None, "no kernels in common")
    text = f"the same kernels take ×{mean:.2f} on average, ×{typical:.2f} typically"
    return Answer(
        mean >= 1 + f.limits.kernel_grew and mean >= typical + f.limits.kernel_interrupted, text
    )


def only_copies_slower(f: Findings) -> Answer:
    """Copies are slower, kernels are not."""
    copies, kernels = copies_slower(f), all_kernels_slower(f)
    return Answer(bool(copies.holds and not kernels.holds), copies.text)


def clock_fell(f: Findings) -> Answer:
    """The SM clock fell."""
    clock = f.sensors.counter("gpu_sm_frequency")
    if clock is None:
        return Answer(None, "the GPU's clock was not sampled")
    # Readings of a run known by cycles have the unit that their maker chose.
    unit = " MHz" if f.normal.anchor is None else ""
    text = f"SM clock {clock.abnormal:.0f}{unit} (normal {clock.normal:.0f})"
    return Answer(clock.ratio < 1 - f.limits.clock_fell, text)


def limited(f: Findings) -> Answer:
    """The GPU says that power or temperature limits its clock."""
    bits = f.sensors.counter("gpu_throttle_reasons")
    if bits is None:
        return Answer(None, "clock limits were not sampled")
    new = int(bits.abnormal) & ~int(bits.normal)
    reasons = [text for bit, text in THROTTLE_BITS.items() if new & bit]
    return Answer(bool(reasons), f"clock limits: {', '.join(reasons) or 'none that are new'}")


def copies_slower(f: Findings) -> Answer:
    """Copies from and to pinned memory move fewer bytes per second."""
    return _slower_copies(f, pageable=False)


def pageable_copies_slower(f: Findings) -> Answer:
    """Copies from and to pageable memory move fewer bytes per second."""
    return _slower_copies(f, pageable=True)


def _slower_copies(f: Findings, *, pageable: bool) -> Answer:
    pairs = {k: v for k, v in f.gpu.copy_bandwidth.items() if k.endswith("pageable") == pageable}
    large = {k: v for k, v in pairs.items() if v.normal >= f.limits.large_copy_gbps}
    if not large:
        return Answer(None, "no large copies between host and device")
    limits = f.limits
    least = limits.bandwidth_with_traffic if pcie_traffic(f).holds else limits.bandwidth_fell
    slow = {k: v for k, v in large.items() if v.ratio <= 1 - least}
    shown = slow or large
    text = ", ".join(f"{k} {v.abnormal:.1f} GB/s (normal {v.normal:.1f})" for k, v in shown.items())
    return Answer(bool(slow), text)


PCIE = {
    "gpu_pcie_receive": "PCIe to the GPU",
    "gpu_pcie_transmit": "PCIe from the GPU",
}
GPU_LINK = {
    "gpu_link_receive": "links between GPUs, to this one,",
    "gpu_link_transmit": "links between GPUs, from this one,",
}
"""Sensors of what a link carries, and how they are called."""


def pcie_traffic(f: Findings) -> Answer:
    """The link carries more than before."""
    return _traffic(f, PCIE, "PCIe traffic")


def gpu_link_traffic(f: Findings) -> Answer:
    """The links between GPUs carry more than before."""
    return _traffic(f, GPU_LINK, "traffic between GPUs")


def _traffic(f: Findings, sensors: dict[str, str], name: str) -> Answer:
    texts = []
    pairs = {sensor: f.sensors.counter(sensor) for sensor in sensors}
    for sensor, pair in pairs.items():
        if pair is None or pair.ratio < f.limits.pcie_grew:
            continue
        if f.sensors.unit(sensor) == "MB/s":
            if pair.delta > f.limits.pcie_more_mbps:
                text = f"{pair.abnormal:,.0f} MB/s ({pair.normal:,.0f})"
                texts.append(f"{sensors[sensor]} {text}")
        # Of readings in a unit that nobody stated only ratios count, and of nothing there is none.
        elif pair.normal > 0:
            texts.append(f"{sensors[sensor]} ×{pair.ratio:,.0f}")
    if all(pair is None for pair in pairs.values()):
        return Answer(None, f"{name} was not sampled")
    return Answer(bool(texts), "; ".join(texts) or f"{name} is not higher than before")


def pcie_shared(f: Findings) -> Answer:
    """The link carries more, and copies, whose sizes are not recorded, take longer than kernels do.

    Where sizes are recorded, the bandwidth of copies tells it.
    """
    traffic, copies = pcie_traffic(f), f.gpu.per_call_ratio("memcpy")
    if traffic.holds is None or copies is None or copies_slower(f).holds is not None:
        return Answer(None, traffic.text)
    kernels = max(1.0, f.gpu.per_call_ratio() or 1.0)
    text = f"{traffic.text}; copies take ×{copies:.2f} per call, kernels ×{kernels:.2f}"
    return Answer(traffic.holds and copies >= (1 + f.limits.kernel_grew) * kernels, text)


def kernels_slower_like_copies(f: Findings) -> Answer:
    """Kernels of all kinds are slower too, and the link carries no more than before."""
    kernels, traffic = all_kernels_slower(f), pcie_traffic(f)
    return Answer(bool(kernels.holds and not traffic.holds), kernels.text)


def kernels_slower_like_communication(f: Findings) -> Answer:
    """Kernels of all kinds are slower too, and communication by hardly more."""
    kernels, comm = all_kernels_slower(f), f.gpu.per_call_ratio("comm")
    if not kernels.holds or comm is None:
        return Answer(False if comm is not None else None, kernels.text)
    ratio = f.gpu.per_call_ratio() or 1.0
    return Answer(comm < f.limits.dose_slack * ratio, kernels.text)


def communication_slower(f: Findings) -> Answer:
    """The same collectives take longer per call."""
    ratio = f.gpu.per_call_ratio("comm")
    if ratio is None:
        return Answer(None, "no communication in common")
    return Answer(ratio >= 1 + f.limits.kernel_grew, f"collectives take ×{ratio:.2f} per call")
