"""Small profiles written out by hand, for tests of everything after the readers."""

from __future__ import annotations

from typing import Any

import polars as pl

from solscope.attribution import Attributed, attribute
from solscope.events import AGGREGATE_SCHEMA, EVENT_SCHEMA, conform
from solscope.profile import Device, Metadata, Profile


def event(kind: str, name: str, start: int, dur: int | None, **more: Any) -> dict[str, Any]:
    """One event; host events land on thread 1, GPU activities on device 0."""
    place = (
        {"device": 0, "stream": 7}
        if kind in ("kernel", "memcpy", "memset", "graph")
        else {"pid": 1, "tid": 1}
    )
    return {"kind": kind, "name": name, "start_ns": start, "dur_ns": dur, **place, **more}


def profile(*events: dict[str, Any], **metadata: Any) -> Profile:
    """A profile of these events."""
    table = pl.DataFrame(
        list(events), schema_overrides=dict(EVENT_SCHEMA), infer_schema_length=None
    )
    devices = sorted({e["device"] for e in events if e.get("device") is not None})
    known = {"devices": tuple(Device(d, name=f"GPU-{d}") for d in devices)}
    return Profile(
        path="made.json",
        format="kineto",
        metadata=Metadata(events_in_file=len(events), **(known | metadata)),
        events=conform(table, EVENT_SCHEMA),
    )


def attributed(*events: dict[str, Any], **metadata: Any) -> Attributed:
    """The same, linked and classified."""
    return attribute(profile(*events, **metadata))


def aggregate(*rows: dict[str, Any]) -> Attributed:
    """A profile that only has statistics per name."""
    table = pl.DataFrame(list(rows), schema_overrides=dict(AGGREGATE_SCHEMA))
    return attribute(
        Profile(
            path="made.csv",
            format="nsys_stats",
            metadata=Metadata(events_in_file=len(rows)),
            events=EVENT_SCHEMA.to_frame(),
            aggregates=conform(table, AGGREGATE_SCHEMA),
        )
    )
