"""`bench profile`: what the kernels of a call moved and how busy they were, beside the bound.

Counters come from Nsight Compute, which runs one call of a solution in a process of its own, or
from an export of it. Where it is not installed, Kineto says which kernels ran and for how long.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from solscope.bench.bounds import shape_bound
from solscope.bench.catalog import Solution
from solscope.bench.results.ncu_export import (
    DRAM,
    OCCUPANCY,
    READ,
    SM,
    TIME,
    WRITTEN,
    Launch,
    parse_export,
)
from solscope.bench.workloads import DEFAULT_SUITE, Workload
from solscope.errors import InputError, MissingToolError, UsageError
from solscope.hardware import Hardware
from solscope.operators import operator as find_operator

METRICS = ",".join(names[0] for names in (TIME, READ, WRITTEN, OCCUPANCY, DRAM, SM))
MARGIN = 1.05
"""Bytes beyond those of the operator that are not worth a sentence."""
TIMEOUT_S = 600.0
"""For one call under a profiler, torch and compilation included."""
TAIL = 600
"""Characters of what a failed profiler printed that are shown."""
TRACEBACK = "Traceback (most recent call last)"
"""Printed where Python code raised, under a profiler as well."""

Tool = Literal["ncu", "kineto", "file"]


class KernelCounters(msgspec.Struct, frozen=True):
    """All launches of one kernel in a call."""

    kernel: str
    launches: float
    """Per call."""
    time_us: float | None
    """Per call, all launches together; as are bytes."""
    dram_bytes: float | None
    occupancy_pct: float | None
    """Of the longest launch; as are the other shares."""
    dram_pct: float | None
    sm_pct: float | None


class Counters(msgspec.Struct, frozen=True):
    """One call of a solution, beside what the operator needs at least."""

    operator: str
    shape: str
    solution: str | None
    tool: Tool
    hardware: str | None
    suite: str
    time_us: float | None
    """Sum of the kernels; null where one has no time."""
    bound_us: float | None
    limiter: str | None
    bound_reason: str | None
    s: float | None
    """bound_us / time_us, of kernels alone: `bench run` also counts the gaps between them."""
    operator_bytes: float
    """Bytes that the operator must read and write once."""
    dram_bytes: float | None
    """Bytes that the kernels moved."""
    bytes_ratio: float | None
    """dram_bytes / operator_bytes."""
    operator_flop: float
    kernels: list[KernelCounters]
    """The longest first."""
    findings: list[str]


def counters(
    shape: Workload,
    launches: Sequence[Launch],
    tool: Tool,
    *,
    solution: str | None = None,
    hardware: Hardware | None = None,
    calls: int = 1,
) -> Counters:
    """Set launches of so many calls beside the operator's cost and bound."""
    if not launches:
        raise InputError("no kernel was launched")
    operator = find_operator(shape.operator)
    cost = operator.cost(shape.axes)
    bound = shape_bound(
        operator, shape.axes, shape.axes, hardware, published=shape.suite == DEFAULT_SUITE
    )
    kernels = _kernels(launches, calls)
    time_us = _sum([kernel.time_us for kernel in kernels])
    moved = _sum([kernel.dram_bytes for kernel in kernels])
    result = Counters(
        operator=shape.operator,
        shape=shape.shape,
        solution=solution,
        tool=tool,
        hardware=None if hardware is None else hardware.name,
        suite=shape.suite,
        time_us=time_us,
        bound_us=bound.bound_us,
        limiter=bound.limiter,
        bound_reason=bound.reason,
        s=bound.bound_us / time_us if bound.bound_us and time_us else None,
        operator_bytes=cost.bytes,
        dram_bytes=moved,
        bytes_ratio=moved / cost.bytes if moved is not None and cost.bytes else None,
        operator_flop=sum(cost.flops.values()),
        kernels=kernels,
        findings=[],
    )
    return msgspec.structs.replace(result, findings=_findings(result, hardware))


def _kernels(launches: Sequence[Launch], calls: int) -> list[KernelCounters]:
    by_name: dict[str, list[Launch]] = {}
    for launch in launches:
        by_name.setdefault(launch.kernel, []).append(launch)
    kernels = []
    for name, own in by_name.items():
        longest = max(own, key=lambda launch: launch.time_us or 0.0)
        time_us, moved = (
            _sum([kernel.time_us for kernel in own]),
            _sum([kernel.dram_bytes for kernel in own]),
        )
        kernels.append(
            KernelCounters(
                kernel=name,
                launches=len(own) / calls,
                time_us=None if time_us is None else time_us / calls,
                dram_bytes=None if moved is None else moved / calls,
                occupancy_pct=longest.occupancy_pct,
                dram_pct=longest.dram_pct,
                sm_pct=longest.sm_pct,
            )
        )
    return sorted(kernels, key=lambda kernel: -(kernel.time_us or 0.0))


def _sum(values: Sequence[float | None]) -> float | None:
    counted = [value for value in values if value is not None]
    return sum(counted) if len(counted) == len(values) else None


def _findings(result: Counters, hardware: Hardware | None) -> list[str]:
    """What the counters say, in sentences; only what follows from them."""
    findings = []
    launches = sum(kernel.launches for kernel in result.kernels)
    if result.bytes_ratio is not None and result.dram_bytes is not None:
        both = f"{_size(result.dram_bytes)}, the operator needs {_size(result.operator_bytes)}"
        if result.bytes_ratio > MARGIN:
            findings.append(f"it moves {result.bytes_ratio:.2f}x the bytes: {both}")
        elif result.bytes_ratio < 1 / MARGIN:
            why = "caches held the rest, or not all kernels were counted"
            findings.append(f"fewer bytes were counted than the operator needs: {both}; {why}")
        else:
            findings.append(f"it moves no more bytes than it must: {both}")
    if launches > 1:
        findings.append(
            f"{launches:g} launches per call: what one writes and the next reads may go through HBM"
        )
    if result.time_us and (result.limiter or "").startswith("tensor"):
        rate = result.operator_flop / result.time_us / 1e6
        findings.append(f"it computes at {rate:,.0f} TFLOP/s, counting the operator's own FLOPs")
    peak = None if hardware is None else hardware.value("hbm.bandwidth")
    if peak and result.dram_bytes is not None and result.time_us:
        share = 1e8 * result.dram_bytes / result.time_us / peak
        findings.append(f"its kernels reach {share:.0f} % of the HBM bandwidth")
    return findings


def _size(value: float) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= factor:
            return f"{value / factor:,.1f} {unit}"
    return f"{value:,.0f} bytes"


def chosen_kernels(launches: Sequence[Launch], pattern: str | None) -> list[Launch]:
    """Launches whose kernel's name has a match of the pattern; all without one."""
    if pattern is None:
        return list(launches)
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"--kernel {pattern!r}: {error}") from None
    chosen = [launch for launch in launches if wanted.search(launch.kernel)]
    if not chosen:
        names = ", ".join(dict.fromkeys(launch.kernel[:60] for launch in launches[:20]))
        raise UsageError(f"no kernel matches {pattern!r} (there are: {names})")
    return chosen


def record(shape: Workload, solution: Solution) -> tuple[list[Launch], Tool]:
    """Launches of one call on the GPU of this machine, in a process of its own."""
    ncu = shutil.which("ncu")
    with tempfile.TemporaryDirectory(prefix="solscope-profile-") as folder:
        asked = {
            "operator": shape.operator,
            "axes": shape.axes,
            "file": str(solution.stage(shape.operator, Path(folder) / "solution").path),
            "build": str(solution.build_folder(shape.operator)),
            "compile": solution.about.compile,
            "kineto": ncu is None,
        }
        call = [sys.executable, "-m", "solscope.bench.one_call", json.dumps(asked)]
        if ncu is None:
            return _kineto(_printed(call, "the call")), "kineto"
        command = [
            *(ncu, "--csv", "--metrics", METRICS, "--profile-from-start", "off"),
            *("--cache-control", "all", "--clock-control", "none"),
        ]
        return parse_export(_printed([*command, *call], "ncu"), "ncu"), "ncu"


def _printed(command: Sequence[str], what: str) -> str:
    """What a program prints; it and all that it started end with this call, also on Ctrl+C."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            printed, errors = process.communicate(timeout=TIMEOUT_S)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # ncu alone would leave the call running
            if isinstance(error, subprocess.TimeoutExpired):
                raise InputError(f"{what} did not end within {TIMEOUT_S:.0f} s") from None
            raise
    if process.returncode:
        tail = " ".join((printed + errors)[-TAIL:].split())
        if TRACEBACK in printed + errors:
            raise InputError(f"the solution failed: {tail}")
        raise MissingToolError(f"{what} failed (exit code {process.returncode}): {tail}")
    return printed


def _kineto(text: str) -> list[Launch]:
    """Launches that the call printed as its last line."""
    try:
        return msgspec.json.decode(text.strip().splitlines()[-1], type=list[Launch])
    except (IndexError, msgspec.MsgspecError) as error:
        raise InputError(f"the call printed no kernels: {error}") from None
