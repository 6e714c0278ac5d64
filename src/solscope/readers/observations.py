"""Packed recordings: the observations of one run, as `solscope lab pack` writes them.

Such a file is what a diagnosis needs of a recording, a hundredth of its size: every step, the state
of the GPU in it, kernels summed by class, and the sensor samples. It has no single events. The
kernels become the aggregate table, the samples the metric table, and the text itself is handed on
in `Profile.observations`, from which steps and a diagnosis are made without loss.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import polars as pl

from solscope.errors import DamagedFileError
from solscope.events import AGGREGATE_SCHEMA, EVENT_SCHEMA, METRIC_SCHEMA
from solscope.profile import Device, Metadata, Profile, ProfileWarning
from solscope.readers.base import MAX_TIME_NS, Head, ReadOptions
from solscope.readers.source import read_all

VERSION = 1
"""Version of the format that this reader knows."""
LIMIT_BYTES = 64 << 20
CLOCK_NS = 100_000
"""Unit of sample times."""
_START = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"solscope_observations"\s*:')
_KINDS = {"memcpy": "memcpy", "memset": "memset"}
_MOST = 1 << 62
MAX_SAMPLES = 1 << 22
"""Samples of all sensors together; recordings have a hundredth of that."""
_Int = Annotated[int, msgspec.Meta(ge=-_MOST, le=_MOST)]
"""A number that fits into a column, and still does with another one added."""
_Ordinal = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]


class _Kernels(msgspec.Struct):
    category: str
    name: str
    calls: list[_Int]
    ns: list[_Int]
    p50_ns: _Int


class _Counter(msgspec.Struct):
    name: str
    device: _Ordinal | None
    clock: _Int
    values: list[float]
    n: _Ordinal


class _Run(msgspec.Struct):
    gpus: list[str]
    framework: str | None
    found_by: str | None
    unix_ns: _Int | None
    warnings: list[str]


class _Step(msgspec.Struct, array_like=True):
    number: _Int
    start_ns: _Int
    wall_ns: Annotated[int, msgspec.Meta(ge=0, lt=_MOST)]
    phase: str | None
    requests: _Int | None
    tokens: _Int | None
    activities: _Int
    whole: bool


class _Packed(msgspec.Struct):
    solscope_observations: int
    run: _Run
    steps: list[_Step]
    kernels: list[_Kernels]
    clocks: list[list[_Int]]
    counters: list[_Counter]


class _Steps(msgspec.Struct):
    """What `observed_steps` needs of it."""

    run: _Run
    steps: list[_Step]


class ObservationsReader:
    """Packed recordings."""

    name = "observations"
    summary = "packed recordings: steps, kernels and sensors of one run, without events"

    def sniff(self, head: Head) -> bool:
        """True when the first member of the object names the format."""
        return _START.match(head.data) is not None

    def read(self, path: Path, options: ReadOptions) -> Profile:
        """Read kernels and samples, and hand on the rest for a diagnosis."""
        data = read_all(path, options, LIMIT_BYTES).removeprefix(b"\xef\xbb\xbf")
        packed = _decode(path, data)
        kernels = _aggregates(path, packed)
        _check_samples(path, packed)
        samples = _metrics(path, packed)
        return Profile(
            path=str(path),
            format=self.name,
            metadata=Metadata(
                events_in_file=kernels.height + (0 if samples is None else samples.height),
                devices=tuple(Device(at, name) for at, name in enumerate(packed.run.gpus)),
                framework=packed.run.framework,
            ),
            events=EVENT_SCHEMA.to_frame(),
            aggregates=kernels,
            metrics=samples,
            observations=data,
            warnings=tuple(_warnings(packed.run)),
        )


READER = ObservationsReader()


def observed_steps(data: bytes) -> pl.DataFrame:
    """Steps of a packed recording, each up to the start of the next one."""
    try:
        packed = msgspec.json.decode(data, type=_Steps)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedFileError(f"damaged steps in a packed recording ({error})") from error
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


def _decode(path: Path, data: bytes) -> _Packed:
    try:
        packed = msgspec.json.decode(data, type=_Packed)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedFileError(f"{path}: damaged packed recording ({error})") from error
    if packed.solscope_observations != VERSION:
        raise DamagedFileError(
            f"{path}: a packed recording of version {packed.solscope_observations}, this solscope "
            f"reads {VERSION}; pack it again from the trace"
        )
    return packed


def _aggregates(path: Path, packed: _Packed) -> pl.DataFrame:
    """One row per class of kernels that ran."""
    ran = [kernel for kernel in packed.kernels if any(kernel.calls)]
    for kernel in ran:
        numbers = (*kernel.calls, *kernel.ns, kernel.p50_ns)
        if not kernel.name or min(numbers) < 0 or sum(kernel.calls) + sum(kernel.ns) > _MOST:
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


def _check_samples(path: Path, packed: _Packed) -> None:
    """Refuse samples without times before any are written out: `n` can be any number."""
    for counter in packed.counters:
        clock = packed.clocks[counter.clock] if 0 <= counter.clock < len(packed.clocks) else []
        known = len(counter.values) in {1, counter.n} and counter.name
        if counter.n and not (known and counter.n == len(clock)):
            raise DamagedFileError(f"{path}: damaged samples of the sensor {counter.name!r}")
    samples = sum(counter.n for counter in packed.counters)
    if samples > MAX_SAMPLES:
        raise DamagedFileError(f"{path}: {samples:,} samples; at most {MAX_SAMPLES:,} are read")


def _metrics(path: Path, packed: _Packed) -> pl.DataFrame | None:
    """All samples; null where there are none, or where it is not known when they were taken."""
    zero = packed.run.unix_ns
    if zero is None or not any(counter.n for counter in packed.counters):
        return None
    rows: dict[str, list[object]] = {"t_ns": [], "metric": [], "device": [], "value": []}
    for counter in packed.counters:
        if counter.n == 0:
            continue
        values = counter.values * counter.n if len(counter.values) == 1 else counter.values
        times = [zero + CLOCK_NS * at for at in packed.clocks[counter.clock]]
        if not all(0 <= time < MAX_TIME_NS for time in times):
            raise DamagedFileError(f"{path}: damaged samples of the sensor {counter.name!r}")
        rows["t_ns"] += times
        rows["metric"] += [counter.name] * counter.n
        rows["device"] += [counter.device] * counter.n
        rows["value"] += values
    return pl.DataFrame(rows, schema=METRIC_SCHEMA).sort("t_ns", maintain_order=True)


def _warnings(run: _Run) -> Iterator[ProfileWarning]:
    yield ProfileWarning(
        "packed",
        "a packed recording: kernels are sums over the run and there is no time line; a step "
        "reaches to the start of the next one",
    )
    for text in run.warnings:
        code, _, message = text.partition(": ")
        yield ProfileWarning(code, message)
