"""What takes longer than the rest of a profile's page: the host side, and the allocator's memory.

A report carries it inside; the dashboard asks for it once the page is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from solscope.attribution import Attributed
from solscope.demo import resolve
from solscope.errors import InputError
from solscope.readers.allocations import read_allocations
from solscope.views.host import HostTable, host_table
from solscope.views.memory import MemoryTable, memory_table

MOST_ROWS = 40
"""Rows of each table; the commands list all."""
PROFILER_OPTIONS = ("profile_memory", "record_shapes", "with_stack", "with_flops", "with_modules")
"""Options of `torch.profiler` that a trace has in its header when they are on."""


class ProfileDetails(msgspec.Struct, frozen=True):
    """The host side of a profile, and the memory of its GPUs."""

    host: HostTable | None
    no_host: str | None
    """Why there is no host side."""
    memory: list[MemoryTable]
    """By GPU; empty where the allocator was not recorded."""


def profile_details(attributed: Attributed) -> ProfileDetails:
    """The host side and the memory of one profile."""
    try:
        host, reason = _shortened(host_table(attributed, stacked=False)), None
    except InputError as error:
        host, reason = None, str(error)
    return ProfileDetails(host, reason, _memory(attributed))


def _shortened(table: HostTable) -> HostTable:
    return msgspec.structs.replace(
        table,
        sections=table.sections[:MOST_ROWS],
        operators=table.operators[:MOST_ROWS],
        frames=table.frames[:MOST_ROWS],
        between=table.between[:MOST_ROWS],
        path_operators=table.path_operators[:MOST_ROWS],
    )


def _without_memory(about: Mapping[str, object]) -> bool:
    """Whether the header says that the allocator was not recorded.

    `torch.profiler` writes each of its options that is on. Without any, nothing is known.
    """
    return "profile_memory" not in about and any(option in about for option in PROFILER_OPTIONS)


def _memory(attributed: Attributed) -> list[MemoryTable]:
    """Only Chrome traces have these events, and not all of them: read once more for them alone."""
    profile = attributed.profile
    file = Path(resolve(profile.path))
    if profile.format != "kineto" or not file.is_file() or _without_memory(profile.metadata.about):
        return []
    allocations = read_allocations(file)
    if allocations.is_empty():
        return []
    return [
        msgspec.structs.replace(table, operators=table.operators[:MOST_ROWS])
        for table in memory_table(attributed, allocations)
    ]
