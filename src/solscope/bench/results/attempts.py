"""What `bench tune` says: the newest attempt by shape, and the attempts before it."""

from __future__ import annotations

from typing import Literal

import msgspec

from solscope.bench.base import FAILURES, Status

Change = Literal["faster", "slower", "mixed", "cannot tell"]


class TunedShape(msgspec.Struct, frozen=True):
    """One shape in the newest attempt."""

    shape: str
    weight: float
    """Share of the shape in the operator's time in production."""
    status: Status
    reason: str | None
    median_us: float | None
    bound_us: float | None
    s: float | None
    """bound_us / median_us."""
    best_us: float | None
    """The fastest known result on this device; null when there is none."""
    best_by: str | None
    of_best: float | None
    """median_us / best_us: below 1, the attempt is faster."""
    of_last: float | None
    """median_us over that of the attempt before that passed."""
    change: Literal["faster", "slower", "cannot tell"] | None
    """Whether that is a difference."""


class Attempt(msgspec.Struct, frozen=True):
    """One version of the solution."""

    number: int
    time: str
    """When it was done, UTC."""
    solution_hash: str
    status: Status
    """`passed`, or the first that did not."""
    reason: str | None
    s: float | None
    """Over all shapes, each with its calls in production; null unless all passed and have a bound.
    """
    mean_us: float | None
    """Time per call over all shapes, each with its calls; null unless all passed."""
    change: Change | None
    """Against the attempt before that passed, by shapes that differ."""
    against: int | None
    """The number of that attempt."""


class Tuning(msgspec.Struct, frozen=True):
    """The newest attempt by shape, and the last attempts."""

    operator: str
    solution: str
    device: str
    method: str
    suite: str
    scale: float
    covered_weight: float
    """Share of the operator's time in production in the shapes that are run."""
    shapes: list[TunedShape]
    attempts: list[Attempt]
    """The newest first."""
    notes: list[str]

    @property
    def failed(self) -> bool:
        """Whether the newest attempt is wrong on a shape."""
        return any(shape.status in FAILURES for shape in self.shapes)

    @property
    def unchecked(self) -> bool:
        """Whether no shape of the newest attempt could be run: nothing is known of it."""
        return all(shape.status == "unsupported" for shape in self.shapes)
