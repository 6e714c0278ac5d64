"""A working solution to start from: the eager one, as its own folder, in three languages.

The Triton and CUDA folders come with one small kernel that is built, run and checked, so that the
whole way works before the first own line is written.
"""

from __future__ import annotations

import ast
from pathlib import Path

from solscope.bench.catalog import ABOUT, CUDA_BUILD, find_solution
from solscope.errors import InputError, UsageError
from solscope.operators import operator as find_operator

ABOUT_TEXT = """title = "{title}"
author = ""
language = "{language}"
hardware = []
dependencies = [{dependencies}]
"""

TRITON = '''"""A Triton kernel that copies; `run` in {operator}.py uses it on its first output.

Grow it into the operator, then return its result directly.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def _copy(source, target, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    tl.store(target + offsets, tl.load(source + offsets, mask=inside), mask=inside)


def copy(tensor: torch.Tensor) -> torch.Tensor:
    source = tensor.contiguous()
    target = torch.empty_like(source)
    count = source.numel()
    _copy[(triton.cdiv(count, 1024),)](source, target, count, BLOCK=1024)
    return target
'''

CUDA = """// A CUDA kernel that copies bytes; `run` in {operator}.py uses it on its first output.
// Grow it into the operator, then return its result directly.
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

__global__ void copy_bytes(const unsigned char* source, unsigned char* target, long count) {{
  for (long at = blockIdx.x * (long)blockDim.x + threadIdx.x; at < count;
       at += (long)gridDim.x * blockDim.x) {{
    target[at] = source[at];
  }}
}}

torch::Tensor copy(torch::Tensor tensor) {{
  auto source = tensor.contiguous();
  auto target = torch::empty_like(source);
  const long count = source.nbytes();
  if (count > 0) {{
    const int blocks = (int)std::min<long>((count + 255) / 256, 132 * 16);
    copy_bytes<<<blocks, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
        (const unsigned char*)source.data_ptr(), (unsigned char*)target.data_ptr(), count);
  }}
  return target;
}}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {{ module.def("copy", &copy); }}
"""

WRAPPED = '''

_eager = run


def run(*args, **inputs):
    """The eager solution, its first output through the kernel."""
    result = _eager(*args, **inputs)
    if isinstance(result, torch.Tensor):
        return copy(result)
    if isinstance(result, dict):
        first = next(iter(result))
        return {**result, first: copy(result[first])}
    return (copy(result[0]), *result[1:])
'''


IN_PLACE = '''

_eager = run


def run({arguments}):
    """The eager solution, then `{output}` through the kernel."""
    _eager({arguments})
    {output}.copy_(copy({output}))
'''


def write_template(
    operator: str, folder: Path, language: str, *, force: bool = False
) -> list[Path]:
    """Write a solution of `operator` into `folder`; the files written."""
    task = find_operator(operator).task
    if task is None:
        raise UsageError(f"{operator} has no reference, so a solution could not be checked")
    eager = find_solution("torch-eager").file(operator)
    if eager is None:
        raise UsageError(f"no eager solution of {operator} to start from")
    # Where nothing is returned, what is updated first.
    updated = None if set(task.outputs) - set(task.mutates) else next(iter(task.outputs))
    files = _files(operator, eager.read_text(encoding="utf-8"), language, updated)
    existing = [name for name in files if (folder / name).exists()]
    if existing and not force:
        raise InputError(f"{folder / existing[0]} exists; --force overwrites it")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in files]


def _files(operator: str, eager: str, language: str, updated: str | None) -> dict[str, str]:
    title = f"My {operator}"
    dependencies = '"triton"' if language == "triton" else ""
    about = ABOUT_TEXT.format(title=title, language=language, dependencies=dependencies)
    if language == "torch":
        return {ABOUT: about, f"{operator}.py": eager}
    imported = eager.replace("import torch\n", "import torch\nfrom _kernel import copy\n", 1)
    wrapped = WRAPPED
    if updated is not None:
        wrapped = IN_PLACE.format(output=updated, arguments=", ".join(_arguments(eager)))
    run = {ABOUT: about, f"{operator}.py": imported + wrapped}
    if language == "triton":
        return {**run, "_kernel.py": TRITON.format(operator=operator)}
    build = CUDA_BUILD.format(source="_kernel.cu", name=f"{operator}_kernel", function="copy")
    return {**run, "_kernel.py": build, "_kernel.cu": CUDA.format(operator=operator)}


def _arguments(source: str) -> list[str]:
    """The arguments of `run`."""
    functions = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    run = next(node for node in functions if node.name == "run")
    return [argument.arg for argument in run.args.args]
