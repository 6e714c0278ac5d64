"""What a GPU can do at most: the contract of `hardware/*.toml`.

One file per GPU. Every number carries its unit, its source and the date it was looked up; what no
source states is absent, never guessed. Rates are dense (no sparsity) and per device as a program
sees it: one die of an MI250X, one GPU of a GB200.

In a file, `[sources.KEY]` holds a `title` and a `date` once, and figures name the KEY; loading puts
both into each figure. A figure may also carry its own `source` and `date`.
"""

from __future__ import annotations

import msgspec

PIPES = (
    "tensor.fp64",
    "tensor.fp32",
    "tensor.tf32",
    "tensor.bf16",
    "tensor.fp16",
    "tensor.fp8",
    "tensor.fp6",
    "tensor.fp4",
    "tensor.int8",
    "vector.fp64",
    "vector.fp32",
    "sfu",
)
"""What `peaks` may hold. `tensor.fp4` is NVFP4 or MXFP4, whichever the GPU has; `tensor.fp32` is
AMD's fp32 matrix rate; `sfu` is special functions: exponential, reciprocal, sine."""

SUSTAINED = tuple(f"{pipe}.sustained" for pipe in PIPES)
"""`peaks` of a measured file also holds what each pipe does under a long load, where the power
limit lowers the clock. Bounds never use it: a short call can be faster."""

MEMORY = (
    "hbm.bandwidth",
    "hbm.read",
    "hbm.write",
    "hbm.copy",
    "hbm.size",
    "l2.bandwidth",
    "l2.size",
    "llc.bandwidth",
    "llc.size",
    "l1.bandwidth",
)
"""What `memory` may hold. `l1.bandwidth` is what all multiprocessors together can load and store:
a ceiling for data in any cache. `hbm` is the device memory, GDDR included; `llc` is a cache behind
the L2 (Infinity Cache). `hbm.read`, `hbm.write` and `hbm.copy` are measured, and the largest of
them is `hbm.bandwidth`."""

CHIP = (
    "sm.count",
    "clock.boost",
    "clock.base",
    "clock.tensor",
    "interconnect.bandwidth",
    "host.bandwidth",
    "launch.floor",
    "graph.floor",
    "reduce.floor",
    "serial.step",
)
"""What `chip` may hold. `clock.tensor` is the clock at which the vendor states the rates of tensor
cores, fp64 aside, where that is not `clock.boost`. `launch.floor` is the device time of an empty
kernel, `graph.floor` the time per kernel in a graph of empty ones, `reduce.floor` the time of the
smallest all-reduce between GPUs, `serial.step` the least time
from one step of a recurrence to the next. `interconnect.bandwidth` (links to other GPUs) and
`host.bandwidth` (PCIe or what else leads to the host) count both directions."""

UNITS = ("FLOP/s", "op/s", "byte/s", "byte", "Hz", "count", "s")


class Figure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One number with where it comes from."""

    value: float
    unit: str
    """One of `UNITS`; never a multiple such as TB/s."""
    source: str
    date: str
    """When it was looked up or measured, YYYY-MM-DD."""
    note: str | None = None
    """How it follows from the source, when the source does not print it, or was measured."""


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
    aliases: tuple[str, ...] = ()
    """Other short names."""
    matches: tuple[str, ...] = ()
    """Regular expressions, case-insensitive, on device names as profiles record them."""
    peaks: dict[str, Figure] = msgspec.field(default_factory=dict)
    """FLOP/s by pipe (`PIPES`); op/s for `tensor.int8` and `sfu`."""
    memory: dict[str, Figure] = msgspec.field(default_factory=dict)
    """Rates and sizes of the memories (`MEMORY`)."""
    chip: dict[str, Figure] = msgspec.field(default_factory=dict)
    """Everything else (`CHIP`)."""
    measured: bool = False
    """True when figures come from `solscope hardware measure`."""
    about: dict[str, str] = msgspec.field(default_factory=dict)
    """Of a measured file: device, driver, versions, clocks and power of the measured GPU."""

    @property
    def figures(self) -> dict[str, Figure]:
        """All figures by name, in order: peaks, memory, chip."""
        return {**self.peaks, **self.memory, **self.chip}

    def value(self, name: str) -> float | None:
        """The number called `name`; null when no source states it."""
        figure = self.figures.get(name)
        return None if figure is None else figure.value
