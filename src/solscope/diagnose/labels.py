"""Names of the states of a GPU: written by `observe`, looked up by every later stage.

A tile is named after what the GPU did (`gemm`, `HtoD pageable`), or after what kept it waiting
(`host:schedule`, `gc`, `io`).
"""

from __future__ import annotations

import re

BETWEEN = "between_steps"
"""Label of time outside all annotated sections."""
NO_SECTIONS = "host"
"""Label of time outside calls in a recording without annotated sections."""

_DIGITS = re.compile(r"\d+")
_GC = re.compile(r"(?i)(?<![a-z])gc(?![a-z])|garbage")
_IO = re.compile(r"(?i)fsync|fdatasync|(?<![a-z])(disk|i/?o)(?![a-z])")
_COPY = re.compile(r"(?i)(HtoD|DtoH|DtoD|HtoH|PtoP)\s*(\([^)]*\))?")


def section_name(name: str) -> str:
    """A section's name without what differs from call to call: `step 17` is `step #`."""
    return _DIGITS.sub("#", name)[:80]


def idle_label(section: str) -> str:
    """Label of idle time in a section."""
    if _GC.search(section):
        return "gc"
    return "io" if _IO.search(section) else f"host:{section}"


def copy_kind(name: str) -> str:
    """`HtoD pageable` from `Memcpy HtoD (Pageable -> Device)`."""
    direction = _COPY.search(name)
    if not direction:
        return "other"
    pageable = " pageable" if "pageable" in (direction[2] or "").lower() else ""
    return direction[1] + pageable
