"""DeepGEMM as vLLM brings it; it compiles a kernel with nvcc when it is first asked for."""

import ctypes
import importlib
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from _vllm import find

NVRTC = "libnvrtc.so.13"
"""DeepGEMM needs this, which torch has and may not have loaded."""


def _import() -> Any:
    place = find("third_party/deep_gemm")
    if "SOLSCOPE_BUILD_FOLDER" in os.environ:
        os.environ.setdefault("DG_JIT_CACHE_DIR", os.environ["SOLSCOPE_BUILD_FOLDER"])
    if "CUDA_HOME" not in os.environ:
        nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        os.environ["CUDA_HOME"] = str(Path(nvcc).resolve().parents[1])
    shipped = [Path(folder) / "nvidia/cu13/lib" / NVRTC for folder in sys.path]
    ctypes.CDLL(str(next((p for p in shipped if p.exists()), NVRTC)), mode=ctypes.RTLD_GLOBAL)
    sys.path.append(str(place.parent))
    return importlib.import_module("deep_gemm")


deep_gemm = _import()
