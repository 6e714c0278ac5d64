"""What a store holds, in a few figures."""

from __future__ import annotations

import msgspec


class CorpusStatus(msgspec.Struct, frozen=True):
    """What a store holds."""

    profiles: int
    events: int
    """Events of their files, kept or not."""
    bytes: int
    """Size of the files that the tables consist of now."""
    store_schema: int
    """Version of the tables."""
    engine: str
    """What keeps the tables, with its version."""
    gpu_ms: float
    """GPU time of all profiles."""
    files: int
    """Files that the tables consist of now."""
    leftover_entries: int
    """Attempts whose rows are not part of the store: killed or at work."""
    gpus: dict[str, int]
    """Profiles by GPU."""
    models: dict[str, int]
    """Profiles by model."""
    frameworks: dict[str, int]
    """Profiles by framework."""
