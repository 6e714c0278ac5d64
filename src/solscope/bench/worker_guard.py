"""What a worker refuses and watches. Copied beside `worker.py`; imports nothing of solscope.

Audit hooks cannot be taken off again and see what goes through Python: what a solution tries is
refused and kept, whatever it does with the error.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

FOREIGN = ("socket.connect", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.system")


REMOVALS = ("os.remove", "os.rename", "os.rmdir", "os.truncate", "shutil.rmtree")
SHARED = "/solscope-arena-"
"""In the paths of memory that evaluators share, this one's and others'."""
SIGNALS = ("os.kill", "os.killpg")


def guard(config: dict[str, Any], found: list[str]) -> None:
    """Refuse the evaluator's files and processes; what was tried is kept in `found`."""
    paths = tuple(config["forbidden"])
    folder = config["folder"]
    everyone = (config["evaluator"], os.getppid(), 1)
    decode, isinstance_, str_, bytes_ = os.fsdecode, isinstance, str, bytes

    def refuse(what: str) -> None:
        found.append(what)
        raise PermissionError(what)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path = arguments[0]
            if isinstance_(path, (str_, bytes_)) and decode(path).startswith(paths):
                refuse(f"opened {decode(path)}")
        elif event == "import":
            if str_(arguments[0]).partition(".")[0] == "solscope":
                refuse(f"imported {arguments[0]}")
        elif event == "socket.connect":
            address = arguments[1]
            if isinstance_(address, tuple) and not str_(address[0]).startswith(("127.", "::1")):
                refuse(f"connected to {address[0]}")
        elif event in REMOVALS:
            path = _place(arguments[0])
            if SHARED in path or path in (folder, f"{folder}/solutions"):
                refuse(f"removed or cut off the evaluator's {path}")
        elif event in SIGNALS:
            if abs(arguments[0]) in everyone:
                refuse(f"sent a signal to process {arguments[0]}, which is not its own")
        elif event in FOREIGN and any(path in repr(arguments[:2]) for path in paths):
            refuse(f"started a program on the evaluator: {repr(arguments[:2])[:300]}")

    sys.addaudithook(hook)


def _place(target: Any) -> str:
    """The path that an argument names: text, bytes, or the number of an open file."""
    try:
        if isinstance(target, int):
            return str(Path(f"/proc/self/fd/{target}").readlink())
        return str(Path(os.fsdecode(target)).absolute())
    except (OSError, TypeError, ValueError):
        return ""


def watched(torch: ModuleType) -> dict[str, Any]:
    """The functions that timing and copying rely on, by name, as they are now."""
    owners: dict[str, Any] = {
        "time": time,
        "torch": torch,
        "torch.Tensor": torch.Tensor,
        "torch.cuda": torch.cuda,
        "torch.cuda.Event": torch.cuda.Event,
        "torch.cuda.Stream": torch.cuda.Stream,
        "torch.cuda.CUDAGraph": torch.cuda.CUDAGraph,
        "torch.profiler": torch.profiler,
        "torch.profiler.profile": torch.profiler.profile,
        "json": json,
        "os": os,
    }
    names = {
        "time": ("perf_counter", "perf_counter_ns", "time", "monotonic", "sleep"),
        "torch": ("empty", "equal", "allclose", "isclose", "testing"),
        "torch.Tensor": (
            *("copy_", "clone", "contiguous", "view", "reshape", "fill_", "to", "data_ptr"),
            *("__eq__", "__getitem__", "index_select", "double", "float"),
        ),
        "torch.cuda": ("synchronize", "Event", "Stream", "current_stream", "CUDAGraph", "_sleep"),
        "torch.cuda.Event": ("record", "elapsed_time", "synchronize", "__new__"),
        "torch.cuda.Stream": ("synchronize",),
        "torch.cuda.CUDAGraph": ("replay",),
        "torch.profiler": ("profile",),
        "torch.profiler.profile": ("start", "stop"),
        "json": ("dumps", "loads"),
        "os": ("read", "write"),
    }
    return {
        f"{owner}.{name}": inspect.getattr_static(owners[owner], name, None)
        for owner, group in names.items()
        for name in group
    }
