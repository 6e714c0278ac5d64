"""What a GPU can do at most: the contract of `hardware/*.toml`.

One file per GPU. Every number carries its unit, its source and the date it was looked up; what no
source states is absent, never guessed. Rates are dense (no sparsity) and per GPU.
"""

from __future__ import annotations

import msgspec


class Figure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One number with where it comes from."""

    value: float
    unit: str
    """`FLOP/s`, `byte/s`, `byte`, `op/s`, `Hz`, `count` or `s`."""
    source: str
    date: str
    """When it was looked up or measured, YYYY-MM-DD."""
    note: str | None = None


class Hardware(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One GPU."""

    name: str
    """Short name, as `--hardware` takes it, e.g. `H100`."""
    title: str
    """Full marketing name."""
    vendor: str
    """`nvidia` or `amd`."""
    arch: str | None = None
    """`sm_90`, `gfx942`, ..."""
    matches: tuple[str, ...] = ()
    """Regular expressions, case-insensitive, on device names as profiles record them."""
    peaks: dict[str, Figure] = msgspec.field(default_factory=dict)
    """FLOP/s by pipe: `tensor.bf16`, `tensor.fp8`, ..., `vector.fp32`; op/s for `sfu`."""
    memory: dict[str, Figure] = msgspec.field(default_factory=dict)
    """`hbm.bandwidth`, `hbm.size`, `l2.size`, `l2.bandwidth`, `llc.size`, `llc.bandwidth`."""
    chip: dict[str, Figure] = msgspec.field(default_factory=dict)
    """`sm.count`, `clock.boost`, `clock.base`, `launch.floor` (s), `interconnect.bandwidth`."""
    measured: bool = False
    """True for a file written by `solscope hardware measure`."""
