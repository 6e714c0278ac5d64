"""Observations: all that a diagnosis needs to know of one run, small enough to keep for ever.

The value of a run's GPU time line, host calls and sensors, step by step. It is made from a profile
by `observe`, and saved as JSON (`.json`, or `.json.zst`); nothing in a diagnosis looks at the
profile again, so saved observations give the same diagnosis as the traces.

Every per-step list has one entry per step, in the order of `steps`. A step reaches from the start
of its first GPU activity to the start of the next step's; `tiles` split that time into disjoint
states that add up to it to the nanosecond.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from solscope.errors import DamagedFileError

VERSION = 1
"""Version of the format."""
LIMIT_BYTES = 64 << 20
"""Most bytes of JSON that are read; packed recordings have a hundredth of that."""
MAX_SAMPLES = 1 << 22
"""Samples of all sensors together; recordings have a hundredth of that."""

MOST = 1 << 62
"""Largest number: it fits into 64 bits, and still does with another one added."""
Number = Annotated[int, msgspec.Meta(ge=-MOST, le=MOST)]
Length = Annotated[int, msgspec.Meta(ge=0, lt=MOST)]
Ordinal = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
ANCHOR = "anchor "
"""Start of `Run.found_by` in a run known by cycles; the rest names what a cycle is."""
TileKind = Literal["compute", "comm", "memcpy", "idle"]


class Step(msgspec.Struct, frozen=True, array_like=True):
    """One step; where a fact is not known, null."""

    number: Number
    """Its number in the profile."""
    start_ns: Number
    """From the start of the run's first step."""
    wall_ns: Length
    """To the start of the next step; for the last step to its own last activity."""
    phase: str | None
    requests: Number | None
    tokens: Number | None
    activities: Number
    """GPU activities launched in it."""
    whole: bool
    """False when the profile shows it in part, or no step follows it."""
    profiler_ns: Length = 0
    """Time in which the profiler itself was at work; recordings packed before this was kept have
    0."""


class Tile(msgspec.Struct, frozen=True):
    """One state of the GPU: the time of every step in which it was in that state."""

    kind: TileKind
    name: str
    """Category (`gemm`), kind of copy (`HtoD pageable`), or cause of idle time (`host:decode`)."""
    ns: list[Number]


class KernelClass(msgspec.Struct, frozen=True):
    """Activities of one category, short name and data type."""

    category: str
    name: str
    dtype: str | None
    """Type in its name: bf16, f16, f32, tf32, fp8, int8; null if the name has none."""
    calls: list[Number]
    ns: list[Number]
    """Durations, summed."""
    exposed_ns: list[Number]
    """What of it is in the tiles: time in which it alone decided the state of the GPU."""
    p50_ns: Number
    """Median duration of one call in whole steps."""
    grids: dict[str, Number]
    """Launch grids and their calls, the most frequent ones."""
    bytes: Number
    """Bytes copied or set by all calls; 0 for kernels."""


class HostCalls(msgspec.Struct, frozen=True):
    """Runtime and driver calls of one kind, on any thread."""

    kind: str
    """launch, graph_launch, sync, alloc, free, memcpy, memset, host_alloc, capture, other."""
    calls: list[Number]
    ns: list[Number]


class Section(msgspec.Struct, frozen=True):
    """An annotated section of the program on the host, digits of its name left out."""

    name: str
    calls: list[Number]
    ns: list[Number]
    """Time inside it, sections nested in it included."""
    own_ns: list[Number]
    """Time inside it and in no section nested in it."""
    op_ns: list[Number]
    """Part of `own_ns` inside framework operators and runtime calls."""


class HostOp(msgspec.Struct, frozen=True, array_like=True):
    """A framework operator or runtime call on the launching thread: time of one call."""

    name: str
    calls: Number
    p50_ns: Number
    mean_ns: Number
    p99_ns: Number
    shapes: dict[str, Number]
    """Most frequent input shapes of an operator that launches GPU work, and their launches."""


class Stall(msgspec.Struct, frozen=True, array_like=True):
    """One long wait of the GPU for the host."""

    step: Number
    """Index into `steps`."""
    at_ns: Number
    """From the start of the run's first step."""
    ns: Number
    where: str
    """Idle tile that holds most of it."""


class Counter(msgspec.Struct, frozen=True):
    """A sensor: its samples inside the time of the steps, each once."""

    name: str
    device: Ordinal | None
    """GPU; null for the host."""
    grows: bool
    """True for a count that only grows (its rate matters), false for a reading."""
    clock: Ordinal
    """Index into `clocks`: when the samples were taken."""
    values: list[float]
    """Readings, or counts since the first sample. One value when all samples are the same."""
    n: Ordinal
    """Samples."""

    @property
    def readings(self) -> list[float]:
        """All samples, also of a constant."""
        return self.values * self.n if len(self.values) == 1 else self.values


class Run(msgspec.Struct, frozen=True):
    """What the recording says of itself."""

    name: str
    format: str
    gpus: list[str]
    framework: str | None
    found_by: str | None
    """How the steps were found."""
    span_ns: Number
    """From the start of the first step to the end of the last."""
    unix_ns: Number | None
    """Unix time of the start of the first step."""
    processes: Number
    """Processes or ranks with GPU activity; the first one is observed."""
    devices: Number
    """GPUs with activity; the one with most of it is observed."""
    stacks: bool
    """True when the profiler recorded Python frames."""
    shapes: bool
    """True when it recorded shapes of operators."""
    operators: Number
    """Framework operators recorded."""
    graph_share_pct: float
    """GPU time that was launched by graph replays."""
    linked_pct: float
    """GPU time whose launch call is in the recording."""
    overhead_ns: Number
    """Time that the profiler itself recorded as its own."""
    dtypes: dict[str, float]
    """Input types of matrix products, by share of their GPU time in percent."""
    warnings: list[str]


class Observations(msgspec.Struct, frozen=True):
    """One run, observed."""

    solscope_observations: int
    """Version of this format."""
    run: Run
    steps: list[Step]
    tiles: list[Tile]
    kernels: list[KernelClass]
    host_calls: list[HostCalls]
    sections: list[Section]
    host_ops: list[HostOp]
    stalls: list[Stall]
    clocks: list[list[Number]]
    """Sample times, in units of 0.1 ms from the start of the first step."""
    counters: list[Counter]

    @property
    def anchor(self) -> str | None:
        """What a step is, in a run known by cycles; null for a run with a time line."""
        found_by = self.run.found_by or ""
        return found_by.removeprefix(ANCHOR) if found_by.startswith(ANCHOR) else None


CLOCK_NS = 100_000
"""Unit of `Observations.clocks`."""


def save(observations: Observations, path: Path) -> Path:
    """Write as JSON, compressed when the name ends in `.zst`; all of it appears at once."""
    data = msgspec.json.encode(observations)
    if path.suffix == ".zst":
        import zstandard

        data = zstandard.ZstdCompressor(level=19).compress(data)
    unfinished = path.with_name(f".{path.name}.part")
    unfinished.write_bytes(data)
    unfinished.replace(path)
    return path


def load(path: Path) -> Observations:
    """Read what `save` wrote."""
    data = path.read_bytes()
    if path.suffix == ".zst":
        import zstandard

        try:
            data = zstandard.ZstdDecompressor().decompress(data, max_output_size=LIMIT_BYTES)
        except zstandard.ZstdError as error:
            raise DamagedFileError(f"{path}: not a Zstandard file ({error})") from error
    return decode(data, str(path))


def decode(data: bytes, path: str) -> Observations:
    """Observations from their JSON; `path` says in errors where that was read."""
    try:
        observations = msgspec.json.decode(data, type=Observations)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedFileError(f"{path}: damaged packed recording ({error})") from error
    if observations.solscope_observations != VERSION:
        raise DamagedFileError(
            f"{path}: a packed recording of version {observations.solscope_observations}, this "
            f"solscope reads {VERSION}; pack it again from the trace"
        )
    _check_steps(observations, path)
    _check_samples(observations, path)
    return observations


def _check_steps(observations: Observations, path: str) -> None:
    """Refuse lists that do not have one value per step: every comparison indexes them by step."""
    steps = len(observations.steps)
    per_step = [
        *(tile.ns for tile in observations.tiles),
        *(values for k in observations.kernels for values in (k.calls, k.ns, k.exposed_ns)),
        *(values for call in observations.host_calls for values in (call.calls, call.ns)),
        *(values for s in observations.sections for values in (s.calls, s.ns, s.own_ns, s.op_ns)),
    ]
    wrong = next((len(values) for values in per_step if len(values) != steps), None)
    if wrong is not None:
        raise DamagedFileError(f"{path}: damaged packed recording ({wrong} values, {steps} steps)")
    if any(not 0 <= stall.step < steps for stall in observations.stalls):
        raise DamagedFileError(f"{path}: damaged packed recording (a stall outside the steps)")


def _check_samples(observations: Observations, path: str) -> None:
    """Refuse samples without times before any are written out: `n` can be any number."""
    clocks = observations.clocks
    for counter in observations.counters:
        times = len(clocks[counter.clock]) if counter.clock < len(clocks) else 0
        whole = counter.n == times and len(counter.values) in {1, times} and counter.name
        if counter.n and not whole:
            raise DamagedFileError(f"{path}: damaged samples of the sensor {counter.name!r}")
    samples = sum(counter.n for counter in observations.counters)
    if samples > MAX_SAMPLES:
        raise DamagedFileError(f"{path}: {samples:,} samples; at most {MAX_SAMPLES:,} are read")
