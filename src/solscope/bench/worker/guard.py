"""What a worker refuses and watches.

Audit hooks cannot be taken off again and see what goes through Python: what a solution tries is
refused and kept, whatever it does with the error.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

FOREIGN = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system")
"""Ways to start a program that reads what this process may not."""
MOVES = ("os.link", "os.rename")
"""Ways to give a file another name, but for links that are followed."""
WATCHED = {
    "time": ("perf_counter", "perf_counter_ns", "time", "monotonic", "sleep"),
    "torch": (
        *("Tensor", "cuda", "profiler", "library"),
        *("empty", "equal", "allclose", "isclose", "testing"),
        *("sum", "tensor", "zeros", "empty_like", "as_tensor", "frombuffer"),
    ),
    "torch.Tensor": (
        *("copy_", "clone", "contiguous", "view", "reshape", "fill_", "to", "data_ptr", "set_"),
        *("__eq__", "__getitem__", "index_select", "double", "float", "numel", "is_contiguous"),
        *("shape", "dtype", "device", "layout", "untyped_storage"),
        *("__getattribute__", "__getattr__"),
    ),
    "torch.cuda": ("synchronize", "Event", "Stream", "current_stream", "CUDAGraph", "_sleep"),
    "torch.cuda.Event": ("record", "elapsed_time", "synchronize", "__new__"),
    "torch.cuda.Stream": ("synchronize",),
    "torch.cuda.CUDAGraph": ("replay", "capture_begin", "capture_end"),
    "torch.cuda.graph": ("__enter__", "__exit__"),
    "torch.library": ("_impls",),
    "torch.profiler": ("profile",),
    "torch.profiler.profile": ("start", "stop"),
    "json": ("dumps", "loads"),
    "os": ("read", "write"),
    "random": ("_urandom",),
    "random.SystemRandom": ("random", "getrandbits"),
}
"""What timing and copying rely on, by owner."""
CODE = (".py", ".pyc")
"""Files that hold code, which the digest of a solution must cover."""
KERNELS = frozenset(
    ("clone", "contiguous", "copy_", "empty", "fill_", "index_select", "set_", "sum", "view")
)
"""Operators of torch that are called while outputs are copied or caches flushed."""
REMOVALS = ("os.remove", "os.rename", "os.rmdir", "os.truncate", "shutil.rmtree")
"""Ways to take a file from others that use it."""
SHARED = "/solscope-arena-"
"""In the paths of memory that evaluators share, this one's and others'."""
SIGNALS = ("os.kill", "os.killpg")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
HOOKS = ("sys.setprofile", "sys.settrace", "sys.monitoring.register_callback")
"""Ways to run code of one's own inside functions of others: outputs could be filled in there, when
the clock has stopped."""
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


def guard(config: dict[str, Any], violations: list[str], own: list[str]) -> None:
    """Refuse the evaluator's files and processes; what was tried is added to `violations`.

    `own` will hold the folder of the solution, where it may write files of its own.
    """
    forbidden, folder = config["forbidden"], config["folder"]
    everyone = (config["evaluator"], os.getppid(), 1)
    own_pid, workers = os.getpid(), Path(f"/proc/{os.getppid()}/task/{os.getppid()}/children")

    def is_other(pid: int) -> bool:
        """Whether this is the evaluator's, or a worker beside this one."""
        try:
            beside = [int(one) for one in workers.read_text().split()]
        except (OSError, ValueError):  # not every kernel tells
            beside = []
        return pid in everyone or (pid in beside and pid != own_pid)

    decode, real, join, isinstance_ = os.fsdecode, os.path.realpath, os.path.join, isinstance
    str_, bytes_, int_ = str, bytes, int
    paths = tuple(join(real(path), "") for path in forbidden)
    named = re.compile(
        "|".join(rf"{re.escape(path[:-1])}(?![\w.-])" for path in (*forbidden, *paths))
    )

    def inside(path: Any) -> bool:
        """Whether this is one of the folders or in it, however it is written."""
        return isinstance_(path, (str_, bytes_)) and join(real(decode(path)), "").startswith(paths)

    roots = tuple(join(real(path), "") for path in config["code"])
    written: set[str] = set()
    made: set[str] = set()
    exists, lexists = os.path.exists, os.path.lexists
    solutions = join(real(f"{folder}/solutions"), "")

    def alters(path: Any, mode: Any, flags: Any) -> bool:
        """Whether this writes to a file of a solution: of another one, or that was there before."""
        if not isinstance_(path, (str_, bytes_)):
            return False
        writes = any(letter in mode for letter in "wax+") if isinstance_(mode, str_) else False
        if not writes and not (isinstance_(flags, int_) and flags & WRITES):
            return False
        place = real(decode(path))
        if not place.startswith(solutions) or place in made:
            return False
        if not place.startswith(tuple(own)) or exists(place) or lexists(decode(path)):
            return True
        made.add(place)
        return False

    def foreign(path: Any, mode: Any) -> bool:
        """Whether this reads code that is neither the solution's nor installed.

        What the process wrote itself is its own, as generated kernels are.
        """
        if not isinstance_(path, (str_, bytes_)) or not decode(path).endswith(CODE):
            return False
        place = real(decode(path))
        if isinstance_(mode, str_) and not mode.startswith("r"):
            written.add(place)
            return False
        return place not in written and not place.startswith(roots)

    def refuse(what: str) -> None:
        violations.append(what)
        raise PermissionError(what)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            if inside(arguments[0]):
                refuse(f"opened {decode(arguments[0])}")
            if alters(*arguments[:3]):
                refuse(f"wrote to {decode(arguments[0])}, which is a solution's file")
            if foreign(*arguments[:2]):
                refuse(f"read code that is not part of it, {decode(arguments[0])}")
        elif event in MOVES and inside(arguments[0]):
            refuse(f"gave {decode(arguments[0])} another name")
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
            if is_other(abs(arguments[0])):
                refuse(f"sent a signal to process {arguments[0]}, which is not its own")
        elif event in HOOKS:
            refuse(f"hooked into functions that are not its own, by {event}")
        elif event in FOREIGN and named.search(repr(arguments[:2])):
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


class Tampering:
    """What a solution has replaced in its process since this was made.

    Asked after every request, also timed ones: it must take microseconds.
    """

    def __init__(self, torch: ModuleType) -> None:
        from torch.utils._device import DeviceContext

        self.torch = torch
        self.harmless = DeviceContext
        """The mode of `torch.set_default_device`."""
        owners: dict[str, Any] = {
            "time": time,
            "torch": torch,
            "torch.Tensor": torch.Tensor,
            "torch.cuda": torch.cuda,
            "torch.cuda.Event": torch.cuda.Event,
            "torch.cuda.Stream": torch.cuda.Stream,
            "torch.cuda.CUDAGraph": torch.cuda.CUDAGraph,
            "torch.cuda.graph": torch.cuda.graph,
            "torch.library": torch.library,
            "torch.profiler": torch.profiler,
            "torch.profiler.profile": torch.profiler.profile,
            "json": json,
            "os": os,
            "random": random,
            "random.SystemRandom": random.SystemRandom,
        }
        watched = [(owner, name) for owner, names in WATCHED.items() for name in names]
        placed = [(owner, name, _places(owners[owner], name)) for owner, name in watched]
        self.functions = [
            (f"{owner}.{name}", name, places, _as_defined(name, places))
            for owner, name, places in placed
        ]
        self.kinds = [(name, owner, _kind(owner)) for name, owner in owners.items()]
        self.own = _own_names()
        self.codes = [
            (name, value, value.__code__)
            for name, _, _, value in self.own
            if isinstance(value, FunctionType)
        ]
        self.objects: list[tuple[str, Any]] = []
        """Objects of ours, whose attributes must not hide what their classes define."""
        self.registered = set(torch.library._impls)
        self.threads = torch.get_num_threads()
        self.switching_s = sys.getswitchinterval()

    def found(self) -> list[str]:
        """Functions and classes that were replaced, modes that are on, kernels overridden."""
        functions = [
            full
            for full, name, places, value in self.functions
            if _as_defined(name, places) is not value
        ]
        kinds = [f"the class of {name}" for name, owner, was in self.kinds if _kind(owner) != was]
        changed = functions + kinds + self._modes() + self._kernels() + self._more_threads()
        return changed + self._ours() + self._interruptions()

    def _interruptions(self) -> list[str]:
        """What lets other code run between two steps of ours."""
        found = ["the time between switches of threads"] * (
            sys.getswitchinterval() != self.switching_s
        )
        timed = any(signal.getitimer(timer) != (0.0, 0.0) for timer in TIMERS)
        return found + ["nothing by a timer that interrupts the process"] * timed

    def _ours(self) -> list[str]:
        """What runs the solution: functions of this package, and objects that hold its state."""
        functions = [name for name, place, key, was in self.own if place.get(key) is not was]
        functions += [
            f"the code of {name}" for name, was, code in self.codes if was.__code__ is not code
        ]
        hidden = [
            f"{name}.{key}"
            for name, original in self.objects
            for key, value in vars(original).items()
            if hasattr(type(original), key) or _is_disguised(value)
        ]
        return functions + hidden

    def _more_threads(self) -> list[str]:
        """Times on a CPU are those of the number of threads that all solutions have."""
        now = self.torch.get_num_threads()
        return [f"the number of threads, {self.threads}, by {now}"] if now != self.threads else []

    def _modes(self) -> list[str]:
        """Modes see, and may change, whatever torch is asked to do in this thread."""
        c = self.torch._C
        modes = [c._get_function_stack_at(index) for index in range(c._len_torch_function_stack())]
        modes += [c._get_dispatch_stack_at(index) for index in range(c._len_torch_dispatch_stack())]
        kinds = [type(mode) for mode in modes]
        return [f"torch by a mode, {kind.__name__}" for kind in kinds if kind is not self.harmless]

    def _kernels(self) -> list[str]:
        """Kernels of torch's own operators that were registered from Python since."""
        new = self.torch.library._impls - self.registered
        kernels = set()
        for entry in new:
            space, name, key = (*entry.split("/"), "", "")[:3]
            if space == "aten" and key != "Meta" and name.partition(".")[0] in KERNELS:
                kernels.add(entry)
        self.registered |= new - kernels  # the others need not be looked at again
        return [f"the kernel of {entry}" for entry in sorted(kernels)]


def _own_names() -> list[tuple[str, Mapping[str, Any], str, Any]]:
    """Name, place, key and value of all that modules of this package have, and their classes."""
    names: list[tuple[str, Mapping[str, Any], str, Any]] = []
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{__package__}.") and not name.endswith(".messages"):
            for key, value in vars(module).items():
                if key.startswith("__"):
                    continue
                names.append((f"{name}.{key}", vars(module), key, value))
                if isinstance(value, type) and value.__module__ == name:
                    members = [(k, v) for k, v in vars(value).items() if callable(v)]
                    names += [(f"{name}.{key}.{k}", vars(value), k, v) for k, v in members]
    return names


def _is_disguised(value: Any) -> bool:
    """Whether this only looks like a list or a dict, and may do more when it is asked."""
    return isinstance(value, (list, dict)) and type(value) not in (list, dict)


def _kind(owner: Any) -> tuple[Any, ...]:
    """What an attribute of a module, or of an object of a class, is looked up by."""
    return (type(owner), *getattr(owner, "__mro__", ()))


def _places(owner: Any, name: str) -> list[Any]:
    """Where to look for an attribute: in a class, it and those it derives from, until found."""
    places = [vars(place) for place in getattr(owner, "__mro__", (owner,))]
    defined = [index for index, place in enumerate(places) if name in place]
    return places[: defined[0] + 1] if defined else places


def _as_defined(name: str, places: list[Any]) -> Any:
    """An attribute as the first of these places defines it."""
    for place in places:
        if name in place:
            return place[name]
    return None
