"""What changes: the options of a scenario, and their names."""

from __future__ import annotations

import msgspec

from solscope.errors import UsageError
from solscope.hardware import Hardware

DTYPES = ("fp4", "fp8", "bf16", "fp16")
"""Dtypes of products that a scenario may ask for."""

MOST = 1 << 32
"""Largest number of ranks, requests or keys."""


class Scenario(msgspec.Struct, frozen=True):
    """What changes, in the order of a waterfall; null or false for what stays as recorded."""

    graphs: bool = False
    """The step is replayed from a graph."""
    no_host_gaps: bool = False
    """Kernels follow one another as in a queue that never runs empty."""
    gpu: Hardware | None = None
    dtype: str | None = None
    """Of products with weights; attention and the cache stay."""
    tp: int | None = None
    """Ranks that share each layer."""
    batch: int | None = None
    context: int | None = None
    fuse: bool = False
    """Runs of tiny kernels become one kernel each."""
    reach: dict[str, float] = {}
    """Operators that reach this share (0 to 1) of their bound, where they are below it."""

    def __post_init__(self) -> None:
        if self.dtype is not None and self.dtype not in DTYPES:
            raise UsageError(f"dtype must be one of {', '.join(DTYPES)}, not {self.dtype!r}")
        for name in ("tp", "batch", "context"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= MOST:
                raise UsageError(f"{name} must be 1 to {MOST:,}, not {value}")
        for operator, share in self.reach.items():
            if not 0 < share <= 1:
                raise UsageError(f"{operator}: a kernel reaches 0 to 100 % of its bound")

    @property
    def label(self) -> str:
        """The changes in a few words."""
        parts = [
            None if self.gpu is None else self.gpu.name,
            self.dtype,
            None if self.tp is None else f"tp {self.tp}",
            None if self.batch is None else f"batch {self.batch}",
            None if self.context is None else f"context {self.context}",
            "fused" if self.fuse else None,
            *(f"{operator} at {100 * share:.0f} %" for operator, share in self.reach.items()),
            "graphs" if self.graphs else None,
            "no host gaps" if self.no_host_gaps else None,
        ]
        return ", ".join(setting for setting in parts if setting) or "as recorded"

    def stages(self) -> list[tuple[str, Scenario]]:
        """The scenario reached one change at a time, each with the name of what was added."""
        stages: list[tuple[str, Scenario]] = []
        now = Scenario()
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value != getattr(now, name):
                only = msgspec.structs.replace(Scenario(), **{name: value})
                now = msgspec.structs.replace(now, **{name: value})
                stages.append((only.label, now))
        return stages
