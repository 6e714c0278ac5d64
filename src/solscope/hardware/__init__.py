"""GPUs by name, by the device of a profile, or from a file.

`find("H200")` gives what the vendor states; `find("H200", measured=True)` gives what
`solscope hardware measure` wrote, and the vendor's figure where nothing was measured.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from solscope.compiled import compiled, parse_toml
from solscope.errors import InputError, UsageError
from solscope.hardware.base import CHIP, MEMORY, PIPES, SUSTAINED, UNITS, Figure, Hardware

__all__ = [
    "Figure",
    "Hardware",
    "at_highest_clock",
    "find",
    "load",
    "match_device",
    "measured_path",
    "merge",
    "names",
    "with_measured",
]

FOLDER = Path(__file__).parent
MEASURED = ".measured.toml"
SECTIONS = {"peaks": (*PIPES, *SUSTAINED), "memory": MEMORY, "chip": CHIP}
SAME_SIZE = 0.05
"""Devices report a few percent less memory than their data sheet; models differ by far more."""


def names() -> tuple[str, ...]:
    """Short names of all GPUs that have a file, in alphabetical order."""
    return _names_in(FOLDER)


@cache
def _names_in(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in folder.glob("*.toml") if not _is_measured(path)))


def find(name: str, *, measured: bool = False) -> Hardware:
    """The GPU called `name`, in any case, or as its driver names it; `.toml` files are loaded.

    With `measured`, or `NAME.measured`, figures that were measured on such a card take the place of
    the vendor's.
    """
    if name.endswith(".toml"):
        return load(Path(name))
    plain = re.sub(r"\.measured$", "", name, flags=re.IGNORECASE)
    vendor = _by_name(plain)
    if not measured and plain == name:
        return vendor
    file = measured_path(vendor.name)
    if not file.exists():
        raise UsageError(
            f"nothing was measured for {vendor.name} (there is: {_names_measured()}); "
            "run `solscope hardware measure` on such a card"
        )
    return merge(_load_once(file), vendor)


def measured_path(name: str) -> Path:
    """Path of the measured file of a GPU: next to the vendor's."""
    return FOLDER / f"{name}{MEASURED}"


def load(path: Path | str) -> Hardware:
    """Read one hardware file, the user's own or a measured one."""
    file = Path(path)
    try:
        document = parse_toml(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{file}: no such file") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: not a hardware file: {error}") from None
    return _hardware(file, document)


def _hardware(file: Path, document: dict[str, Any]) -> Hardware:
    try:
        _put_sources(document)
        hardware = msgspec.convert(document, Hardware)
        _check(hardware)
    except (msgspec.ValidationError, ValueError, re.error) as error:
        raise InputError(f"{file}: {error}") from None
    return hardware


def merge(first: Hardware, second: Hardware) -> Hardware:
    """`first`, with missing figures taken from `second`."""
    filled: dict[str, Any] = {
        section: {**getattr(second, section), **getattr(first, section)} for section in SECTIONS
    }
    return msgspec.structs.replace(
        first,
        **filled,
        title=second.title,
        arch=first.arch or second.arch,
        aliases=second.aliases,
        matches=first.matches or second.matches,
    )


def with_measured(vendor: Hardware) -> Hardware:
    """The vendor's figures, and measured ones where the vendor states none."""
    file = measured_path(vendor.name)
    return merge(vendor, _load_once(file)) if file.exists() else vendor


def _load_once(file: Path) -> Hardware:
    """A measured file, parsed again only when it has changed: a score asks for every shape."""
    facts = file.stat()
    return _parsed(file, facts.st_mtime_ns, facts.st_size)


@cache
def _parsed(file: Path, _changed_ns: int, _size: int) -> Hardware:
    return load(file)


def at_highest_clock(hardware: Hardware) -> Hardware:
    """The rates of tensor cores at the highest clock, where the vendor states them at a lower one.

    Example: 989.4 TFLOP/s at 1.83 GHz are 1,070.5 at the 1.98 GHz that short calls run at.
    """
    stated, highest = hardware.value("clock.tensor"), hardware.value("clock.boost")
    if not stated or not highest or highest <= stated:
        return hardware
    peaks = {
        name: msgspec.structs.replace(figure, value=figure.value * highest / stated)
        if name in PIPES and name.startswith("tensor.") and name != "tensor.fp64"
        else figure
        for name, figure in hardware.peaks.items()
    }
    return msgspec.structs.replace(hardware, peaks=peaks)


def match_device(
    device_name: str | None,
    compute_units: int | None = None,
    memory_bytes: int | None = None,
    arch: str | None = None,
) -> Hardware | None:
    """The GPU that a profile describes; null when no file fits, or more than one does.

    A name decides when there is one; the other facts then only rule files out. Without a name,
    compute units and memory must both be known and fit. A slice of a GPU (MIG) has no file.
    """
    fitting = [
        hardware
        for hardware in map(_vendor_file, names())
        if _fits_name(hardware, device_name, named_only=not (compute_units and memory_bytes))
        and _agrees(hardware, compute_units, memory_bytes, arch)
    ]
    return fitting[0] if len(fitting) == 1 else None


def share_of(device_name: str | None, compute_units: int | None) -> Hardware | None:
    """The GPU that a device with fewer compute units is a share of (MIG, MPS), by its name."""
    whole = re.sub(r"\s+MIG\b.*", "", device_name or "")
    fitting = [
        hardware
        for hardware in map(_vendor_file, names())
        if whole
        and compute_units
        and _fits_name(hardware, whole, named_only=True)
        and compute_units < (hardware.value("sm.count") or 0)
    ]
    return fitting[0] if len(fitting) == 1 else None


def _fits_name(hardware: Hardware, device_name: str | None, *, named_only: bool) -> bool:
    if not device_name:
        return not named_only and "sm.count" in hardware.chip and "hbm.size" in hardware.memory
    if re.search(r"\bMIG\b", device_name):
        return False
    return any(re.search(pattern, device_name, re.IGNORECASE) for pattern in hardware.matches)


def _agrees(
    hardware: Hardware, compute_units: int | None, memory_bytes: int | None, arch: str | None
) -> bool:
    count, size = hardware.value("sm.count"), hardware.value("hbm.size")
    return (
        (not compute_units or count is None or count == compute_units)
        and (not memory_bytes or size is None or abs(memory_bytes / size - 1) <= SAME_SIZE)
        and (not arch or not hardware.arch or _same_arch(arch, hardware.arch))
    )


def _same_arch(recorded: str, listed: str) -> bool:
    """Whether two architectures agree; `x` in a recorded one (`gfx94x`) matches any digit."""
    plain = re.escape(recorded.partition(":")[0])
    return bool(re.fullmatch(re.sub(r"(?<=\d)x", r"\\w", plain), listed))


def _by_name(name: str) -> Hardware:
    wanted = _plain(name)
    for listed in names():
        if _plain(listed) == wanted:
            return _vendor_file(listed)
    for hardware in map(_vendor_file, names()):
        if wanted in map(_plain, hardware.aliases):
            return hardware
    device = match_device(name)
    if device is not None:
        return device
    near = difflib.get_close_matches(wanted, {_plain(listed): 0 for listed in names()}, n=1)
    similar = next((listed for listed in names() if [_plain(listed)] == near), None)
    hint = f"; did you mean {similar!r}?" if similar else ""
    raise UsageError(f"no hardware {name!r}{hint} (available: {', '.join(names())})")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


@cache
def _vendor_file(name: str) -> Hardware:
    path = FOLDER / f"{name}.toml"
    return _hardware(path, compiled(path, __file__, parse_toml))


def _is_measured(path: Path) -> bool:
    return path.name.endswith(MEASURED)


def _names_measured() -> str:
    measured = sorted(path.name.removesuffix(MEASURED) for path in FOLDER.glob(f"*{MEASURED}"))
    return ", ".join(measured) or "none"


def _put_sources(document: dict[str, Any]) -> None:
    """Replace the key of a source by its title and date."""
    sources = document.pop("sources", {})
    for figure in _raw_figures(document):
        source = sources.get(figure.get("source"))
        if source is None:
            continue
        if not isinstance(source, dict) or not {"title", "date"} <= source.keys():
            raise ValueError(f"source {figure['source']!r} needs a title and a date")
        figure["source"] = source["title"]
        figure.setdefault("date", source["date"])


def _raw_figures(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for section in SECTIONS:
        for figure in document.get(section, {}).values():
            if not isinstance(figure, dict):
                raise ValueError(
                    f"a figure in [{section}] must be a table with value, unit, source"
                )
            yield figure


def _check(hardware: Hardware) -> None:
    for section, keys in SECTIONS.items():
        for key, figure in getattr(hardware, section).items():
            if key not in keys:
                raise ValueError(f"no figure {key!r} in [{section}] (available: {', '.join(keys)})")
            if figure.unit not in UNITS:
                raise ValueError(f"{key}: no unit {figure.unit!r} (available: {', '.join(UNITS)})")
            if not 0 < figure.value < float("inf"):
                raise ValueError(f"{key}: {figure.value} is not a positive number")
    for pattern in hardware.matches:
        re.compile(pattern)
