"""What to do about a row of the work list, in one sentence.

The advice follows from what was measured: what kind of loss it is, and which part of the hardware
sets the bound. It names the usual remedy, never a gain that was not measured.
"""

from __future__ import annotations

from solscope.views.operators import MEMORIES

IDLE = {
    "host": "See what the host does in these gaps (`solscope host`), and take it out of the step",
    "sync": (
        "Remove synchronizing calls from the step (`.item()`, `.cpu()`, synchronize), or make them "
        "after the next launch"
    ),
    "alloc": "Allocate before the steps, or reuse buffers (`solscope memory`)",
    "launch": "Launch the step as a graph, so that its kernels need no launches of their own",
    "unlinked": "Record host activities as well, so that the cause is known",
}
"""By the cause of idle time."""
IN_GRAPHS = "Fuse kernels: each one less is one gap less between the kernels of a graph"
"""In place of `launch`, where kernels are replayed from graphs."""
SLOW_LAUNCHES = "Capture the step in a graph, use torch.compile, or launch fewer kernels"
"""Where the host launches too slowly."""
NO_CORE = (
    "Give the process cores of its own (`taskset`, cpuset), or move away what else runs on them"
)
"""In place of `host`, where the main thread waits for a core most of that time."""
COPIES = {
    "HtoD": "Keep the data on the GPU, or copy on another stream while kernels run",
    "DtoH": "Copy less often, or on another stream while kernels run",
}
"""By the direction of a copy."""
TOO_MANY_COPIES = {
    "HtoD": "Keep on the GPU what is copied to it more than once, such as offloaded weights",
    "DtoH": "Copy less to the host, or less often",
    "DtoD": "Write results where they are needed (in place, `out=`) instead of copying them there",
    "PtoP": "Compute where the data is, or send less from GPU to GPU",
}
"""By direction, where copies that nothing hides take longer than all else that runs: there is too
little to hide them behind."""
ANY_TOO_MANY_COPIES = "See which of these copies can be avoided: too little else runs to hide them"
OTHER_COPIES = "Copy on another stream while kernels run, or avoid the copy"
COMM = (
    "Look at all ranks first (`solscope ranks`): part of it may be waiting for another rank; then "
    "overlap it with computing"
)
TRANSFER = "Overlap it with computing, or send less"
FUSION = "Fuse these kernels into one: torch.compile, or a kernel of your own"
LATE_RANK = {
    "gpu": "Check that rank's GPU: clocks, temperature, other processes on it",
    "host": "Check that rank's host: cores, other processes, what it does before it launches",
    "load": "Give that rank less to do: balance tokens or experts",
    "link": "Check that rank's link: topology, errors, other traffic",
}
"""By the reason that a rank is late."""
ANY_LATE_RANK = "Compare that rank's time line with the others"


_REMEDIES = (
    (SLOW_LAUNCHES, IDLE["launch"]),
    (*COPIES.values(), OTHER_COPIES),
)
"""Advice that asks for the same change of the program."""


def remedy_of(advice: str) -> str:
    """The first advice that asks for the same change."""
    return next((alike[0] for alike in _REMEDIES if advice in alike), advice)


def late_rank(why: str) -> str:
    """What to do about a rank that the others wait for; `why` is the reason that was found."""
    return LATE_RANK.get(why, ANY_LATE_RANK)


def about_operator(limiter: str | None, *, tiny: bool) -> str:
    """What to do about calls above their least time, by what sets that time.

    What limits the kernel that ran is not known from its time: it may be something else.
    """
    if limiter == "launch" and tiny:
        return "Too small for a kernel of its own: fuse it with a neighbor"
    if limiter == "launch":
        return "Its work needs less than a launch: try another kernel, or fuse it with a neighbor"
    if limiter in (*MEMORIES, "l1"):
        return (
            "Memory sets its least time: move fewer bytes (fuse it with the operator before or "
            "after it), or move them faster (another kernel)"
        )
    if limiter is not None and limiter.startswith("tensor."):
        return (
            "The matrix units set its least time: try other kernels, tiles or libraries for this "
            "shape"
        )
    return "Try another kernel for this shape"
