"""What changed but is hidden: it costs nothing now, and may tomorrow."""

from __future__ import annotations

import msgspec

from solscope.diagnose.causes import UNKNOWN
from solscope.diagnose.evidence import gpu
from solscope.diagnose.findings.findings import Findings
from solscope.diagnose.verdict.ranking import Ranking

MOST = 12
"""Changes listed."""


class Latent(msgspec.Struct, frozen=True):
    """A change that did not make the step slower."""

    id: str | None
    """Cause that it points to; null when it is only a change."""
    component: str
    text: str
    ratio: float | None
    """Abnormal over normal."""
    ms: float = 0.0
    """Its part of the difference: none."""


def latent_changes(f: Findings, ranking: Ranking, verdict: str) -> list[Latent]:
    """What fell or carries more by itself, causes that are there without effect, and the rest.

    Sensors of a clock or a link name one thing; a pattern of slower kernels fits several.
    """
    fits = ranking.hidden
    if verdict == "no_change":
        fits = [*(c for c in ranking.causes if c.id != UNKNOWN), *fits]
    out = [Latent(c.id, "cause", f"{c.title}: {c.evidence[0]}", None) for c in fits]
    sensed = _drivers(f, {cause.id for cause in (*ranking.causes, *ranking.hidden)})
    out = [*sensed, *out] if verdict == "no_change" else [*out, *sensed]
    out += _kernels(f, verdict)
    out += _sections(f)
    return out[:MOST]


def _drivers(f: Findings, named: set[str]) -> list[Latent]:
    """Clocks that fell and links that carry more, where no cause is made of them."""
    checks = (
        ("gpu_clock", gpu.clock_fell),
        ("interconnect", gpu.gpu_link_traffic),
        ("pcie", gpu.pcie_traffic),
    )
    answers = [(cause, check(f)) for cause, check in checks if cause not in named]
    return [Latent(cause, "sensor", a.text, None) for cause, a in answers if a.holds]


def _kernels(f: Findings, verdict: str) -> list[Latent]:
    """Categories whose calls take longer while the step does not.

    Calls are those of all steps, so that a different mix of phases is not taken as evidence.
    """
    if f.units.moved:
        return []
    if verdict in ("regression", "workload_changed") and f.share("compute") > f.limits.part:
        return []
    out = []
    for category, ratio in f.gpu.slow_categories.items():
        if ratio >= 1 + f.limits.kernel_grew:
            text = f"{category} kernels take ×{ratio:.2f} per call; the step does not wait for them"
            out.append(Latent(None, f"compute.{category}", text, ratio))
    return out


def _sections(f: Findings) -> list[Latent]:
    """Sections of the host that take longer while the GPU has work to do."""
    out = []
    for section in f.host.sections:
        own, idle = section.own_ms, section.idle_ms
        grew = (
            own.delta > f.limits.section_latent * f.parts.normal_ms
            and own.ratio > 1 + f.limits.host_ops_grew
        )
        if grew and idle.delta < f.limits.part * own.delta:
            text = (
                f"section {section.name!r} takes {own.abnormal:.2f} ms (normal {own.normal:.2f}) "
                "while the GPU is busy"
            )
            out.append(Latent(None, f"section.{section.name}", text, own.ratio))
    return out
