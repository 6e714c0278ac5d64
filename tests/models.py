"""Runs through small models, written as one letter per kernel (`attribution/sequence.py`)."""

from __future__ import annotations

from typing import Any

from tests.making import event

NAMES = {
    "A": "flash_fwd_kernel",
    "C": "ncclDevKernel_AllReduce",
    "D": "moe_align_block_size_kernel",
    "E": "vectorized_gather_kernel",
    "F": "moe_sum_kernel",
    "G": "nvjet_tst_128x8",
    "K": "reshape_and_cache_flash_kernel",
    "N": "rms_norm_kernel",
    "O": "topkGating",
    "P": "fused_moe_kernel",
    "R": "rotary_embedding_kernel",
    "S": "silu_and_mul_kernel",
    "T": "argmax_kernel",
    "X": "softmax_kernel",
    "k": "void at::native::sbtopk::gatherTopK<float>",
    "o": "acme_unknown",
}
"""A kernel name for each letter that tests use; a test checks that it means that letter."""

LAYER = "NGRKAGNGSG"
"""One dense decoder layer: norm, qkv, rope, kv write, attention, o_proj, norm, up, act, down."""
MODEL = f"E{LAYER}{LAYER}NGT"
"""Two such layers between embedding and final norm, lm_head, sampler."""


def kernels(text: str, start: int = 0, *, dur: int = 10, **more: Any) -> list[dict[str, Any]]:
    """Kernels of `dur` ns each, one right after the other, without launches."""
    return [event("kernel", NAMES[k], start + dur * i, dur, **more) for i, k in enumerate(text)]


def launched(text: str, at: int, start: int, first: int, *, dur: int = 10) -> list[dict[str, Any]]:
    """The same, each launched by a call of 1 ns from `at` on; ids count from `first`."""
    calls = [
        event("runtime", "cudaLaunchKernel", at + i, 1, correlation=first + i)
        for i in range(len(text))
    ]
    ran = [
        {**kernel, "correlation": first + i}
        for i, kernel in enumerate(kernels(text, start, dur=dur))
    ]
    return calls + ran


def replayed(text: str, at: int, start: int, correlation: int) -> list[dict[str, Any]]:
    """The same, launched by one graph launch at `at`."""
    call = event("runtime", "cudaGraphLaunch", at, 5, correlation=correlation)
    return [call, *kernels(text, start, correlation=correlation)]
