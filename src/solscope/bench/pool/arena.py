"""Memory that the evaluator owns and a worker sees: a file on the CPU, CUDA IPC on the GPU.

Inputs and outputs each live in one arena. A worker maps it once; a tensor is then an offset, and
what a worker reads and writes the evaluator sees without any copy or message.
"""

from __future__ import annotations

import itertools
import math
import mmap
import os
import secrets
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from solscope.bench.worker.messages import ArenaHandle, TensorInput

if TYPE_CHECKING:
    import torch

_GENERATIONS = itertools.count(1)
KEPT_BYTES = 2 << 30
"""Arenas larger than this are freed after use."""
FOLDERS = tuple(dict.fromkeys(("/dev/shm", tempfile.gettempdir())))  # noqa: S108 - shared memory
"""Where arenas of the CPU lie: the first that is there and has room. Containers often have 64 MB of
shared memory, and a write beyond what there is would end the process that writes."""
_PREFIX = f"solscope-arena-{secrets.token_hex(4)}-"
ARENAS = tuple(f"{folder}/{_PREFIX}" for folder in FOLDERS)
"""How the files of this process begin: what a kill leaves, the fork server removes."""
POISON = 0xFF
"""What memory is overwritten with: a NaN in every float type, -1 in integers."""
ALIGNMENT = 512
"""Bytes; as the CUDA allocator aligns, so that kernels see usual pointers."""
NARROWEST = 4096
"""Words in a row of what a fingerprint sums, at least."""


def aligned(size: int) -> int:
    """`size` rounded up to whole alignment units."""
    return -(-size // ALIGNMENT) * ALIGNMENT


class Arena:
    """One piece of shared memory that grows when more is asked for."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.generation = 0
        """Which memory this is now, among all arenas of the process."""
        self.data: torch.Tensor
        self.used = 0
        """Bytes that hold what a worker wrote, until they are wiped."""
        self._path: Path | None = None
        self._make(ALIGNMENT)

    def reserve(self, size: int) -> bool:
        """Make room for `size` bytes; true when the memory moved and must be mapped anew."""
        if size <= self.data.numel():
            return False
        self._make(aligned(size))
        return True

    def shrink(self, keep: int = KEPT_BYTES) -> None:
        """Free a large memory that nobody uses any more."""
        if self.data.numel() > keep:
            self._make(ALIGNMENT)

    def _make(self, size: int) -> None:
        """Take other memory; where there is no room for it, the least, so that it can be mapped."""
        try:
            self._take(size)
        except BaseException:
            self._take(ALIGNMENT)
            raise

    def _take(self, size: int) -> None:
        import torch

        self.close()
        self.used = 0
        self.generation = next(_GENERATIONS)
        if self.device != "cpu":
            self.data = torch.empty(size, dtype=torch.uint8, device=self.device)
            return
        descriptor, name = tempfile.mkstemp(prefix=_PREFIX, dir=_folder_with_space(size))
        try:
            os.ftruncate(descriptor, size)
            memory = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)
        self._path = Path(name)
        self.data = torch.frombuffer(memory, dtype=torch.uint8)

    def wipe(self) -> None:
        """Overwrite what a worker wrote: the next one must not find it."""
        self.data[: self.used].fill_(POISON)
        self.used = 0

    def handle(self) -> ArenaHandle:
        """What one worker needs to map this memory; made anew for each worker."""
        if self._path is not None:
            return ArenaHandle(self.data.numel(), path=str(self._path))
        parts = self.data.untyped_storage()._share_cuda_()  # type: ignore[no-untyped-call]
        plain = [{"hex": field.hex()} if isinstance(field, bytes) else field for field in parts]
        return ArenaHandle(self.data.numel(), cuda=plain)

    def close(self) -> None:
        """Give the memory back once nobody maps it."""
        self.data = None  # type: ignore[assignment]
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None

    def at(self, offset: int, shape: list[int], dtype: torch.dtype) -> torch.Tensor:
        """A dense tensor at an offset."""
        size = math.prod(shape) * dtype.itemsize
        return self.data[offset : offset + size].view(dtype).reshape(shape)


def _folder_with_space(size: int) -> str:
    """A folder for a file of `size` bytes; MemoryError when there is none."""
    for folder in FOLDERS:
        if os.access(folder, os.W_OK):
            room = os.statvfs(folder)
            if room.f_bavail * room.f_frsize >= size:
                return folder
    raise MemoryError(f"no room for {size / 1e6:,.0f} MB in {' or '.join(FOLDERS)}")


class Arenas:
    """Pairs of arenas for inputs and outputs, used again; a context manager that frees them.

    Memory that a killed worker had mapped stays taken, so it is used again rather than made anew.
    """

    def __init__(self, device: str) -> None:
        self.device = device
        self._free: list[dict[str, Arena]] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Arenas:
        return self

    def __exit__(self, *_: object) -> None:
        for arena in (arena for pair in self._free for arena in pair.values()):
            arena.close()

    def trim(self) -> None:
        """Free all that nobody uses at the moment."""
        with self._lock:
            for arena in (arena for pair in self._free for arena in pair.values()):
                arena.shrink(keep=ALIGNMENT)

    @contextmanager
    def pair(self) -> Iterator[dict[str, Arena]]:
        """Two arenas that nobody else uses meanwhile."""
        with self._lock:
            arenas = self._free.pop() if self._free else None
        arenas = arenas or {name: Arena(self.device) for name in ("inputs", "outputs")}
        try:
            yield arenas
        finally:
            for arena in arenas.values():
                arena.shrink()
            with self._lock:
                self._free.append(arenas)


def place(arena: Arena, tensor: torch.Tensor, offset: int) -> TensorInput:
    """Copy a tensor to an offset, strides kept; its description for a worker."""
    size = extent(tensor)
    raw = raw_bytes(tensor)
    arena.data[offset : offset + size].copy_(raw)
    return TensorInput(
        offset=offset,
        bytes=size,
        dtype=str(tensor.dtype).removeprefix("torch."),
        shape=list(tensor.shape),
        stride=list(tensor.stride()),
    )


def extent(tensor: torch.Tensor) -> int:
    """Bytes from the first to the last element."""
    if not tensor.numel():
        return 0
    steps = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return (steps + 1) * tensor.element_size()


def raw_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes from the first to the last element, as a view."""
    import torch

    start = tensor.storage_offset() * tensor.element_size()
    empty = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return empty.set_(tensor.untyped_storage(), start, (extent(tensor),), (1,))


def view(arena: Arena, spec: TensorInput) -> torch.Tensor:
    """The tensor for a description."""
    import torch

    dtype = getattr(torch, spec.dtype)
    flat = arena.data[spec.offset : spec.offset + spec.bytes].view(dtype)
    return flat.as_strided(spec.shape, spec.stride)


def fingerprint(tensor: torch.Tensor) -> torch.Tensor:
    """A fingerprint of the contents of a tensor.

    Sums over rows and columns of a grid of words, and what does not fill a row as it is: tensors of
    up to 32 KiB, index tensors among them, are compared whole. The grid of a large tensor is about
    as wide as high: a fingerprint of more than a MiB would be put where torch keeps large tensors,
    and none of the memory around it could be given back.
    """
    import torch

    raw = raw_bytes(tensor)
    width = max(NARROWEST, 1 << ((raw.numel() // 8).bit_length() // 2))
    whole = raw.numel() // (8 * width) * 8 * width
    if not whole:  # which need not begin at a word
        return raw.to(torch.int64)
    grid, rest = raw[:whole].view(torch.int64).view(-1, width), raw[whole:]
    words = rest.numel() // 8 * 8
    tail = [rest[:words].view(torch.int64), rest[words:].to(torch.int64)]
    return torch.cat([grid.sum(0), grid.sum(1), *tail])
