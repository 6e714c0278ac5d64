"""What a store keeps of a profile, without what says who made it and where.

The rows are redacted after attribution, so that categories, roles and bounds are those of the
original; times and counts stay as they are.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from solscope.corpus.rows import Extract, rows_hash
from solscope.profile import Profile
from solscope.redact import Redactor, redactor_for

_STATED = ("model", "framework", "version", "gpu", "tags")
"""Facts that a trace, a sidecar or a tag states in words of its author."""


def redacted_extract(extract: Extract, profile: Profile) -> Extract:
    """The same rows without private text; `profile` says whose hosts and users to look for."""
    redactor = redactor_for(profile)
    times, steps = redactor.table(extract.times), redactor.table(extract.steps)
    hashes = {"times_sha256": rows_hash(times), "steps_sha256": rows_hash(steps)}
    return Extract(
        profile={**_row(extract.profile, redactor), **hashes},
        times=times,
        steps=steps,
        events=None if extract.events is None else redactor.table(extract.events),
    )


def _row(row: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    stated = {name: _fact(row[name], redactor) for name in _STATED}
    return {**row, **stated, "host": None, "file": redactor.text(_name(row["file"]))}


def _fact(value: str | None, redactor: Redactor) -> str | None:
    if value is None:
        return None
    # The folder of a model is private, its name is what profiles are grouped by.
    return redactor.json(value) if value.startswith("{") else redactor.text(_name(value))


def _name(path: str) -> str:
    plain = path.replace("\\", "/")
    return PurePosixPath(plain).name if plain.startswith(("/", "~", ".")) or ":" in plain else path
