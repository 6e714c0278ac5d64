"""The work itself differs: not faults, but what makes two runs hard to compare."""

from __future__ import annotations

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import gpu, work
from solscope.diagnose.evidence.base import any_of, in_families
from solscope.diagnose.findings.findings import Findings


def explained_by_mix(f: Findings) -> float:
    """What comes from phases occurring more often, and from phases with other prompts."""
    if not f.delta_ms:
        return 0.0
    prompts = 0.0
    if work.prompts_differ(f).holds:
        prompts = sum(c.delta_ms for c in f.parts.components if c.phase != "decode")
    return min(1.0, max(0.0, f.parts.mix_ms / f.delta_ms, prompts / f.delta_ms))


CAUSES = (
    Cause(
        id="workload_batch",
        family="workload",
        title="different batch sizes",
        summary="Steps have more or fewer requests, so each does a different amount of work. "
        "Not a fault: compare runs under the same load, or per token.",
        strength=3.5,
        required=(work.batch_differs,),
        explains=in_families("compute", "memcpy", "comm", "host", "sync", "launch_wait"),
        supporting=(Support(0.5, work.kernel_set_changed),),
        confirm="replay the normal run's requests, or compare tokens per second instead of step "
        "times",
        can_hide=True,
    ),
    Cause(
        id="workload_context",
        family="workload",
        title="different context lengths",
        summary="Attention reads more (or fewer) keys per request. Recorded shapes show this "
        "directly; without them, as with CUDA graphs, attention alone takes longer with the same "
        "kernel and grid. Not a fault: compare runs at the same point of their requests.",
        strength=3.0,
        required=(any_of(work.context_in_shapes, work.attention_alone),),
        explains=in_families("compute", "launch_wait"),
        supporting=(
            Support(1.0, work.context_in_shapes),
            Support(1.0, work.attention_alone),
        ),
        forbidden=(
            work.context_same,
            work.batch_differs,
            work.dtype_differs,
            gpu.all_kernels_slower,
        ),
        confirm="compare at equal context: the same prompts, the same number of steps since the "
        "start",
        can_hide=True,
    ),
    Cause(
        id="workload_mix",
        family="workload",
        title="a different mix of prefill and decode",
        summary="Phases occur more or less often; each of them takes as long as before. Not a "
        "fault: the requests changed, or how they are scheduled.",
        strength=3.0,
        required=(any_of(work.mix_differs, work.prompts_differ),),
        explains=explained_by_mix,
        confirm="compare phase by phase; look at arrival rate and prompt lengths",
        can_hide=True,
    ),
)
