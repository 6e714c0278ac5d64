"""Files of an installed vLLM, one by one: its Python needs dozens of packages and is not run."""

from importlib.util import find_spec
from pathlib import Path

import torch


def find(name: str) -> Path:
    """A file or folder of the package `vllm`."""
    spec = find_spec("vllm")
    folders = (spec.submodule_search_locations if spec else None) or []
    for path in (Path(folder) / name for folder in folders):
        if path.exists():
            return path
    raise ImportError(f"needs {name} of vLLM: pip install --no-deps vllm==0.24.0")


def load(name: str) -> None:
    """Register the operators of a shared object."""
    torch.ops.load_library(str(find(name)))
