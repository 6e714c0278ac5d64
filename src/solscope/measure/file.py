"""The hardware file that a measurement writes."""

from __future__ import annotations

import datetime
import json
import os
import re
import tempfile
from pathlib import Path

from solscope.errors import UsageError
from solscope.measure.card import MeasuredCard, Reading


def to_toml(measured: MeasuredCard, date: str) -> str:
    """The measured file, as `solscope.hardware.load` reads it."""
    lines = [
        f"name = {_text(measured.name)}",
        f"title = {_text(measured.device)}",
        f"vendor = {_text(measured.vendor)}",
        f"arch = {_text(measured.arch)}",
        "measured = true",
        "",
        "[about]",
        *(f"{_text(key)} = {_text(value)}" for key, value in measured.about.items()),
        "",
        "[sources.measured]",
        f"title = {_text(f'solscope hardware measure on {measured.device}')}",
        f"date = {_text(date)}",
    ]
    for section in ("peaks", "memory", "chip"):
        own = [reading for reading in measured.readings if reading.section == section]
        lines += ["", f"[{section}]", *map(_figure, own)] if own else []
    return "\n".join(lines) + "\n"


def _figure(reading: Reading) -> str:
    value = str(reading.value) if isinstance(reading.value, int) else f"{reading.value:.5e}"
    return (
        f"{_text(reading.name)} = {{ value = {value}, unit = {_text(reading.unit)}, "
        f'source = "measured", note = {_text(reading.method)} }}'
    )


def _text(value: str) -> str:
    """A TOML string; JSON escapes are TOML escapes."""
    return json.dumps(re.sub(r"[^ -~]", "?", value))


def check_free(path: Path, *, force: bool) -> None:
    """Raise when `path` is taken: better before minutes of measuring than after."""
    if path.exists() and not force:
        raise UsageError(f"{path} exists; --force overwrites it")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is not a folder")


def write(measured: MeasuredCard, path: Path, *, force: bool = False) -> None:
    """Write the file in one step, so that no half-written one is ever seen."""
    check_free(path, force=force)
    text = to_toml(measured, datetime.date.today().isoformat())
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
