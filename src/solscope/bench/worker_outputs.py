"""What a solution returned: outputs by name, and what the evaluator is told about them.

Copied beside the solution with `worker.py`, whose process it runs in; imports nothing of solscope.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any


class Unusable(Exception):  # noqa: N818 - a finding, not an error of this program
    """What the solution returned is not what a solution may return; `kind` is the status."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Outputs:
    """Takes what a solution returns."""

    def __init__(self, torch: ModuleType) -> None:
        self.torch = torch
        self.plain = torch.Tensor
        self.wanted: list[str] = []

    def named(self, result: Any) -> dict[str, Any]:
        """What a call returned, by name."""
        if isinstance(result, self.plain) or result is None:
            result = () if result is None else (result,)
        if isinstance(result, dict):
            if sorted(result) != sorted(self.wanted):
                raise Unusable("wrong_shape", f"outputs {sorted(result)}, not {self.wanted}")
            return {name: result[name] for name in self.wanted}
        if not isinstance(result, (tuple, list)):
            return dict.fromkeys(self.wanted, result)
        if len(result) != len(self.wanted):
            raise Unusable("wrong_shape", f"{len(result)} outputs instead of {len(self.wanted)}")
        return dict(zip(self.wanted, result, strict=True))

    def describe(
        self, outputs: dict[str, Any], inputs: dict[str, Any], device: str
    ) -> list[dict[str, Any]]:
        """Shape, dtype and owner of each output; anything but a plain tensor is refused."""
        return [
            {
                "name": name,
                "shape": list(self._plain(name, tensor, device).shape),
                "dtype": str(tensor.dtype).removeprefix("torch."),
                "alias": self._alias(tensor, inputs),
            }
            for name, tensor in outputs.items()
        ]

    def _plain(self, name: str, tensor: Any, device: str) -> Any:
        kind = type(tensor)
        if kind is not self.plain:
            if issubclass(kind, self.plain) or hasattr(kind, "__torch_function__"):
                raise Unusable("cheating", f"output {name} is a {kind.__name__}, no plain tensor")
            raise Unusable("wrong_shape", f"output {name} is a {kind.__name__}, no tensor")
        if tensor.layout is not self.torch.strided or tensor.device.type != device:
            where = f"{tensor.layout} on {tensor.device}"
            raise Unusable("wrong_shape", f"output {name} is {where}, not dense on {device}")
        return tensor

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
