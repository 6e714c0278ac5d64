"""Finishing a folder of recordings: each file compressed, on all cores, once recording is over.

`compress` makes `.gz` files that every tool reads. `pack` makes a few `.tar` files of `.xz`
members, each small enough to be sent, and `unpack` turns them back into `.gz` files.
"""

from __future__ import annotations

import gzip
import io
import lzma
import re
import tarfile
from collections.abc import Iterable
from pathlib import Path

from solscope.errors import DamagedFileError, InputError
from solscope.files import new_file
from solscope.lab.processes import on_all_cores

PART_BYTES = 15 << 20
"""Bytes of one file of an archive, at most."""
MAX_PARTS = 7
"""Files of an archive, at most; the largest members are compressed harder until all fit."""
PRESET, SLOW_PRESET = 4, 6
SLOW_SAVES = 0.15
"""What the slow preset saves, at least; it takes three times as long."""
_FLOWS = re.compile(rb'  \{\n    "ph": "[sf]"[^{}]*?"cat": "ac2g"[^{}]*\},\n')
_INDEX = re.compile(rb', "Ev Idx": \d+')


def slim(trace: bytes) -> bytes:
    """A Kineto trace without arrows and event numbers, which correlation ids make superfluous."""
    return _INDEX.sub(b"", _FLOWS.sub(b"", trace))


def compress(files: Iterable[Path], folder: Path) -> None:
    """Write each raw trace to `folder` as `.gz`; other files are copied."""
    list(on_all_cores(_to_gzip, [(file, folder) for file in files]))


def pack(files: Iterable[Path], folder: Path) -> list[Path]:
    """Write all files to `part-NNN.tar` in `folder`; returns the parts."""
    ordered = sorted(files)
    members = list(on_all_cores(_to_xz, [(file, PRESET) for file in ordered]))
    if again := _too_large([len(data) for _, data in members]):
        smaller = on_all_cores(_to_xz, [(ordered[index], SLOW_PRESET) for index in again])
        for index, member in zip(again, smaller, strict=True):
            members[index] = member
    written = []
    sizes = [len(data) for _, data in members]
    for number, indices in enumerate(_parts(sizes)):
        path = folder / f"part-{number:03d}.tar"
        with tarfile.open(path, "w") as archive:
            for index in indices:
                name, data = members[index]
                _add(archive, name, data)
        written.append(path)
    return written


def unpack(folder: Path) -> list[Path]:
    """Unpack all parts in `folder` into the same folder, traces as `.gz`."""
    files = sorted(folder.glob("part-*.tar"))
    if not files:
        raise InputError(
            f"{folder}: no part-*.tar in it, as `solscope lab record --archive` writes"
        )
    written = []
    for file in files:
        try:
            with tarfile.open(file) as archive:
                taken = [_take(archive, member, folder) for member in archive]
        except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
            raise DamagedFileError(f"{file}: {error}") from error
        written += [target for target in taken if target is not None]
    return written


def _take(archive: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> Path | None:
    """Write one member, under its bare name; null for what `pack` does not make."""
    source = archive.extractfile(member)
    name = Path(member.name).name
    if source is None or not name.endswith(".xz"):
        return None
    data = lzma.decompress(source.read())
    target = folder / name.removesuffix(".xz")
    if target.suffix == ".json":
        target, data = target.with_name(target.name + ".gz"), gzip.compress(data, 6)
    with new_file(target) as work:
        work.write_bytes(data)
    return target


def _too_large(sizes: list[int]) -> list[int]:
    """The largest members, as many as must be made smaller for all to fit into the parts."""
    excess = sum(sizes) - MAX_PARTS * (PART_BYTES - 2 * max(sizes, default=0))
    again = []
    for index in sorted(range(len(sizes)), key=sizes.__getitem__, reverse=True):
        if excess <= 0:
            break
        again.append(index)
        excess -= int(SLOW_SAVES * sizes[index])
    return again


def _parts(sizes: list[int]) -> list[list[int]]:
    """Consecutive members, grouped so that no group is larger than a part."""
    groups: list[list[int]] = []
    room = 0
    for index, size in enumerate(sizes):
        needed = size + 1024
        if needed > room:
            groups.append([])
            room = PART_BYTES - 10240
        groups[-1].append(index)
        room -= needed
    return groups


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def _to_xz(job: tuple[Path, int]) -> tuple[str, bytes]:
    file, preset = job
    data = file.read_bytes()
    # Text without context bits: traces compress better and faster so.
    chain = {"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": 64 << 20, "lc": 0, "pb": 0}
    return f"{file.name}.xz", lzma.compress(slim(data), filters=[chain])


def _to_gzip(job: tuple[Path, Path]) -> None:
    file, folder = job
    if file.suffix == ".json":
        (folder / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes(), 6))
    else:
        (folder / file.name).write_bytes(file.read_bytes())
