"""Packed recordings: the observations of one run, as `solscope lab pack` writes them.

Such a file is what a diagnosis needs of a recording, a hundredth of its size: every step, the state
of the GPU in it, kernels summed by class, and the sensor samples. It has no single events. The
kernels become the aggregate table, the samples the metric table, and the text itself is handed on
in `Profile.observations`, from which steps and a diagnosis are made without loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from solscope.errors import DamagedFileError
from solscope.events import AGGREGATE_SCHEMA, EVENT_SCHEMA, METRIC_SCHEMA
from solscope.patterns import lazy_pattern
from solscope.profile import Device, Metadata, Profile, ProfileWarning
from solscope.readers.base import MAX_TIME_NS, Head, ReadOptions
from solscope.readers.packed import CLOCK_NS, LIMIT_BYTES, MOST, Observations, Run, decode
from solscope.readers.source import read_all

_START = lazy_pattern(rb'(?:\xef\xbb\xbf)?\s*\{\s*"solscope_observations"\s*:')
_KINDS = {"memcpy": "memcpy", "memset": "memset"}


class ObservationsReader:
    """Packed recordings: what `solscope lab pack` writes.

    They have what a diagnosis needs of a run: a few kilobytes instead of megabytes.

    **Accepts**: JSON whose first member is `solscope_observations`, of version 1; plain, gzip,
    zstd or xz. At most 64 MiB.

    **Fills** the aggregate table, one row per class of kernels or copies with calls, total, mean
    and median, and the [metric table](events.md#metric-table). `show` also has the steps.
    `diagnose` uses all of it and gives the same answer as for the trace that was packed. There are
    no events: span, busy, idle and exposed times are null, and layers, operators and `gate` need
    the trace. A redacted copy keeps only the tables.

    **Warnings**: `packed`, and those of the trace that was packed.
    """

    name = "observations"
    summary = "packed recordings: steps, kernels and sensors of one run, without events"

    def sniff(self, head: Head) -> bool:
        """True when the first member of the object names the format."""
        return _START.match(head.data) is not None

    def read(self, path: Path, options: ReadOptions) -> Profile:
        """Read kernels and samples, and hand on the rest for a diagnosis."""
        data = read_all(path, options, LIMIT_BYTES).removeprefix(b"\xef\xbb\xbf")
        packed = decode(data, str(path))
        kernels = _aggregates(path, packed)
        samples = _metrics(path, packed)
        return Profile(
            path=str(path),
            format=self.name,
            metadata=Metadata(
                events_in_file=kernels.height + (0 if samples is None else samples.height),
                devices=tuple(
                    Device(ordinal, name) for ordinal, name in enumerate(packed.run.gpus)
                ),
                framework=packed.run.framework,
            ),
            events=EVENT_SCHEMA.to_frame(),
            aggregates=kernels,
            metrics=samples,
            observations=data,
            warnings=tuple(_warnings(packed.run)),
        )


READER = ObservationsReader()


def observed_steps(data: bytes, path: str) -> pl.DataFrame:
    """Steps of a packed recording, each up to the start of the next one."""
    packed = decode(data, path)
    return pl.DataFrame(
        [
            (
                step.start_ns,
                step.start_ns + step.wall_ns,
                step.phase,
                step.requests,
                step.tokens,
                not step.whole,
                packed.run.found_by,
            )
            for step in packed.steps
        ],
        schema={
            "start_ns": pl.Int64,
            "end_ns": pl.Int64,
            "phase": pl.String,
            "requests": pl.Int64,
            "tokens": pl.Int64,
            "cut": pl.Boolean,
            "found_by": pl.String,
        },
        orient="row",
    )


def _aggregates(path: Path, packed: Observations) -> pl.DataFrame:
    """One row per class of kernels that ran."""
    ran = [kernel for kernel in packed.kernels if any(kernel.calls)]
    for kernel in ran:
        numbers = (*kernel.calls, *kernel.ns, kernel.p50_ns)
        if not kernel.name or min(numbers) < 0 or sum(kernel.calls) + sum(kernel.ns) > MOST:
            raise DamagedFileError(f"{path}: damaged numbers of the kernel {kernel.name!r}")
    if not ran:
        raise DamagedFileError(f"{path}: no kernel ran in this packed recording")
    calls = [sum(kernel.calls) for kernel in ran]
    totals = [sum(kernel.ns) for kernel in ran]
    return pl.DataFrame(
        {
            "kind": [_KINDS.get(kernel.category, "kernel") for kernel in ran],
            "name": [kernel.name for kernel in ran],
            "calls": calls,
            "total_ns": totals,
            "mean_ns": [total / count for total, count in zip(totals, calls, strict=True)],
            "median_ns": [float(kernel.p50_ns) for kernel in ran],
            "min_ns": None,
            "max_ns": None,
            "std_ns": None,
        },
        schema=AGGREGATE_SCHEMA,
    )


def _metrics(path: Path, packed: Observations) -> pl.DataFrame | None:
    """All samples; null where there are none, or where it is not known when they were taken."""
    zero = packed.run.unix_ns
    if zero is None or not any(counter.n for counter in packed.counters):
        return None
    rows: dict[str, list[object]] = {"t_ns": [], "metric": [], "device": [], "value": []}
    for counter in packed.counters:
        if counter.n == 0:
            continue
        times = [zero + CLOCK_NS * tick for tick in packed.clocks[counter.clock]]
        if not all(0 <= time < MAX_TIME_NS for time in times):
            raise DamagedFileError(f"{path}: damaged samples of the sensor {counter.name!r}")
        rows["t_ns"] += times
        rows["metric"] += [counter.name] * counter.n
        rows["device"] += [counter.device] * counter.n
        rows["value"] += counter.readings
    return pl.DataFrame(rows, schema=METRIC_SCHEMA).sort("t_ns", maintain_order=True)


def _warnings(run: Run) -> Iterator[ProfileWarning]:
    yield ProfileWarning(
        "packed",
        "a packed recording: kernels are sums over the run and there is no time line; a step "
        "reaches to the start of the next one",
    )
    for text in run.warnings:
        code, _, message = text.partition(": ")
        yield ProfileWarning(code, message)
