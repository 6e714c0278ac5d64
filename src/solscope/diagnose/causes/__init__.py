"""The causes that a diagnosis can name, rivals side by side.

To add one, see docs/how-to/add-a-cause.md. The checks it can use are in `diagnose/evidence/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from solscope.diagnose.causes import cpu, gpu, host, software, workload
from solscope.diagnose.causes.base import Cause

OWN_CAUSES: tuple[Cause, ...] = (
    *workload.CAUSES,
    *cpu.CAUSES,
    *gpu.CAUSES,
    *host.CAUSES,
    *software.CAUSES,
)
"""In the order of the reference; of two equal scores, the first is named."""
NONE = "none"
UNKNOWN = "unknown"
ENTRY_POINTS = "solscope.causes"
"""Group of entry points under which another package registers a `Cause`."""


@dataclass(frozen=True)
class Catalog:
    """The causes there are, and what could not be loaded."""

    causes: tuple[Cause, ...]
    failed: tuple[str, ...]
    """Why a cause of another package is missing, one line each."""


@cache
def catalog() -> Catalog:
    """Our causes in the order of the list, then those that other packages offer."""
    others, failed = _offered({cause.id for cause in OWN_CAUSES})
    return Catalog((*OWN_CAUSES, *others), tuple(failed))


def causes() -> tuple[Cause, ...]:
    """All causes."""
    return catalog().causes


def others_offer_causes() -> bool:
    """Whether a diagnosis depends on other packages, whose versions are not known."""
    from importlib.metadata import entry_points

    return bool(entry_points(group=ENTRY_POINTS))


def _offered(taken: set[str]) -> tuple[list[Cause], list[str]]:
    """Causes of other packages; one that cannot be used is left out and named."""
    # Importing `importlib.metadata` and searching all installed packages takes tens of ms.
    from importlib.metadata import entry_points

    offered: list[Cause] = []
    failed: list[str] = []
    for point in entry_points(group=ENTRY_POINTS):
        try:
            cause = point.load()
        except Exception as error:  # noqa: BLE001 - code of another package raises anything
            failed.append(f"cause {point.name!r} cannot be loaded: {_reason(error)}")
            continue
        if not isinstance(cause, Cause):
            failed.append(f"cause {point.name!r} is left out: it is no Cause")
        elif cause.id in taken | {NONE, UNKNOWN}:
            failed.append(f"cause {point.name!r} is left out: the id {cause.id!r} is taken")
        else:
            taken.add(cause.id)
            offered.append(cause)
    return offered, failed


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
