"""The machine of a run: what must be known to do it again, and whether the GPU is free."""

from __future__ import annotations

import datetime
import hashlib
import os
import platform
import secrets
import shlex
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from solscope._version import __version__
from solscope.errors import MissingToolError

PACKAGES = (
    *("torch", "triton", "numpy", "fla-core", "liger-kernel", "sglang"),
    *("flashinfer-python", "apache-tvm-ffi", "sglang-kernel", "vllm"),
)
"""What solutions that ship run on; their versions are part of a result."""


def import_torch() -> Any:
    """Torch, or an error that says how to get it."""
    try:
        import torch
    except ImportError:
        raise MissingToolError("benchmarks need PyTorch: pip install 'solscope[bench]'") from None
    return torch


def device_name(device: str) -> str:
    """The GPU as its driver names it, or `cpu`."""
    torch = import_torch()
    if device == "cpu":
        return "cpu"
    if not torch.cuda.is_available():
        raise MissingToolError("PyTorch finds no GPU on this machine; --device cpu works without")
    return str(torch.cuda.get_device_name(0))


def describe_run(device: str, command: list[str]) -> dict[str, Any]:
    """Command, time, versions and machine of this run."""
    torch = import_torch()
    versions = {"solscope": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    versions["torch"] = str(torch.__version__)
    about: dict[str, Any] = {
        "id": secrets.token_hex(8),
        "command": shlex.join(command),
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "versions": versions,
        "platform": f"{platform.system()} {kernel_version()} {platform.machine()}",
        "cpu": cpu_name() or platform.processor(),
        "cores": os.cpu_count(),
        "machine": machine_mark(device),
    }
    if device != "cpu":
        properties = torch.cuda.get_device_properties(0)
        about["cuda"] = torch.version.cuda or torch.version.hip
        about["gpu_memory_bytes"] = int(properties.total_memory)
        about["gpu_l2_bytes"] = int(properties.L2_cache_size)
        about["gpu_sm_count"] = int(properties.multi_processor_count)
    return about


def machine_mark(device: str) -> str | None:
    """The same for runs on one GPU since the machine was started; null where it cannot be told.

    A digest: neither the serial number of the GPU nor that of the machine can be read from it.
    """
    try:
        started = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    gpu = "" if device == "cpu" else gpu_uuid()
    if gpu is None:
        return None
    return hashlib.sha256(f"{started} {gpu}".encode()).hexdigest()[:16]


def gpu_uuid() -> str | None:
    """What CUDA calls the GPU that torch uses."""
    uuid = getattr(import_torch().cuda.get_device_properties(0), "uuid", None)
    return None if uuid is None else str(uuid)


def kernel_version() -> str:
    """The version of the operating system's kernel, without the name of its build."""
    return platform.release().partition("-")[0]


def cpu_name() -> str | None:
    """The processor as Linux names it; null elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else None


def command_line() -> list[str]:
    """The command as it was typed."""
    return ["solscope", *sys.argv[1:]]
