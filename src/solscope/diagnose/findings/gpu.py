"""What both runs show of the GPU: its kernels and copies."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solscope.diagnose.findings.pairs import KernelPair, Pair, StepMeans
from solscope.diagnose.labels import copy_kind
from solscope.diagnose.thresholds import Thresholds
from solscope.readers.packed import KernelClass, Observations


@dataclass(frozen=True)
class GpuFindings:
    """Kernels and copies of both runs, per average step."""

    steps: StepMeans
    limits: Thresholds

    @cached_property
    def kernels(self) -> list[KernelPair]:
        """All kernel classes of both runs."""
        sides = [{(k.category, k.name, k.dtype): k for k in run.kernels} for run in self.steps.runs]
        out = []
        for key in {**sides[0], **sides[1]}:
            pair = [side.get(key) for side in sides]
            calls = self._per_kernel(pair, lambda kernel: kernel.calls)
            if not (calls.normal or calls.abnormal):
                continue
            spent = self._per_kernel(pair, lambda kernel: kernel.ns)
            grids = [_usual_grid(kernel) for kernel in pair]
            both_known = None not in grids
            blocks = [_blocks(grid) for grid in grids if grid is not None]
            out.append(
                KernelPair(
                    *key,
                    calls=calls,
                    ms=Pair(spent.normal / 1e6, spent.abnormal / 1e6),
                    per_call=Pair(*((k.p50_ns / 1e3 if k else 0.0) for k in pair)),
                    same_grid=grids[0] == grids[1] if both_known else None,
                    blocks=Pair(*blocks) if both_known else None,
                )
            )
        return out

    def _per_kernel(
        self, pair: list[KernelClass | None], values: Callable[[KernelClass], list[int]]
    ) -> Pair:
        return self.steps.mean([[] if kernel is None else values(kernel) for kernel in pair])

    def kernel_time(self, *categories: str) -> Pair:
        """GPU time per step, ms, of categories (all compute when none is given)."""
        chosen = [
            k
            for k in self.kernels
            if (k.category in categories if categories else k.category not in ("comm", "memcpy"))
        ]
        return Pair(sum(k.ms.normal for k in chosen), sum(k.ms.abnormal for k in chosen))

    def per_call_ratio(
        self, *categories: str, same_grid: bool = False, mean: bool = False
    ) -> float | None:
        """Time of the same calls, abnormal over normal, over classes that both runs have.

        It is that of the median call of each class, or with `mean` that of all its calls.
        """
        chosen = [
            k
            for k in self.kernels
            if k.shared
            and (k.category in categories if categories else k.category not in ("comm", "memcpy"))
            and k.per_call.normal > 0
            and (k.same_grid is not False or not same_grid)
        ]
        before = sum(k.ms.normal for k in chosen)
        if not before:
            return None
        if mean:
            return sum(k.ms.abnormal * k.calls.normal / k.calls.abnormal for k in chosen) / before
        return sum(k.ms.normal * k.per_call.ratio for k in chosen) / before

    @cached_property
    def slow_categories(self) -> dict[str, float]:
        """Time per call by category, abnormal over normal, of categories that matter."""
        total = self.kernel_time().normal
        out = {}
        for category in dict.fromkeys(k.category for k in self.kernels):
            ratio = self.per_call_ratio(category)
            matters = self.kernel_time(category).normal > self.limits.category_counts * total
            if matters and ratio is not None and category not in ("comm", "memcpy", "memset"):
                out[category] = ratio
        return out

    @cached_property
    def new_kernel_ms(self) -> float:
        """GPU time per abnormal step in kernels that the normal run does not have."""
        return sum(k.ms.abnormal for k in self._computing if not k.calls.normal)

    @cached_property
    def lost_kernel_ms(self) -> float:
        """GPU time per normal step in kernels that the abnormal run does not have."""
        return sum(k.ms.normal for k in self._computing if not k.calls.abnormal)

    @cached_property
    def _computing(self) -> list[KernelPair]:
        return [k for k in self.kernels if k.category not in ("memcpy", "memset", "comm")]

    @cached_property
    def copy_bandwidth(self) -> dict[str, Pair]:
        """GB/s of copies between host and device, by kind, where both runs copy."""
        out = {}
        sides = [_copy_totals(run) for run in self.steps.runs]
        for kind in sides[0]:
            if kind in sides[1] and kind.startswith(("HtoD", "DtoH")):
                (bytes_n, ns_n), (bytes_a, ns_a) = sides[0][kind], sides[1][kind]
                if min(bytes_n, ns_n, bytes_a, ns_a) > 0:
                    out[kind] = Pair(bytes_n / ns_n, bytes_a / ns_a)
        return out


def _usual_grid(kernel: KernelClass | None) -> str | None:
    return None if kernel is None or not kernel.grids else next(iter(kernel.grids))


def _blocks(grid: str) -> float:
    sizes = [int(digits) for digits in re.findall(r"\d{1,10}", grid)]
    return float(np.prod(sizes, dtype=np.float64)) if sizes else 0.0


def _copy_totals(run: Observations) -> dict[str, tuple[int, int]]:
    out: dict[str, tuple[int, int]] = {}
    for kernel in run.kernels:
        if kernel.category == "memcpy":
            kind = copy_kind(kernel.name)
            size, spent = out.get(kind, (0, 0))
            out[kind] = (size + kernel.bytes, spent + sum(kernel.ns))
    return out
