"""Single kernel files of an installed SGLang, without the server around them.

`import sglang` needs dozens of packages that its Triton kernels do not. Here its packages are made
known without running their __init__, and the few helpers that kernel files import are given plain
stand-ins. The kernels, their launch code and their tuned configurations are SGLang's own.
"""

import importlib
import importlib.machinery
import importlib.util
import sys
import types
from typing import Any

import torch

PACKAGES = (
    "sglang",
    "sglang.srt",
    "sglang.srt.layers",
    "sglang.srt.layers.attention",
    "sglang.srt.layers.attention.fla",
    "sglang.srt.layers.attention.triton_ops",
    "sglang.srt.layers.moe",
    "sglang.srt.layers.moe.fused_moe_triton",
    "sglang.srt.layers.quantization",
)


def kernels(name: str) -> Any:
    """The module `sglang.srt.layers.<name>`."""
    if "sglang" not in sys.modules:
        _prepare()
    return importlib.import_module(f"sglang.srt.layers.{name}")


def _prepare() -> None:
    spec = importlib.util.find_spec("sglang")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("needs sglang's files: pip install --no-deps sglang==0.5.9 packaging")
    root = next(iter(spec.submodule_search_locations))
    for name in PACKAGES:
        module = types.ModuleType(name)
        module.__path__ = ["/".join([root, *name.split(".")[1:]])]
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        sys.modules[name] = module
    sys.modules["sglang.srt.layers.moe.fused_moe_triton"].get_config = lambda: None  # type: ignore[attr-defined]
    for name, members in _stand_ins().items():
        module = types.ModuleType(name)
        module.__dict__.update(members)
        sys.modules[name] = module


def _device_name(device: int = 0) -> str:
    return torch.cuda.get_device_name(device) if torch.cuda.is_available() else "cpu"


def _hopper() -> bool:
    return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9


def _absent(name: str) -> Any:
    def missing(*_arguments: Any, **_options: Any) -> None:
        raise NotImplementedError(f"{name} is a CUDA kernel of sgl-kernel, which is not installed")

    return missing


def _custom_op(function: Any = None, **_options: Any) -> Any:
    return function if function is not None else lambda kernel: kernel


def _stand_ins() -> dict[str, dict[str, Any]]:
    hip = torch.version.hip is not None
    cuda = torch.cuda.is_available() and not hip
    release = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    native = [
        "sgl_per_token_quant_fp8",
        "sgl_per_token_group_quant_8bit",
        "sgl_per_token_group_quant_fp8",
        "sgl_per_token_group_quant_int8",
    ]
    found: dict[str, dict[str, Any]] = {
        "sglang.srt.utils": {
            "is_cuda": lambda: cuda,
            "is_hip": lambda: hip,
            "is_cpu": lambda: False,
            "is_sm90_supported": _hopper,
            "cpu_has_amx_support": lambda: False,
            "get_bool_env_var": lambda _name, _default="false": False,
            "get_device_core_count": lambda device=0: (
                torch.cuda.get_device_properties(device).multi_processor_count
            ),
            "get_device_name": _device_name,
            "log_info_on_rank0": lambda _logger, _message: None,
            "ceil_align": lambda value, size: (value + size - 1) // size * size,
            "__path__": [],
        },
        "sglang.srt.utils.common": {"torch_release": release},
        "sglang.srt.utils.custom_op": {"register_custom_op": _custom_op},
        "sglang.srt.layers.deep_gemm_wrapper": {
            "ENABLE_JIT_DEEPGEMM": False,
            "DEEPGEMM_BLACKWELL": False,
            "DEEPGEMM_SCALE_UE8M0": False,
        },
        "sglang.srt.batch_invariant_ops": {"is_batch_invariant_mode_enabled": lambda: False},
        "sglang.srt.server_args": {
            "get_global_server_args": lambda: types.SimpleNamespace(
                enable_deterministic_inference=False
            )
        },
        "sglang.jit_kernel": {"__path__": []},
        "sglang.jit_kernel.per_tensor_quant_fp8": {
            "per_tensor_quant_fp8": _absent("per_tensor_quant_fp8")
        },
    }
    if importlib.util.find_spec("sgl_kernel") is None:
        found["sgl_kernel"] = {name: _absent(name) for name in native}
        for name in native:  # kernel files describe these operators, so they must exist
            torch.library.define(f"sgl_kernel::{name}", "() -> ()")
    return found
