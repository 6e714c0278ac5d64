"""Words of a verdict: kinds of kernels, shares and times, as a sentence says them."""

from __future__ import annotations

from collections.abc import Mapping

CLASSES = {
    "gemm": "GEMMs",
    "moe": "MoE kernels",
    "comm": "communication",
    "norm": "norms",
    "activation": "activations",
    "rope": "rotary embedding",
    "kv_cache": "KV cache kernels",
    "quant": "quantization",
    "embedding": "embedding lookups",
    "conv": "convolutions",
    "pool": "pooling",
    "sort_scan": "sorts and scans",
    "optimizer": "optimizer kernels",
    "memcpy": "memory copies",
    "memset": "memory fills",
    "elementwise": "element-wise and copy kernels",
    "copy": "element-wise and copy kernels",
    "reduce": "reductions",
    "other": "unclassified kernels",
}
"""How a sentence names a category, where its own name would not do."""


def by_class(times: Mapping[str, float]) -> dict[str, float]:
    """Times by category as times by the names that a sentence uses."""
    classes: dict[str, float] = {}
    for category, time in times.items():
        name = CLASSES.get(category, category.replace("_", " "))
        classes[name] = classes.get(name, 0.0) + time
    return classes


def shares_of(times: Mapping[str, float]) -> dict[str, float]:
    """Percent of the sum, largest first."""
    total = sum(times.values()) or 1.0
    ranked = sorted(times, key=lambda name: (-times[name], name))
    return {name: 100 * times[name] / total for name in ranked}


def three_largest(shares: Mapping[str, float]) -> str:
    """The first three of `shares_of`."""
    return ", ".join(f"{name} {percent_text(pct)}" for name, pct in list(shares.items())[:3])


def main_of(times: Mapping[str, float]) -> str | None:
    """The one that holds nearly all of the time, if it has a name."""
    shares = shares_of(times)
    first = next(iter(shares), "")
    return first if first and shares[first] >= 80 else None


def percent_text(pct: float) -> str:
    """Whole percents, unless that would say none or all."""
    if 0.5 <= pct < 99.5 or pct in (0, 100):
        return f"{pct:.0f} %"
    if 0 < pct < 0.05:
        return "<0.1 %"
    return ">99.9 %" if 99.95 <= pct < 100 else f"{pct:.1f} %"


def micro_text(time_ns: float) -> str:
    """Microseconds, with a digit after the point below ten."""
    value = time_ns / 1e3
    return f"{value:,.1f} µs" if value < 10 else f"{value:,.0f} µs"
