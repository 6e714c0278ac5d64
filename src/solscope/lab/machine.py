"""What a recording was made on."""

from __future__ import annotations

import os
import platform
import re
import shlex
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from solscope._version import __version__
from solscope.bench.run.machine import cpu_name, kernel_version


def describe(device: str) -> dict[str, Any]:
    """Facts about machine and software, for `machine.json`."""
    import torch

    facts: dict[str, Any] = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": shlex.join(["solscope", *sys.argv[1:]]),
        "solscope": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "kernel": kernel_version(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "cpu": cpu_name(),
    }
    if device.startswith("cuda"):
        properties = torch.cuda.get_device_properties(0)
        facts |= {
            "gpu": properties.name,
            "gpu_memory_bytes": properties.total_memory,
            "cuda": torch.version.cuda,
            "driver": _driver(),
        }
    return facts


def _driver() -> str | None:
    """The version of NVIDIA's driver."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
    except OSError:
        return None
    version = re.search(r"\d+\.\d+(\.\d+)?", text)
    return version[0] if version else None
