"""Words of the library that pages explain where one points at them."""

from __future__ import annotations

from solscope.readers.metric_kinds import ABOUT

LIMITERS = {
    "hbm": "bandwidth of the GPU's main memory",
    "l2": "bandwidth of the L2 cache",
    "llc": "bandwidth of the last-level cache (Infinity Cache)",
    "l1": "bandwidth of the L1 caches",
    "sfu": "special function units: exp, log, sin and the like",
    "launch": "the shortest time that any kernel takes",
    "serial": "steps that must follow one another",
    "interconnect": "links between GPUs",
    "tensor.": "matrix units, for this precision",
    "vector.": "vector units, for this precision",
}
"""What sets a bound; a name that ends in a point stands for all that begin with it."""
COMPONENTS = {
    "compute.": "time in which kernels of this category run",
    "comm.": "communication of this kind that no computation hides",
    "memcpy.": "copies of this kind that nothing else hides",
    "idle.host:": "the GPU waits, and the launching thread is in this section of the program",
    "idle.host": "the GPU waits for the host",
    "idle.between_steps": "the GPU waits, and the launching thread is outside of all sections",
    "idle.sync": "the GPU waits, and the host is in a call that waits for the GPU",
    "idle.alloc": "the GPU waits, and the host allocates or frees memory",
    "idle.gc": "the GPU waits, and the host collects garbage",
    "idle.io": "the GPU waits, and the host reads or writes files",
    "idle.launch_call": "the GPU waits, and the host is in the call that launches the next kernel",
    "idle.launch_wait": "the next kernel is launched and has not started",
    "idle.unlinked": "the GPU is idle, and why is not known",
}
"""Parts of a step in a diagnosis."""
METHODS = {
    "cold-v1": "each call is timed with cold caches, as it runs between other kernels",
}
"""How results were timed."""
WORDS = {**LIMITERS, **COMPONENTS, **METHODS, **ABOUT}


def about(word: str) -> str | None:
    """What a word means; of two entries that fit, the longer."""
    if word in WORDS:
        return WORDS[word]
    fits = [start for start in WORDS if start[-1] in ".:" and word.startswith(start)]
    return WORDS[max(fits, key=len)] if fits else None
