"""Python garbage collection."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import gpu, host
from solscope.diagnose.evidence.base import Answer, any_of, in_families
from solscope.diagnose.findings.findings import Findings


def looks_like_collections(f: Findings) -> Answer:
    """Long pauses of a running thread in plain Python, with nothing else that explains them."""
    if host.collections_grew(f).holds is not None:
        return Answer(False, "garbage collections are recorded and do not explain it")
    heap = any_of(host.heap_grew, host.long_pause)
    answers = [
        check(f) for check in (host.in_one_section, host.runs_longer, host.plain_python, heap)
    ]
    text = "; ".join(answer.text for answer in answers)
    return Answer(all(answer.holds for answer in answers), text)


CAUSE = Cause(
    id="gc",
    family="host",
    title="Python's garbage collector pauses the host",
    summary="Collections of a large heap run in the middle of serving. Recorded collections (a gc "
    "annotation, `gc_ns`) prove it; without them, long pauses in plain Python on a running core, "
    "or pauses with a grown heap, suggest it.",
    strength=2.0,
    required=(host.host_grew, any_of(host.collections_grew, looks_like_collections)),
    explains=in_families(*host.HOST),
    supporting=(
        Support(2.0, host.collections_grew),
        Support(0.5, gpu.kernels_same),
        Support(0.7, host.long_pause),
        Support(1.0, host.heap_grew),
    ),
    forbidden=(host.waits_for_core, host.throttled, host.more_io, host.stopped),
    confirm="set gc.callbacks to count and time collections, or run once with gc.freeze() or "
    "gc.disable()",
)
