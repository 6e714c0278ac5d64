"""What a prediction takes for granted, and what of it was not measured."""

from __future__ import annotations

from solscope.whatif.call_work import costed_pct
from solscope.whatif.ranks import communication_note
from solscope.whatif.recorded_step import RecordedStep, usual_gap_us
from solscope.whatif.scaling import PRODUCTS
from solscope.whatif.scenario import Scenario
from solscope.whatif.timing import GPU_NOISE, HOST_NOISE, NOISE, QUANTIZE_US

_UNMEASURED = "the error of this is not measured"
_MEASURED_GPUS = frozenset(("H100", "MI300X"))
"""GPUs that the same work was recorded on; docs/explain/what-if.md has the errors between them."""

_MEASURED_RANKS = frozenset((1, 2, 4))
"""Ranks that the same models were recorded on, in decode."""


def assumptions(step: RecordedStep, scenario: Scenario) -> list[str]:
    """In the order of the changes."""
    said = [
        f"{costed_pct(step):.1f} % of the GPU time has a cost; the rest stays as recorded",
        "each operator keeps its efficiency: latency for small calls, share of the bound for large",
    ]
    if scenario.gpu is not None:
        both = {scenario.gpu.name, step.card.name}
        measured = "" if both <= _MEASURED_GPUS else f"; {_UNMEASURED}"
        said.append(
            f"kernels for the {scenario.gpu.name} are as good as those recorded on the "
            f"{step.card.name}; the host is as fast{measured}"
        )
    if scenario.dtype is not None:
        said.append(_of_dtype(step, scenario.dtype))
    if scenario.tp is not None:
        said.append(
            f"layers are shared evenly by {scenario.tp} ranks (recorded: {step.ranks}); "
            f"{communication_note(step, scenario)}; {_of_ranks(step, scenario.tp)}"
        )
    if scenario.batch is not None:
        measured = "" if step.phase == "decode" else f"; outside decode {_UNMEASURED}"
        said.append(f"all requests are alike; recorded with batch {step.batch}{measured}")
    if scenario.context is not None:
        said.append(f"all contexts are equal; recorded with {step.context:,.0f} keys")
    if scenario.fuse:
        said.append("a run of tiny kernels becomes one that takes as long as its slowest")
    if scenario != Scenario():
        noise = GPU_NOISE if scenario.gpu is not None else NOISE
        said.append(
            f"the interval of the step adds {100 * noise:.0f} % on either side to those of its "
            "operators, for what the model leaves out"
        )
    return said + _of_host(step, scenario)


def _of_ranks(step: RecordedStep, ranks: int) -> str:
    if step.phase != "decode" or not {ranks, step.ranks} <= _MEASURED_RANKS:
        return _UNMEASURED
    return "the error of this is measured on shares of one GPU, not over links"


def _of_dtype(step: RecordedStep, dtype: str) -> str:
    changed = sum(n.calls * n.time_us for n in step.lines if n.kind.operator in PRODUCTS)
    total = sum(n.calls * n.time_us for n in step.lines)
    said = (
        f"products with weights ({100 * changed / max(total, 1e-9):.0f} % of the GPU time) run "
        f"in {dtype}, with {QUANTIZE_US[1]} µs to quantize each input; attention and cache stay"
    )
    # Only bf16 to fp8 was recorded.
    return said if dtype == "fp8" else f"{said}; {_UNMEASURED}"


def _of_host(step: RecordedStep, scenario: Scenario) -> list[str]:
    gap = usual_gap_us(scenario.gpu or step.card)
    if scenario.no_host_gaps:
        return [f"{gap:.2f} µs between kernels at most, and no time between steps"]
    if scenario.graphs:
        return [
            f"{gap:.2f} µs between kernels; the {step.between_us / 1e3:,.3f} ms that the GPU waits "
            "between steps stay"
        ]
    if step.replayed:
        return []
    return [
        "the host takes as long as recorded, the profiler's own time included; the interval lets "
        f"it be {HOST_NOISE:g} x as fast or as slow, as the same code was in other recordings"
    ]
