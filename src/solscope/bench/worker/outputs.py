"""What a solution returned, updated or raised, and what the evaluator learns about it."""

from __future__ import annotations

import errno
import os
import random
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from .messages import Failure, FailureStatus, OutputFacts

NO_MEMORY = re.compile(
    r"can(?:not|'t) allocate memory|could not allocate memory|not enough memory|out of memory"
    r"|DefaultCPUAllocator|std::bad_alloc|bad allocation|STATUS_ALLOC_FAILED",
    re.IGNORECASE,
)
"""What torch and what it calls say when memory runs out; it depends on architecture and device.

On the CPU torch raises a plain RuntimeError: "DefaultCPUAllocator: can't allocate memory" on
x86_64, "DefaultCPUAllocator: not enough memory" on arm64.
"""


NO_TRITON = (
    "Triton compiles kernels for a GPU, and this is a CPU: run it with --device cuda on a machine "
    "that has one, or set TRITON_INTERPRET=1, which checks most kernels here, slowly"
)
CHANCE = random.SystemRandom().random
"""A number from 0 to 1 that nobody can know before."""
OWN = ("plan", "prepared")
"""Arguments of `run` that the solution made itself, in `setup` and `prepare`."""


class Unusable(Exception):  # noqa: N818 - a finding, not an error of this program
    """What the solution returned is not what a solution may return."""

    def __init__(self, status: FailureStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


def is_out_of_memory(error: BaseException, torch: ModuleType) -> bool:
    """Whether an operation failed for want of memory, on the host or on a device."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and NO_MEMORY.search(str(error)) is not None


def is_triton_without_gpu(error: BaseException, device: str) -> bool:
    """Whether Triton itself failed on a CPU, where none of its kernels runs unless interpreted.

    What it says differs: that there is no driver, or that tensors cannot be reached.
    """
    if device != "cpu" or os.environ.get("TRITON_INTERPRET", "0") != "0":
        return False
    modules = [
        str(frame.f_globals.get("__name__")) for frame, _ in traceback.walk_tb(error.__traceback__)
    ]
    return bool(modules) and modules[-1].partition(".")[0] == "triton"


def failure(error: BaseException, torch: ModuleType, device: str) -> Failure:
    """An exception as a reply: what kind of failure it is, and where it happened."""
    status: FailureStatus = "crashed"
    if isinstance(error, Unusable):
        status = error.status
    elif is_triton_without_gpu(error, device):
        return Failure("unsupported", NO_TRITON)
    elif isinstance(error, (ImportError, NotImplementedError)):
        status = "unsupported"
    elif is_out_of_memory(error, torch):
        status = "oom"
    message = str(error)
    if status == "crashed" and not isinstance(error, Unusable):
        message = f"{type(error).__name__}{_where(error)}: {message}"
    message = (message or type(error).__name__).encode("utf-8", "backslashreplace").decode()
    return Failure(status, message[:2000])


def _where(error: BaseException) -> str:
    """The last line of the solution's own files that it went through."""
    folder = str(Path(getattr(sys.modules.get("solution"), "__file__", None) or "/none").parent)
    places = traceback.extract_tb(error.__traceback__)
    own = [place for place in places if str(Path(place.filename).parent) == folder]
    return f" at {Path(own[-1].filename).name}, line {own[-1].lineno}" if own else ""


class Outputs:
    """Takes what a solution returns."""

    def __init__(self, torch: ModuleType) -> None:
        self.torch = torch
        self.plain = torch.Tensor
        self.wanted: list[str] = []
        self.updated: list[str] = []
        """Inputs that are updated in place: a call may return them, too, as many libraries do."""

    def named(self, result: Any, inputs: dict[str, Any]) -> dict[str, Any]:
        """What a call returned, by name, without inputs that it updated."""
        if isinstance(result, self.plain) or result is None:
            result = () if result is None else (result,)
        if self.updated:
            result = self._without_updated(result, inputs)
        if isinstance(result, dict):
            if sorted(result) != sorted(self.wanted):
                raise Unusable("wrong_shape", f"outputs {sorted(result)}, not {self.wanted}")
            return {name: result[name] for name in self.wanted}
        if not isinstance(result, (tuple, list)):
            return dict.fromkeys(self.wanted, result)
        if len(result) != len(self.wanted):
            raise Unusable("wrong_shape", f"{len(result)} outputs instead of {len(self.wanted)}")
        return dict(zip(self.wanted, result, strict=True))

    def _without_updated(self, result: Any, inputs: dict[str, Any]) -> Any:
        own = [inputs[name] for name in self.updated]

        def is_updated(value: Any) -> bool:
            return type(value) is self.plain and any(
                value is tensor
                or (value.data_ptr() == tensor.data_ptr() and value.shape == tensor.shape)
                for tensor in own
            )

        if isinstance(result, dict):
            return {k: v for k, v in result.items() if k in self.wanted or not is_updated(v)}
        if isinstance(result, (tuple, list)):
            return tuple(value for value in result if not is_updated(value))
        return result

    def describe(
        self, outputs: dict[str, Any], inputs: dict[str, Any], device: str
    ) -> list[OutputFacts]:
        """Shape, dtype and owner of each output; anything but a plain tensor is refused."""
        for name, value in inputs.items():
            if isinstance(value, self.plain) and name not in OWN:
                self._require_plain(f"input {name}", value)
        return [
            OutputFacts(
                name=name,
                shape=list(self._plain(name, tensor, device).shape),
                dtype=str(tensor.dtype).removeprefix("torch."),
                alias=self._alias(tensor, inputs),
            )
            for name, tensor in outputs.items()
        ]

    def _plain(self, name: str, tensor: Any, device: str) -> Any:
        kind = type(tensor)
        if not (issubclass(kind, self.plain) or hasattr(kind, "__torch_function__")):
            raise Unusable("wrong_shape", f"output {name} is a {kind.__name__}, no tensor")
        self._require_plain(f"output {name}", tensor)
        if tensor.layout is not self.torch.strided or tensor.device.type != device:
            where = f"{tensor.layout} on {tensor.device}"
            raise Unusable("wrong_shape", f"output {name} is {where}, not dense on {device}")
        return tensor

    def _require_plain(self, what: str, tensor: Any) -> None:
        """Neither a subclass nor own attributes may override what torch does with it."""
        kind = type(tensor)
        if kind is not self.plain:
            raise Unusable("cheating", f"{what} is a {kind.__name__}, not a plain tensor")
        for name in vars(tensor):
            if hasattr(kind, name):
                raise Unusable("cheating", f"{what} overrides {name}")

    def _alias(self, tensor: Any, inputs: dict[str, Any]) -> str | None:
        """The input whose memory an output is."""
        start = tensor.data_ptr()
        for name, value in inputs.items():
            if isinstance(value, self.plain) and value.numel():
                size = sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True))
                first = value.data_ptr()
                if first <= start <= first + size * value.element_size():
                    return name
        return None


class TimedCalls:
    """Puts back what calls updated, and keeps what they returned and updated.

    Some of that is copied as soon as the clock of a call has stopped: no thread can fill it in
    later. Which calls' returned outputs those are is drawn then, so that no call can know.
    """

    def __init__(
        self,
        torch: ModuleType,
        inputs: tuple[list[dict[str, Any]], list[dict[str, Any]]],
        updates: Sequence[int],
        copies: int,
        calls: int,
    ) -> None:
        """Of about `copies` of `calls` the outputs are copied, of those in `updates` the updates.

        `inputs` are the sets, and what of them is put back.
        """
        self.plain = torch.Tensor
        self.sets, self.pristine = inputs
        self.updates = frozenset(updates)
        self.left = copies
        self.share = copies / max(1, calls)
        self.kept: list[dict[str, Any]] = []
        """By call, what it returned, and copies of what it updated."""
        self.copies: list[dict[str, Any]] = []
        """The same, copied where it was drawn."""

    def put_back(self, index: int) -> None:
        """Make a set ready for the next call, which will be on it."""
        for name, tensor in self.pristine[index].items():
            self.sets[index][name].copy_(tensor)

    def done(self, index: int, returned: dict[str, Any]) -> None:
        """Note a call on a set, whose clock has stopped."""
        updated: dict[str, Any] = {}
        if len(self.kept) in self.updates:
            updated = {name: self.sets[index][name].clone() for name in self.pristine[index]}
        self.kept.append({**returned, **updated})
        if self.left and CHANCE() < self.share:
            self.left -= 1
            returned = copied(returned, self.plain)
        self.copies.append({**returned, **updated})


def copied(outputs: dict[str, Any], plain: Any) -> dict[str, Any]:
    """Copies of outputs, but for what is no plain tensor and will be refused."""
    return {
        name: tensor.clone() if type(tensor) is plain else tensor
        for name, tensor in outputs.items()
    }
