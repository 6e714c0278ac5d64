"""Rules of the views that decide what is shown, each at its edge."""

from __future__ import annotations

from typing import Any

from solscope.views.device_time import device_times
from solscope.views.layers import layers
from solscope.views.summary import summarize
from solscope.views.typical_step import typical_step
from tests.making import attributed, event
from tests.models import LAYER, MODEL, launched


def decode(number: int, text: str) -> list[dict[str, Any]]:
    """The decode step with this number."""
    at = 1000 * number
    step = event("annotation", "decode_step", at, 500)
    return [step, *launched(text, at + 1, 10 * at, 1000 * number + 1)]


def test_of_equally_common_passes_those_with_most_layers_count() -> None:
    deep = f"E{LAYER * 3}NGT"
    result = layers([attributed(*decode(1, MODEL), *decode(2, deep), *decode(3, MODEL))], ["p"])
    assert result.passes == [1]
    assert [kind.layers for kind in result.layer_kinds] == [[3]]


def test_causes_of_a_gap_do_not_add_up_to_more_than_it() -> None:
    """Memory is freed inside a synchronizing call: both cover 30 of the 50 ns of the gap."""
    made = attributed(
        event("kernel", "gemm", 0, 100),
        event("runtime", "cudaStreamSynchronize", 110, 30),
        event("runtime", "cudaFree", 110, 30),
        event("runtime", "cudaLaunchKernel", 150, 10, correlation=1),
        event("kernel", "gemm", 150, 10, correlation=1),
    )
    found = {c.cause: round(c.time_ms * 1e6) for c in summarize(made).idle}
    assert sum(found.values()) == 50
    assert min(found.values()) >= 0
    assert found["sync"] == 30


def test_a_step_that_the_recording_cuts_off_is_not_the_usual_one() -> None:
    """Most of the time is in kernels whose launches were not recorded."""
    lost = [event("kernel", "gemm", 1000 * at, 900) for at in range(40)]
    steps = []
    for number in range(3):
        start = 100_000 + 2000 * number
        steps += [
            event("annotation", "decode_step", start, 1500),
            event("runtime", "cudaLaunchKernel", start + 10, 10, correlation=number + 1),
            event("kernel", "gemm", start + 100, 1000, correlation=number + 1),
        ]
    made = attributed(*lost, *steps)
    assert made.steps["cut"].to_list() == [True, False, False, False]
    found = typical_step(made, device_times(made))
    assert found is not None
    assert (found.basis.phase, found.basis.steps, found.basis.of) == ("decode", 2, 3)
