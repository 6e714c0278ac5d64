"""Run kernels of `solscope-triton` in Triton's interpreter, on small inputs.

A program, for a process of its own: torch does much with a Triton that it finds, so Triton is
installed beside the tests (`make triton`), and reads at import whether to interpret. Prints an
object: for each operator, how many draws were tried and what was wrong, or what it needs.

What the interpreter of Triton 3.6 gets wrong is mended here: NumPy no longer takes an array of one
element for a number, numbers of 8 and 16 bits are not rounded to nearest, and products of bf16 are
those of the bits. torch does the conversions instead.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter

from solscope.bench.verify import VARIANTS, outputs_of, wrong_outputs
from solscope.operators import operator
from solscope.operators.base import Axes
from solscope.operators.task import Draw
from solscope.suite.files import load
from solscope.suite.scale import scale_down

SHAPES = 3
"""Shapes of an operator in a suite that are tried, made small."""
TORCH = {
    tl.bfloat16: torch.bfloat16,
    tl.float16: torch.float16,
    tl.float32: torch.float32,
    tl.float64: torch.float64,
    tl.float8e4nv: torch.float8_e4m3fn,
    tl.float8e4b8: torch.float8_e4m3fnuz,
    tl.float8e5: torch.float8_e5m2,
}


def as_torch(data: Any, dtype: Any) -> torch.Tensor:
    """The numbers that an array of the interpreter stands for."""
    own = np.ascontiguousarray(data)
    bits = {1: np.uint8, 2: np.int16, 4: np.int32, 8: np.int64}[own.itemsize]
    return torch.from_numpy(own.view(bits).copy()).view(TORCH[dtype])


def convert(data: Any, source: Any, target: Any, _rounding: Any) -> Any:
    """The bits of the same numbers in another type, rounded to nearest as a GPU does."""
    numbers = as_torch(data, source)
    wanted = TORCH[target]
    if wanted.itemsize == 1:
        most = torch.finfo(wanted).max
        numbers = numbers.float().clamp(-most, most)
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[wanted.itemsize]
    unsigned = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[wanted.itemsize]
    return numbers.to(wanted).view(bits).numpy().view(unsigned).reshape(np.shape(data))


def mend() -> None:
    """Mend what the interpreter gets wrong."""
    builder = interpreter.InterpreterBuilder
    plain_cast = builder.cast_impl
    set_attribute = interpreter._LangPatchScope.set_attr

    def cast(self: Any, source: Any, target: Any) -> Any:
        types = source.dtype.scalar, target.scalar
        if all(one in TORCH for one in types):
            data = convert(source.data, *types, None).view(interpreter._get_np_dtype(target))
            return interpreter.TensorHandle(data, target.scalar)
        if types[1] == tl.bfloat16:
            source = plain_cast(self, source, tl.float32)
            return cast(self, source, target)
        return plain_cast(self, source, target)

    def dot(self: Any, a: Any, b: Any, d: Any, *_: Any) -> Any:
        left, right = (as_torch(one.data, one.dtype.scalar).float() for one in (a, b))
        return interpreter.TensorHandle((left @ right).numpy() + d.data, d.dtype.scalar)

    def set_attr(self: Any, owner: Any, name: str, value: Any) -> None:
        if name == "__index__":
            value = lambda tensor: int(tensor.handle.data.item())  # noqa: E731
        elif name == "__bool__":
            value = lambda tensor: bool(tensor.handle.data.all())  # noqa: E731
        set_attribute(self, owner, name, value)

    interpreter._convert_float = convert
    builder.cast_impl = cast
    builder.create_dot = dot
    interpreter._LangPatchScope.set_attr = set_attr


def shapes_of(name: str) -> Iterator[Axes]:
    """Different small shapes of an operator in the suites."""
    for suite in ("atrex", "decode"):
        seen: list[Axes] = []
        for listed in load(suite).operators:
            for shape in listed.shapes if listed.operator == name else ():
                small = scale_down(shape.axes)
                if small not in seen:
                    seen.append(small)
        yield from seen[:SHAPES]


def check(name: str, run: Callable[..., Any]) -> dict[str, Any]:
    """All variants of the first shape, one of the others in turn."""
    task = operator(name).required_task
    tried, wrong = 0, []
    for place, axes in enumerate(shapes_of(name)):
        variants = VARIANTS if place == 0 else (VARIANTS[place % len(VARIANTS)],)
        for variant in variants:
            inputs = task.inputs(axes, Draw(seed=7 + place, variant=variant))
            wanted = task.reference(**inputs)
            got = outputs_of(task, run, inputs)
            tried += 1
            wrong += [
                f"{variant}, {axes}: {why}" for why in wrong_outputs(task, got, wanted, inputs)
            ]
    return {"tried": tried, "wrong": wrong}


def main() -> None:
    folder, *names = sys.argv[1:]
    mend()
    torch.set_num_threads(1)
    sys.path.insert(0, folder)
    found = {}
    for name in names or sorted(path.stem for path in Path(folder).glob("[!_]*.py")):
        try:
            found[name] = check(name, importlib.import_module(name).run)
        except NotImplementedError as error:
            found[name] = {"tried": 0, "wrong": [], "needs": str(error)}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
