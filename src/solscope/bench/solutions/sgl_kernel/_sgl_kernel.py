"""Operators of an installed sglang-kernel; its Python, which loads more than them, is not run."""

import ctypes
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

NAME = "sm90/common_ops.abi3.so"


def _load() -> Any:
    """Register the operators, after what they need of CUDA and torch may not have loaded."""
    spec = find_spec("sgl_kernel")
    folders = (spec.submodule_search_locations if spec else None) or []
    path = next((p for p in (Path(folder) / NAME for folder in folders) if p.exists()), None)
    if path is None:
        raise ImportError(f"needs {NAME}: pip install --no-deps sglang-kernel==0.4.3")
    name = "libnvrtc.so.13"
    shipped = [Path(folder) / "nvidia/cu13/lib" / name for folder in sys.path]
    found = next((p for p in shipped if p.exists()), name)
    ctypes.CDLL(str(found), mode=ctypes.RTLD_GLOBAL)
    torch.ops.load_library(str(path))
    return torch.ops.sgl_kernel


ops = _load()
