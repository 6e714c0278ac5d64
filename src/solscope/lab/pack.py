"""From raw recordings to what a repository can keep: observations of each, and the list of pairs.

A trace of the lab is megabytes, its observations are about ten kilobytes, and a diagnosis looks at
nothing else. So `solscope lab score` gives the same from a clone as from the traces.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from solscope.errors import InputError, UsageError
from solscope.files import new_folder
from solscope.lab.pairs import MACHINE, PAIRS, RECORDINGS, Pair, pair_lines, read_pairs

_SUFFIXES = (".trace.json.gz", ".trace.json.zst", ".trace.json", ".json.gz", ".json")
SUFFIX = ".json.zst"
_FOLDERS = re.compile(rb"(?<![\w.~])/(?:[\w.+-]+/)+")
"""Folders of the machine, which a command line names and nobody else has."""


class Packed(msgspec.Struct, frozen=True):
    """What was written."""

    folder: str
    pairs: int
    recordings: int
    bytes: int
    left_out: dict[str, str]
    """Pairs that could not be kept, and why."""


def pack(
    raw: list[Path],
    target: Path,
    *,
    force: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Packed:
    """Write the observations of all recordings in the folders `raw`; all appears at once.

    A recording that cannot be read costs the pairs it belongs to, which are listed.
    """
    if target.exists() and not force:
        raise UsageError(f"{target} exists; use --force to replace it")
    if target.exists() and not (target / PAIRS).is_file():
        raise UsageError(f"{target} exists and was not written by the lab; it will not be replaced")
    target.parent.mkdir(parents=True, exist_ok=True)
    with new_folder(target) as work:
        packed = _write(raw, work, progress or (lambda _: None))
    return msgspec.structs.replace(packed, folder=str(target))


def _write(raw: list[Path], work: Path, progress: Callable[[str], None]) -> Packed:
    (work / RECORDINGS).mkdir(parents=True)
    written: list[bytes] = []
    left_out: dict[str, str] = {}
    failed: dict[str, str] = {}
    done: dict[str, Path] = {}
    for folder in raw:
        for pair, (_, line) in zip(read_pairs(folder), pair_lines(folder), strict=True):
            reasons = [_keep(name, folder, work, done, failed, progress) for name in _names(pair)]
            reason = next((reason for reason in reasons if reason), None)
            if reason is None:
                written.append(line)
            else:
                left_out[pair.id] = reason
    if not written:
        first = next(iter(left_out.values()))
        raise InputError(f"{raw[0]}: no pair can be read ({first})")
    (work / PAIRS).write_bytes(b"\n".join(written) + b"\n")
    _machines(raw, work)
    size = sum(file.stat().st_size for file in work.rglob("*") if file.is_file())
    return Packed(str(work), len(written), len(done), size, left_out)


def _names(pair: Pair) -> tuple[str, str]:
    return pair.normal, pair.abnormal


def _keep(
    name: str,
    folder: Path,
    work: Path,
    done: dict[str, Path],
    failed: dict[str, str],
    progress: Callable[[str], None],
) -> str | None:
    """Write the observations of one recording, once; why not, when that fails."""
    if name in done and done[name] != folder:
        raise InputError(f"{folder}: a recording {name!r} is also in {done[name]}")
    if name in done or name in failed:
        return failed.get(name)
    from solscope.attribution import attribute
    from solscope.diagnose.observe import observe
    from solscope.readers import ReadOptions
    from solscope.readers import open as open_profile
    from solscope.readers.packed import save

    progress(name)
    try:
        profile = open_profile(_trace(folder, name), options=ReadOptions(cache=False))
        save(observe(attribute(profile)), work / RECORDINGS / f"{name}{SUFFIX}")
    except InputError as error:
        failed[name] = str(error)
        return failed[name]
    done[name] = folder
    return None


def _trace(folder: Path, name: str) -> Path:
    paths = (folder / f"{name}{suffix}" for suffix in _SUFFIXES)
    file = next((file for file in paths if file.is_file()), None)
    if file is None:
        packed = next(folder.glob("part-*.tar"), None)
        hint = f"; unpack {packed.name} first (`solscope lab unpack`)" if packed else ""
        raise InputError(f"{folder}: no trace of {name!r}{hint}")
    return file


def _machines(raw: list[Path], work: Path) -> None:
    """`machine.json`: of one recording session as it was, of several as a list."""
    files = [folder / MACHINE for folder in raw if (folder / MACHINE).is_file()]
    machines = [msgspec.json.decode(_FOLDERS.sub(b"", file.read_bytes())) for file in files]
    if machines:
        text = msgspec.json.encode(machines[0] if len(machines) == 1 else machines)
        (work / MACHINE).write_bytes(msgspec.json.format(text, indent=1) + b"\n")
