"""Profile: one recording, whatever tool made it, as tables plus what the file says of itself.

A profile is immutable. `save()` writes it as a folder of Parquet files that `solscope.open` (and
any other Parquet reader) opens again without loss.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from solscope.errors import DamagedFileError, InputError, UsageError
from solscope.events import (
    AGGREGATE_SCHEMA,
    CYCLE_SCHEMA,
    EVENT_SCHEMA,
    GPU_KINDS,
    METRIC_SCHEMA,
    conform,
    correlation_key,
    is_launch,
)
from solscope.files import new_folder
from solscope.queries import collect

SAVE_VERSION = 1
MANIFEST = "profile.json"
_MOST_NS = 2.0**62
"""No sum of durations may come near the end of int64."""


class ProfileWarning(msgspec.Struct, frozen=True):
    """Something that makes a number unsafe, or that was left out."""

    code: str
    """Stable identifier, e.g. `truncated`."""
    message: str
    """One sentence: what was found and what follows from it."""


class Device(msgspec.Struct, frozen=True):
    """One GPU, as the profile describes it."""

    ordinal: int
    name: str | None = None
    """Marketing name as recorded; null when the source leaves it out."""
    vendor: str | None = None
    """`nvidia` or `amd`."""
    arch: str | None = None
    """`sm_90`, `gfx942`, ..."""
    compute_units: int | None = None
    """Streaming multiprocessors or compute units."""
    memory_bytes: int | None = None

    @property
    def label(self) -> str:
        """The name, or the best description the profile allows."""
        return self.name or f"{self._vendor} {self.ordinal} ({self._facts or 'not described'})"

    @property
    def model(self) -> str | None:
        """The GPU model, as far as the profile states it; the same for all GPUs of one model."""
        return self.name or (f"{self._vendor} ({self._facts})" if self._facts else None)

    @property
    def _facts(self) -> str:
        facts = [self.arch, f"{self.compute_units} CUs" if self.compute_units else None]
        if self.memory_bytes:
            facts.append(f"{self.memory_bytes / 2**30:.0f} GiB")
        return ", ".join(fact for fact in facts if fact)

    @property
    def _vendor(self) -> str:
        return {"amd": "AMD GPU", "nvidia": "NVIDIA GPU"}.get(self.vendor or "", "GPU")


class ProcessGroup(msgspec.Struct, frozen=True):
    """Ranks that communicate with one another, as the header describes them."""

    name: str
    parallelism: str | None
    """`tp`, `dp`, `pp`, `ep` or `cp`; null when neither name nor description says so."""
    ranks: tuple[int, ...]


class Metadata(msgspec.Struct, frozen=True):
    """What the file says of itself. Environment and command lines are never kept."""

    events_in_file: int = 0
    """Events or rows in the file, those that the event table leaves out included."""
    devices: tuple[Device, ...] = ()
    framework: str | None = None
    """vllm, sglang, rtp-llm, ... if names in the profile reveal it."""
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    """Versions of driver, runtime, profiler, libraries."""
    rank: int | None = None
    world_size: int | None = None
    host: str | None = None
    unix_offset_ns: int | None = None
    """Add to `start_ns` for Unix time; null when the source has no wall clock."""
    stage: str | None = None
    """`prefill` or `decode` when the profiler recorded one stage only (file name)."""
    groups: tuple[ProcessGroup, ...] = ()
    """Process groups that this rank is in."""
    about: dict[str, Any] = msgspec.field(default_factory=dict)
    """Other small facts from the header, as recorded."""


class Coverage(msgspec.Struct, frozen=True):
    """Shares of GPU time for which a fact is known, in percent; null when it cannot be asked."""

    linked_pct: float | None
    """GPU time whose launch call is in the profile."""


@dataclass(frozen=True)
class Profile:
    """One recording: events, aggregates, metrics and metadata."""

    path: str
    format: str
    """Name of the reader that produced it."""
    metadata: Metadata
    events: pl.DataFrame = field(repr=False)
    """The event table (`EVENT_SCHEMA`); empty when the source only has aggregates."""
    aggregates: pl.DataFrame = field(repr=False, default_factory=AGGREGATE_SCHEMA.to_frame)
    """The aggregate table (`AGGREGATE_SCHEMA`); empty when the source has events."""
    metrics: pl.DataFrame | None = field(repr=False, default=None)
    """Samples of host and GPU sensors (`METRIC_SCHEMA`), if a metrics file is next to it."""
    cycles: pl.DataFrame | None = field(repr=False, default=None)
    """Functions by cycle (`CYCLE_SCHEMA`), when the source was cut into cycles by its maker."""
    observations: bytes | None = field(repr=False, default=None)
    """JSON of a packed recording, from which steps and a diagnosis are made (`diagnose/`)."""
    warnings: tuple[ProfileWarning, ...] = ()

    def __post_init__(self) -> None:
        if self.events.schema != EVENT_SCHEMA:
            object.__setattr__(self, "events", conform(self.events, EVENT_SCHEMA))
        if self.aggregates.schema != AGGREGATE_SCHEMA:
            object.__setattr__(self, "aggregates", conform(self.aggregates, AGGREGATE_SCHEMA))
        if self.metrics is not None and self.metrics.schema != METRIC_SCHEMA:
            object.__setattr__(self, "metrics", conform(self.metrics, METRIC_SCHEMA))
        if self.cycles is not None and self.cycles.schema != CYCLE_SCHEMA:
            object.__setattr__(self, "cycles", conform(self.cycles, CYCLE_SCHEMA))
        for table, column in ((self.events, "dur_ns"), (self.aggregates, "total_ns")):
            if not table.is_empty() and (table[column].min() or 0) < 0:  # type: ignore[operator]
                raise DamagedFileError(f"{self.path}: it has negative durations; record it again")
            if float(table[column].cast(pl.Float64).sum()) > _MOST_NS:
                raise DamagedFileError(
                    f"{self.path}: its durations add up to more than two centuries; the numbers in "
                    "this file are damaged"
                )

    @property
    def name(self) -> str:
        """File name, for headings."""
        return Path(self.path).name

    @property
    def is_aggregate(self) -> bool:
        """True when single events, and with them time lines and gaps, are not known."""
        return self.events.is_empty() and not self.aggregates.is_empty()

    @cached_property
    def coverage(self) -> Coverage:
        """How much of the GPU time can be traced back to a launch call."""
        gpu = self.events.filter(pl.col("kind").is_in(GPU_KINDS))
        total = int(gpu["dur_ns"].sum())
        if not total:
            return Coverage(linked_pct=None)
        key = correlation_key(gpu)
        launches = collect(self.events.lazy().filter(is_launch()).select(key))
        linked = gpu.join(launches, on=key, how="semi", nulls_equal=True)
        return Coverage(linked_pct=100.0 * int(linked["dur_ns"].sum()) / total)

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> Path:
        """Write a folder of Parquet files; all of it appears at once or not at all."""
        target = Path(path)
        if target.exists() and not force:
            raise UsageError(f"{target} exists; pass force=True to replace it")
        if target.exists() and not is_saved_profile(target):
            raise UsageError(f"{target} exists and is not a saved profile; it will not be replaced")
        target.parent.mkdir(parents=True, exist_ok=True)
        with new_folder(target) as work:
            work.mkdir()
            self.events.write_parquet(work / "events.parquet", compression="zstd")
            self.aggregates.write_parquet(work / "aggregates.parquet", compression="zstd")
            if self.metrics is not None:
                self.metrics.write_parquet(work / "metrics.parquet", compression="zstd")
            if self.cycles is not None:
                self.cycles.write_parquet(work / "cycles.parquet", compression="zstd")
            if self.observations is not None:
                (work / "observations.json").write_bytes(self.observations)
            manifest = {
                "solscope_profile": SAVE_VERSION,
                "path": self.path,
                "format": self.format,
                "metadata": self.metadata,
                "warnings": self.warnings,
            }
            (work / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
        return target


class _Manifest(msgspec.Struct):
    solscope_profile: int
    path: str
    format: str
    metadata: Metadata
    warnings: tuple[ProfileWarning, ...]


def is_saved_profile(path: Path) -> bool:
    """True for a folder that `Profile.save` wrote."""
    return (path / MANIFEST).is_file() and (path / "events.parquet").is_file()


_UNREADABLE = (
    msgspec.DecodeError,
    UnicodeDecodeError,
    RecursionError,
    InputError,
    OSError,
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
)
"""What a damaged folder can raise; Polars panics, rather than raises, on some Parquet footers."""


_INT32 = range(-(1 << 31), 1 << 31)
_INT64 = range(-(1 << 63), 1 << 63)


def _check_numbers(metadata: Metadata) -> None:
    """Refuse numbers that do not fit into the columns they are compared with."""
    small = (metadata.rank, metadata.world_size, *(device.ordinal for device in metadata.devices))
    fits = all(number is None or number in _INT32 for number in small)
    if not fits or (metadata.unix_offset_ns or 0) not in _INT64:
        raise InputError("a number is out of range")


def load_saved(path: Path) -> Profile:
    """Open a folder that `Profile.save` wrote."""
    try:
        manifest = msgspec.json.decode((path / MANIFEST).read_bytes(), type=_Manifest)
        if manifest.solscope_profile != SAVE_VERSION:
            raise DamagedFileError(
                f"{path}: saved by format version {manifest.solscope_profile}, this solscope reads "
                f"{SAVE_VERSION}; save it again from the original profile"
            )
        _check_numbers(manifest.metadata)
        metrics, cycles = path / "metrics.parquet", path / "cycles.parquet"
        packed = path / "observations.json"
        return Profile(
            path=manifest.path,
            format=manifest.format,
            metadata=manifest.metadata,
            events=conform(pl.read_parquet(path / "events.parquet"), EVENT_SCHEMA),
            aggregates=conform(pl.read_parquet(path / "aggregates.parquet"), AGGREGATE_SCHEMA),
            metrics=conform(pl.read_parquet(metrics), METRIC_SCHEMA) if metrics.exists() else None,
            cycles=conform(pl.read_parquet(cycles), CYCLE_SCHEMA) if cycles.exists() else None,
            observations=packed.read_bytes() if packed.exists() else None,
            warnings=manifest.warnings,
        )
    except DamagedFileError:
        raise
    except _UNREADABLE as error:
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        raise DamagedFileError(
            f"{path}: this saved profile cannot be read ({first_line}); "
            "save it again from the original profile"
        ) from error
