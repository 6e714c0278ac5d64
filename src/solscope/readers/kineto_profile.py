"""From a scanned Chrome trace to a profile: its event table, metadata and warnings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from solscope.errors import DamagedFileError, UnknownFormatError
from solscope.profile import Device, Metadata, Profile, ProfileWarning
from solscope.readers.kineto_core import ScanStats
from solscope.readers.kineto_scanning import Scan
from solscope.readers.kineto_table import EventTable
from solscope.readers.kineto_text import compact_json
from solscope.readers.recording import (
    file_name_facts,
    guess_framework,
    process_groups,
    safe_about,
    safe_versions,
)


def profile_of(path: Path, scan: Scan) -> Profile:
    """Build the table while the scan goes on; raises when the file is no trace."""
    table = EventTable()
    for batch in scan.batches():
        table.add(batch.texts, batch.columns)
    end = scan.finish()
    _require_trace(path, end.stats, end.cut)
    table.add(end.last.texts, end.last.columns)
    header = _header(end.header)
    events = table.finish([compact_json(raw) for raw in end.jsons])
    return Profile(
        path=str(path),
        format="kineto",
        metadata=_metadata(path, header, events, end.stats),
        events=events,
        warnings=tuple(_warnings(end.stats, end.cut, table.unknown)),
    )


def _require_trace(path: Path, stats: ScanStats, cut: str | None) -> None:
    if stats["events"] > stats["damaged"] and not stats["phased"]:
        raise UnknownFormatError(f"{path}: a JSON array, but none of its members is a trace event")
    if stats["saw_events"] and not stats["not_trace"]:
        if stats["events"] > stats["damaged"] or stats["truncated_at"] < 0:
            return
        raise DamagedFileError(f"{path}: no event in this trace can be read ({_where(stats)})")
    if cut or stats["truncated_at"] >= 0:
        raise DamagedFileError(f"{path}: cut off before its first event; record it again")
    raise UnknownFormatError(f"{path}: JSON without a traceEvents array, so not a trace")


def _where(stats: ScanStats) -> str:
    if stats["damage"]:
        offset, why = stats["damage"][0]
        return f"byte {offset}: {why}"
    return f"byte {max(0, stats['truncated_at'])}"


def _header(members: Any) -> dict[str, Any]:
    header: dict[str, Any] = {}
    for key, raw in members:
        try:
            value = msgspec.json.decode(raw.decode(errors="replace"))
            header[key.decode(errors="replace")] = value
        except (msgspec.DecodeError, RecursionError):
            continue
    return header


def _metadata(
    path: Path, header: dict[str, Any], events: pl.DataFrame, stats: ScanStats
) -> Metadata:
    facts = file_name_facts(path)
    distributed = header.get("distributedInfo")
    distributed = distributed if isinstance(distributed, dict) else {}
    return Metadata(
        events_in_file=stats["events"],
        devices=_devices(header, events),
        framework=guess_framework(events["name"].unique().drop_nulls().cast(pl.String).to_list()),
        versions=safe_versions(header | {"nccl": distributed.get("nccl_version")}),
        rank=_small_int(distributed.get("rank"), facts.rank),
        world_size=_small_int(distributed.get("world_size"), None),
        host=None,
        unix_offset_ns=_unix_offset(header, events),
        stage=facts.stage,
        groups=process_groups(distributed.get("pg_config")),
        about=safe_about(header),
    )


def _small_int(value: Any, default: int | None, below: int = 1 << 31) -> int | None:
    return value if isinstance(value, int) and 0 <= value < below else default


def _unix_offset(header: dict[str, Any], events: pl.DataFrame) -> int | None:
    base = header.get("baseTimeNanoseconds")
    if isinstance(base, int) and abs(base) < 1 << 62:
        return base
    first = events["start_ns"].min()
    # Traces without a base hold Unix microseconds; anything before 2001 is some other clock.
    return 0 if isinstance(first, int) and first > 1_000_000_000_000_000_000 else None


def _devices(header: dict[str, Any], events: pl.DataFrame) -> tuple[Device, ...]:
    """The devices that did something, described by the header where it does."""
    described: dict[int, Device] = {}
    properties = header.get("deviceProperties")
    for item in properties if isinstance(properties, list) else []:
        if isinstance(item, dict) and isinstance(item.get("id"), int):
            described.setdefault(item["id"], _device(item, header))
    active = pl.col("kind").is_in(["kernel", "memcpy", "memset"])
    active_devices = events.select(pl.col("device").filter(active).unique())["device"]
    ordinals = sorted(d for d in active_devices.to_list() if d is not None)
    if len(described) == len(ordinals) and not described.keys() & set(ordinals):
        # ROCm numbers activities by agent, CPUs included, and the header by GPU.
        pairs = zip(ordinals, sorted(described), strict=True)
        described = {d: msgspec.structs.replace(described[k], ordinal=d) for d, k in pairs}
    return tuple(described.get(d, Device(ordinal=d)) for d in ordinals)


def _device(item: dict[str, Any], header: dict[str, Any]) -> Device:
    amd = item.get("warpSize") == 64 or any(key.startswith(("hip_", "roctracer")) for key in header)
    major, minor = item.get("computeMajor"), item.get("computeMinor")
    # HIP reports gfx942 as compute 9.4; the stepping is not recorded.
    arch = f"gfx{major}{minor}x" if amd else f"sm_{major}{minor}"
    name = item.get("name")
    return Device(
        ordinal=item["id"],
        name=name if isinstance(name, str) and name else None,
        vendor="amd" if amd else "nvidia",
        arch=arch if isinstance(major, int) and isinstance(minor, int) else None,
        compute_units=_small_int(item.get("numSms"), None),
        memory_bytes=_small_int(item.get("totalGlobalMem"), None, below=1 << 50),
    )


def _warnings(stats: ScanStats, cut: str | None, unknown: dict[str, int]) -> list[ProfileWarning]:
    warnings = []
    if stats["truncated_at"] >= 0 or cut:
        where = f"at byte {stats['truncated_at']}" if stats["truncated_at"] >= 0 else "at its end"
        warnings.append(
            ProfileWarning(
                "truncated",
                f"the file breaks off {where}{f' ({cut})' if cut else ''}: the profiler was "
                "probably killed while writing; what came before is shown",
            )
        )
    if stats["damaged"]:
        warnings.append(
            ProfileWarning(
                "damaged_events",
                f"{stats['damaged']} events are not valid JSON and were skipped "
                f"(first at {_where(stats)})",
            )
        )
    counted = {
        "missing_duration": ("absent_dur", "events have no duration: counted, but without time"),
        "negative_duration": ("negative_dur", "events have a negative duration: taken as 0"),
        "absurd_number": ("wild", "numbers are out of any sensible range and were left out"),
    }
    warnings += [
        ProfileWarning(code, f"{stats[key]} {text}")  # type: ignore[literal-required]
        for code, (key, text) in counted.items()
        if stats[key]  # type: ignore[literal-required]
    ]
    if unknown:
        listed = ", ".join(f"{n[:60]} ({count:,})" for n, count in sorted(unknown.items())[:8])
        warnings.append(
            ProfileWarning(
                "unknown_category", f"events of unknown categories were left out: {listed}"
            )
        )
    return warnings
