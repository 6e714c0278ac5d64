"""The evaluator's memory in the candidate's process."""

from __future__ import annotations

import mmap
from pathlib import Path
from types import ModuleType
from typing import Any

from .messages import ArenaHandle, TensorInput


class Piece:
    """A piece of device memory in the words of the CUDA array interface."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw
        self.__cuda_array_interface__ = {
            "shape": (raw.numel(),),
            "typestr": "|u1",
            "data": (raw.data_ptr(), False),
            "version": 2,
        }


class Memory:
    """Arenas that the evaluator shares, by name, and tensors in them."""

    def __init__(self, torch: ModuleType) -> None:
        self.torch = torch
        self.device = "cpu"
        self.arenas: dict[str, Any] = {}
        self._files: dict[str, mmap.mmap] = {}

    def open(self, arenas: dict[str, ArenaHandle], device: str) -> None:
        """Map these arenas, in place of those of the same names."""
        self.device = device
        for name, handle in arenas.items():
            self.arenas.pop(name, None)
            self.arenas[name] = (
                self._file(name, handle) if handle.cuda is None else self._cuda(handle)
            )

    def close(self) -> None:
        """Let go of all."""
        self.arenas.clear()
        self._files.clear()

    def view(self, spec: TensorInput) -> Any:
        """A tensor with its own storage, not a view: compilers refuse updates of some views."""
        torch = self.torch
        empty = torch.empty(0, dtype=getattr(torch, spec.dtype), device=self.device)
        if not spec.bytes:
            return empty.new_empty(spec.shape)
        return empty.set_(self._storage(spec), 0, spec.shape, spec.stride)

    def _file(self, name: str, handle: ArenaHandle) -> Any:
        with Path(handle.path or "").open("r+b") as file:
            memory = mmap.mmap(file.fileno(), handle.bytes)
        self._files[name] = memory
        return self.torch.frombuffer(memory, dtype=self.torch.uint8)

    def _cuda(self, handle: ArenaHandle) -> Any:
        parts = [bytes.fromhex(p["hex"]) if isinstance(p, dict) else p for p in handle.cuda or ()]
        self.torch.cuda.init()
        storage = self.torch.UntypedStorage._new_shared_cuda(*parts)
        empty = self.torch.empty(0, dtype=self.torch.uint8, device=self.device)
        return empty.set_(storage, 0, (handle.bytes,), (1,))

    def _storage(self, spec: TensorInput) -> Any:
        """A separate storage over a piece of the shared memory."""
        torch, start, size = self.torch, spec.offset, spec.bytes
        raw = self.arenas["inputs"][start : start + size]
        if raw.is_cuda:
            return torch.as_tensor(Piece(raw), device=self.device).untyped_storage()
        memory = self._files["inputs"]
        piece = torch.frombuffer(memory, dtype=torch.uint8, offset=start, count=size)
        return piece.untyped_storage()
