"""Run kernels of `solscope-triton` in Triton's interpreter, on small inputs.

A program, for a process of its own: torch does much with a Triton that it finds, so Triton is
installed beside the tests (`make triton`), and reads at import whether to interpret. Prints an
object: for each operator, how many draws were tried and what was wrong, or what it needs; and
which kernels of the files did not run. Kernels in Gluon are not interpreted.

What the interpreter of Triton 3.6 gets wrong is mended here: NumPy no longer takes an array of one
element for a number, numbers of 8 and 16 bits are not rounded to nearest, and products of bf16 are
those of the bits. torch does the conversions instead.

What it does again and again is done once: the language is set up for the interpreter at the first
call of a function and stays so, and a reduction by a function of ours combines many values at once.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter

from solscope.bench.verify import draws, outputs_of, wrong_outputs
from solscope.operators import operator
from solscope.operators.base import Axes
from solscope.suite.files import load
from solscope.suite.scale import scale_down

SHAPES = 3
"""Shapes of an operator in a suite that are tried, made small."""
PAGES = {"q_heads": 8, "kv_heads": 2, "head_dim": 64, "block_size": 16}
LARGER: dict[str, list[Axes]] = {
    "causal_conv1d": [{"tokens": 100, "dim": 64, "width": 4}],
    "mla_decode_attention": [
        {"contexts": [[700, 1], [40, 1]], "q_heads": 20, "latent_dim": 64, "rope_dim": 16}
    ],
    "moe_align_block_size": [{"tokens": 400, "top_k": 8, "block_size": 64}],
    "moe_count_and_sort": [{"tokens": 400, "experts": 64, "top_k": 8}],
    "paged_attention_decode": [{"contexts": [[300, 2], [700, 1]], **PAGES, "dtype": "bf16"}],
    "topk_filter": [{"rows": 2, "vocabulary": 9000}],
    "unified_attention": [
        {"sequences": [[1, 700, 2], [1, 300, 1], [1, 40, 1]], **PAGES},
        {"sequences": [[1, 100, 12], [1, 2500, 1], [1, 300, 4]], **PAGES},
        {"sequences": [[3, 2300, 1], [1, 2100, 1], [4, 30, 2]], **PAGES},
        {"sequences": [[40, 2100, 1], [1, 2100, 3], [2, 900, 1]], **PAGES},
        {"sequences": [[9, 300, 1], [5, 2100, 1], [1, 50, 2]], **PAGES, "q_heads": 14},
        {"sequences": [[6, 300, 2], [10, 130, 1]], **PAGES},
    ],
}
"""Where small shapes do not reach every kernel, or every way through it."""
VIEWS = {
    "attention_forward": ("q", "k", "v"),
    "mla_decode_attention": ("q", "kv_cache"),
    "paged_attention_decode": ("query", "k_cache", "v_cache"),
    "unified_attention": ("q", "v_cache"),
}
"""Inputs that need not be dense: servers cut them out of larger tensors."""
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
    octets = np.ascontiguousarray(data).view(np.uint8)
    return torch.from_numpy(octets.copy()).view(TORCH[dtype])


def convert(data: Any, source: Any, target: Any, _rounding: Any) -> Any:
    """The same numbers in another type, rounded to nearest as a GPU does."""
    numbers = as_torch(data, source)
    wanted = TORCH[target]
    if wanted.itemsize == 1:
        most = torch.finfo(wanted).max
        numbers = numbers.float().clamp(-most, most)
    octets = numbers.to(wanted).view(torch.uint8).numpy()
    return octets.view(interpreter._get_np_dtype(target)).reshape(np.shape(data))


def mend() -> None:
    """Mend what the interpreter gets wrong."""
    builder = interpreter.InterpreterBuilder
    plain_cast = builder.cast_impl
    set_attribute = interpreter._LangPatchScope.set_attr

    def cast(self: Any, source: Any, target: Any) -> Any:
        types = source.dtype.scalar, target.scalar
        if all(one in TORCH for one in types):
            return interpreter.TensorHandle(convert(source.data, *types, None), target.scalar)
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
        set_attribute(self, owner, name, value)

    interpreter._convert_float = convert
    builder.cast_impl = cast
    builder.create_dot = dot
    interpreter._LangPatchScope.set_attr = set_attr


def hasten() -> None:
    """Leave out what the interpreter repeats."""
    patch = interpreter._patch_lang
    plain_reduce = interpreter.ReduceOps.generic_reduce
    plain_dtype = interpreter._get_np_dtype
    patched: set[str] = set()
    dtypes: dict[str, Any] = {}

    def patch_once(function: Any) -> Any:
        modules = filter(inspect.ismodule, function.__globals__.values())
        names = {module.__name__ for module in modules if module in (tl, tl.core)}
        if not names or not names <= patched:
            patch(function)
            patched.update(names)
        return interpreter._LangPatchScope()

    def reduce(self: Any, given: tuple[Any, ...]) -> Any:
        if self.axis is None or self.keep_dims:
            return plain_reduce(self, given)
        data = [np.moveaxis(one.handle.data, self.axis, 0) for one in given]
        types = [one.dtype for one in given]
        while len(data[0]) > 1:  # A power of two: neighbors are combined, in their order.
            sides = [one[side::2] for side in (0, 1) for one in data]
            tensors = map(self.to_tensor, sides, types * 2)
            combined = self.combine_fn.fn(*tensors)
            combined = combined if isinstance(combined, tuple) else (combined,)
            data = [one.handle.data for one in combined]
        return [self.to_tensor(one[0], dtype) for one, dtype in zip(data, types, strict=True)]

    def dtype_of(type_: Any) -> Any:
        name = type_.scalar.name
        if name not in dtypes:
            dtypes[name] = plain_dtype(type_)
        return dtypes[name]

    # Without `debug`, what is computed to find overflows is not looked at.
    builder = interpreter.interpreter_builder
    assert not builder.options.debug
    builder.options = replace(builder.options, sanitize_overflow=False)
    interpreter._patch_lang = patch_once
    interpreter.ReduceOps.generic_reduce = reduce
    interpreter._get_np_dtype = dtype_of


def shapes_of(name: str) -> list[Axes]:
    """Different small shapes of an operator in the suites, and larger ones."""
    found: list[Axes] = []
    for suite in ("atrex", "decode"):
        listed = [one for one in load(suite).operators if one.operator == name]
        small = [scale_down(shape.axes) for one in listed for shape in one.shapes]
        found += [axes for place, axes in enumerate(small) if axes not in small[:place]][:SHAPES]
    return [*found, *LARGER.get(name, [])]


def sliced(tensor: torch.Tensor) -> torch.Tensor:
    """The same, where the heads lie beside as many others."""
    heads = tensor.shape[-2]
    return torch.cat([tensor, tensor * 3], dim=-2)[..., :heads, :]


def turned(tensor: torch.Tensor) -> torch.Tensor:
    """The same, by heads first."""
    return tensor.transpose(-3, -2).contiguous().transpose(-3, -2)


def of_views(
    run: Callable[..., Any], names: tuple[str, ...], view: Callable[..., Any], **inputs: Any
) -> Any:
    """Run on views of the inputs that are named."""
    return run(**inputs | {name: view(inputs[name]) for name in names})


def check(name: str, run: Callable[..., Any]) -> dict[str, Any]:
    """What is wrong with an operator."""
    task = operator(name).required_task
    tried, wrong = 0, []
    for axes, draw in draws(shapes_of(name), seed=7):
        inputs = task.inputs(axes, draw)
        wanted = task.reference(**inputs)
        kinds: dict[str, Callable[..., Any]] = {draw.variant: run}
        if draw.variant == "typical" and name in VIEWS:
            for view in (sliced, turned):
                kinds[view.__name__] = partial(of_views, run, VIEWS[name], view)
        for kind, call in kinds.items():
            found = wrong_outputs(task, outputs_of(task, call, inputs), wanted, inputs)
            wrong += [f"{kind}, {axes}: {why}" for why in found]
            tried += 1
    return {"tried": tried, "wrong": wrong}


def kernels(folder: Path) -> dict[str, Any]:
    """Kernels of the files that were imported, by file and name."""
    return {
        f"{module}.{name}": value
        for module in sorted(path.stem for path in folder.glob("*.py"))
        for name, value in vars(sys.modules.get(module, object)).items()
        if name.endswith("_kernel")
        and isinstance(value, interpreter.InterpretedFunction)
        and value.fn.__module__ == module
    }


def main() -> None:
    folder, *names = sys.argv[1:]
    mend()
    hasten()
    torch.set_num_threads(1)
    # So that memory has NaN before it is written. The public function imports torch's compiler,
    # which does not fit this Triton.
    torch._C._set_deterministic_algorithms(True, warn_only=True)
    sys.path.insert(0, folder)
    ran: set[Any] = set()
    launch = interpreter.InterpretedFunction.run

    def noted(self: Any, *args: Any, **options: Any) -> Any:
        ran.add(self.fn)
        return launch(self, *args, **options)

    interpreter.InterpretedFunction.run = noted
    found: dict[str, Any] = {}
    for name in names:
        try:
            found[name] = check(name, importlib.import_module(name).run)
        except NotImplementedError as error:
            found[name] = {"tried": 0, "wrong": [], "needs": str(error)}
    idle = [name for name, kernel in kernels(Path(folder)).items() if kernel.fn not in ran]
    sys.stdout.write(json.dumps({"operators": found, "idle": idle}))


if __name__ == "__main__":
    main()
