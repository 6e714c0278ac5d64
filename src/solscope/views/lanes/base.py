"""What a time line consists of, as a page or an API answer carries it."""

from __future__ import annotations

from typing import Literal

import msgspec

LaneKind = Literal["step", "pass", "layer", "idle", "gpu", "call", "stack"]
"""What the events of a lane are: `call` is a call into the GPU runtime or driver, `stack` an
operator or a Python function."""


class Label(msgspec.Struct, frozen=True):
    """What events are called; many events share one."""

    name: str
    """As it is read; `full` is the whole name where that differs."""
    category: str | None = None
    """Category of a kernel, phase of a step or pass, kind of a layer, role of a host call."""
    role: str | None = None
    op: str | None = None
    full: str | None = None


class Lane(msgspec.Struct, frozen=True):
    """One row of events that do not overlap, or hardly."""

    kind: LaneKind
    title: str
    """Lanes of one title belong together; `depth` tells them apart."""
    depth: int
    rank: int | None
    device: int | None
    events: int


class LanePart(msgspec.Struct, frozen=True):
    """Events of one lane in a block."""

    lane: int
    level: int
    rows: int


class Packed(msgspec.Struct, frozen=True):
    """Columns of unsigned integers: planes of bytes, lowest first, deflated, as base64.

    `start` holds the distance from the event before it in the same part. In `layer`, `step` and
    `wait` 0 is unknown, and everything else is one too large.
    """

    columns: list[tuple[str, int]]
    """Names, with the bytes of one value."""
    data: str


class EventBlock(msgspec.Struct, frozen=True):
    """The events of a range of time, lane by lane, each lane in the order of starts."""

    from_ns: int
    to_ns: int
    parts: list[LanePart]
    packed: Packed


class Sensor(msgspec.Struct, frozen=True):
    """One sensor over the time of the profile."""

    name: str
    device: int | None
    low: float
    high: float
    times_ns: list[int]
    values: list[float]


class EventTimeline(msgspec.Struct, frozen=True):
    """All that is needed to draw the time line; times count from `origin_ns`."""

    origin_ns: int
    span_ns: int
    focus: tuple[int, int]
    """What to show first: the complete steps, where stray activities make the span much longer."""
    events: int
    complete: bool
    """Whether `block` holds every event; a server has the others (`EventBlock`)."""
    levels: list[int]
    """Nanoseconds below which events are merged, by level; level 0 merges none."""
    tile: int
    """How many of those nanoseconds a block of one level should cover, for level 0 those of 1."""
    lanes: list[Lane]
    labels: list[Label]
    block: EventBlock
    """All of the time, every lane at the finest level that was affordable."""
    sensors: list[Sensor]
    sensors_left_out: int
    """Sensors that read the same value throughout."""
    too_deep: int
    """Host calls that are nested too deep to be drawn."""
