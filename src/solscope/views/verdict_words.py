"""Words of a verdict: kinds of kernels, shares and times, as a sentence says them."""

from __future__ import annotations

from collections.abc import Mapping

from solscope.attribution.usual_steps import StepBasis

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
IDLE_WORDS = {
    "host": "waiting for the host",
    "sync": "in synchronizing calls",
    "alloc": "in memory allocation",
    "launch": "between launch and start",
    "graph": "between kernels of a graph",
    "unlinked": "for unknown reasons",
}
"""What comes after "idle for 3 ms", by cause."""


def idle_name(cause: str) -> str:
    """A part of the idle time as a name of its own."""
    return IDLE_WORDS[cause] if cause == "host" else f"idle {IDLE_WORDS[cause]}"


def step_name(basis: StepBasis) -> str:
    """What a number per step is about: `decode step`, `step`, or `recording`."""
    if not basis.steps:
        return "recording"
    return f"{basis.phase} step" if basis.phase else "step"


def mean_of(basis: StepBasis, *, named: bool = False) -> str:
    """Which of them: `mean of 16 of 17 steps`, `the only one`, `first activity to last`.

    `named` adds the phase, where nothing beside it does.
    """
    if not basis.steps:
        return "first activity to last"
    step = step_name(basis) if named else "step"
    if basis.of == 1:
        return f"the only {step if named else 'one'}"
    of = "" if basis.steps == basis.of else f" of {basis.of:,}"
    mean = "" if basis.steps == 1 else "mean of "
    return f"{mean}{basis.steps:,}{of} {step}s"


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


def of_step_text(time_us: float, step_ms: float) -> str:
    """A part of a step beside the step: `63.61 of 84.49 ms`."""
    part, _ = in_step(time_us, step_ms).split(" ")
    return f"{part} of {in_step(1e3 * step_ms, step_ms)}"


def in_step(time_us: float, step_ms: float, *, signed: bool = False) -> str:
    """A time in the unit and with the digits of the step that it is a part of."""
    scale, unit = (1e-3, "ms") if step_ms >= 1 else (1.0, "µs")
    whole = round(1e3 * step_ms * scale, 3)
    digits = 1 if whole >= 100 else 2 if whole >= 10 else 3
    return f"{time_us * scale:{'+' if signed else ''},.{digits}f} {unit}"


def micro_text(time_ns: float) -> str:
    """Microseconds, with a digit after the point below ten."""
    value = time_ns / 1e3
    return f"{value:,.1f} µs" if value < 10 else f"{value:,.0f} µs"
