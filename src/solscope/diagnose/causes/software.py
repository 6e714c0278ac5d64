"""The program asks the GPU for something else: syncs, copies, launches, kernels, types."""

from __future__ import annotations

from collections.abc import Callable

from solscope.diagnose.causes.base import Cause, Support
from solscope.diagnose.evidence import gpu, host, work
from solscope.diagnose.evidence.base import in_families
from solscope.diagnose.findings.findings import Findings
from solscope.text import as_percent


def share_of_replays(f: Findings) -> str:
    """How much of it, when not all."""
    replays = f.host.calls("graph_launch", alike=True)
    return f" for {as_percent(1 - replays.ratio)} of what they replayed" if replays.abnormal else ""


def explained_by_kernels(f: Findings) -> float:
    """GPU time, and the host's too where more kernels have to be launched."""
    families = ["compute", "launch_wait"]
    if work.more_launches(f).holds:
        families += host.HOST
    return min(1.0, max(0.0, f.share(*families)))


def explained_by_calls(
    kinds: tuple[str, ...], own: str, *families: str
) -> Callable[[Findings], float]:
    """These families where calls are more in every step; of a few calls, the time in them only."""
    all_of_them, in_them = in_families(*families), in_families(own)
    return lambda f: all_of_them(f) if f.host.more_calls(*kinds) else in_them(f)


CAUSES = (
    Cause(
        id="extra_sync",
        family="software",
        title="the host synchronizes with the GPU more often",
        summary="More synchronizing calls per step (`.item()`, `.cpu()`, "
        "`torch.cuda.synchronize()`): the queue of launched work runs dry each time.",
        strength=3.0,
        required=(work.more_syncs,),
        explains=explained_by_calls(("sync",), "sync", *host.HOST, "launch_wait", "memcpy"),
        supporting=(Support(0.5, gpu.kernels_same),),
        forbidden=(work.syncs_of_allocations, work.more_pageable),
        own=("sync",),
        confirm="torch.cuda.set_sync_debug_mode('warn') prints where each synchronization comes "
        "from",
        can_hide=True,
    ),
    Cause(
        id="pageable_copy",
        family="software",
        title="copies use memory that is not pinned",
        summary="Copies between host and device go through the driver's staging buffer and block "
        "the host: pin_memory or non_blocking was lost.",
        strength=3.5,
        required=(work.more_pageable,),
        explains=in_families(*host.HOST, "memcpy", "launch_wait"),
        supporting=(Support(0.5, gpu.kernels_same),),
        confirm="look for `.to(device)` and `copy_` of tensors without pin_memory=True",
        can_hide=True,
    ),
    Cause(
        id="graphs_off",
        family="software",
        title="CUDA graphs are no longer used",
        summary="Work that a graph replay launched at once is launched kernel by kernel, and the "
        "host cannot keep up.",
        strength=4.0,
        required=(work.graphs_lost,),
        explains=in_families(*host.HOST, "launch_wait"),
        supporting=(Support(0.5, gpu.kernels_same),),
        confirm="look for enforce_eager, --disable-cuda-graph, or batch sizes that no graph was "
        "captured for",
        can_hide=True,
        detail=share_of_replays,
    ),
    Cause(
        id="kernel_changed",
        family="software",
        title="different kernels do the work",
        summary="Kernels vanished and others took their place: a fused attention fell back to "
        "separate kernels, a library chose another product kernel, a compiled graph was compiled "
        "anew.",
        strength=3.0,
        required=(work.kernel_set_changed,),
        explains=explained_by_kernels,
        supporting=(Support(0.5, work.more_launches),),
        forbidden=(work.batch_differs, work.dtype_differs),
        confirm="`solscope compare NORMAL ABNORMAL --by kernel`; look at versions and at the "
        "backend that the log names",
        can_hide=True,
    ),
    Cause(
        id="dtype_changed",
        family="software",
        title="matrix products run in a different data type",
        summary="Products moved to a wider type (float32 or TF32 for bfloat16, bfloat16 for FP8): "
        "slower kernels, more bytes, often casts around them.",
        strength=4.0,
        required=(work.dtype_differs,),
        explains=in_families("compute", "memcpy", "launch_wait", *host.HOST),
        supporting=(Support(0.5, work.kernel_set_changed),),
        confirm="print the dtype of the weights after loading; look at autocast and quantization "
        "settings",
        can_hide=True,
    ),
    Cause(
        id="allocator",
        family="software",
        title="memory is allocated and freed in the driver during serving",
        summary="The caching allocator does not serve requests from its pool (empty_cache, a "
        "memory limit, fragmentation), and every driver call waits for the GPU.",
        strength=3.5,
        required=(work.more_allocations,),
        explains=explained_by_calls(work.ALLOCATING, "alloc", *host.HOST, "launch_wait"),
        supporting=(Support(0.5, gpu.kernels_same),),
        own=("alloc",),
        confirm="torch.cuda.memory_stats(): num_alloc_retries, num_ooms, segment counts; search "
        "for empty_cache()",
        can_hide=True,
    ),
)
