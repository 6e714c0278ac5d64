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
    "host": "link between GPU and host",
    "tensor": "matrix units, for several precisions",
    "vector": "vector units, for several precisions",
    "compute": "all units that compute, as the public suite counts them",
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
    "warm-v1": "calls are timed one after another, with what they left in the caches",
    "graph-v2": "many calls are timed in one CUDA graph, so that launches cost next to nothing",
}
"""How results were timed."""
CATEGORIES = {
    "gemm": "dense matrix products",
    "attention": "attention of any kind, with its preparation and merging",
    "linear_attention": "gated delta rule, Mamba and the like",
    "moe": "mixture of experts: routing, expert products, finalize",
    "comm": "communication between GPUs",
    "norm": "RMS, layer, group and batch norms",
    "activation": "SiLU, GELU, ReLU and their gated forms",
    "rope": "rotary embeddings",
    "kv_cache": "writes into the KV cache",
    "quant": "quantization and back",
    "sampling": "argmax, top-k, top-p, random draws",
    "softmax": "softmax on its own",
    "embedding": "embedding tables, gathers",
    "conv": "convolutions",
    "pool": "pooling",
    "sort_scan": "sorts, prefix sums, unique",
    "optimizer": "optimizer steps of a training",
    "copy": "copies made by a kernel: clone, cat, transpose, cast",
    "memcpy": "copies made by the copy engine or the runtime",
    "memset": "fills made by the runtime",
    "elementwise": "element-wise kernels that are none of the others",
    "reduce": "reductions that are none of the others",
    "other": "kernels that no rule knows",
}
"""What kernels do."""
STATES = {
    "changed": "significant over steps or samples, and large enough to matter",
    "unchanged": "shown to be the same, within a few percent",
    "unclear": "neither shown to differ nor shown to be the same",
    "not tested": "too few steps or samples for a test",
    "missing": "one of the runs has no samples",
    "driver": "a sensor that can make a run slow",
    "consequence": "a sensor that only shows that a run is slow",
    "good": "the same program, GPU and work, with enough steps",
    "weak": "few steps, or not quite the same work: reasons are listed",
    "not comparable": "not the same work: reasons are listed",
}
"""What became of a part or a sensor, and how well two runs compare."""
RELATIONS = {
    "same kernel": "both profiles run kernels of these names",
    "replaced": "one kernel by another that does the same work",
    "split": "one kernel by several",
    "fused": "several kernels by one",
    "several by several": "several kernels by several others",
    "only after": "the first profile has no such kernel",
    "only before": "the second profile has no such kernel",
}
"""How kernels of two profiles match."""
WORDS = {
    **CATEGORIES,
    **STATES,
    **RELATIONS,
    **LIMITERS,
    **COMPONENTS,
    **METHODS,
    **ABOUT,
}
TERMS = {
    "p10": "10 of 100 steps take less",
    "p20": "20 of 100 take less",
    "p50": "the median: half of them take less",
    "p80": "80 of 100 take less",
    "p90": "90 of 100 take less",
    "p99": "99 of 100 take less",
    "span": "from the start of the first GPU activity to the end of the last",
    "exposed": "not hidden: nothing computes meanwhile",
    "kernel time": "the sum over kernels; those that run at the same time count each",
    "noise inside the normal run": "how much two halves of the normal run differ by chance",
    "noise between starts": "how much two starts of the same program may differ with nothing "
    "changed",
    "comparability": "whether both runs did the same work, and how well that is known",
    "95 % interval": "where the true value lies in 95 of 100 such comparisons",
    "like for like": "steps of each phase compared with each other, then weighted as in the "
    "normal run",
    "change point": "a step from which on all steps take longer or less long",
    "drift": "steps that become longer or shorter little by little",
    "slack": "how much later an activity could end without delaying the end of the recording",
    "launch-bound": "the GPU waits for kernels to be launched one by one",
    "bound": "the least time that these calls can take on this GPU",
    "importance": "share of the GPU time, mean over profiles",
    "can be saved": "what kernels at 80 % of the speed of the bound would save",
    "above the bound": "what calls take beyond the least time: the most that faster kernels can "
    "save, and more than they will",
    "role": "what a kernel is for in its layer",
    "axes": "sizes and types that determine what a call costs",
    "ready to run, no core": "the main thread waits in the run queue of the scheduler: others run "
    "on its cores",
    "T_SOL": "the least time by the published formula: FLOP over peak, or bytes over bandwidth",
    "T_Prod": "the time of the kernel that is deployed, as published",
    "GEMMs": CATEGORIES["gemm"],
    "MoE kernels": CATEGORIES["moe"],
}
"""Terms inside labels and sentences; the longest that fits counts."""


def about(word: str) -> str | None:
    """What a word means; of two entries that fit, the longer."""
    if word in WORDS:
        return WORDS[word]
    fits = [start for start in WORDS if start[-1] in ".:" and word.startswith(start)]
    return WORDS[max(fits, key=len)] if fits else None
