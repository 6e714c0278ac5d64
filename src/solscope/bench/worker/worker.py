"""The candidate's process: runs a solution on tensors that the evaluator owns.

Tensors are views of memory that the evaluator shared. What the solution returns is handed back as
bytes in a second shared memory, and the evaluator judges it.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from .device_timer import DeviceTimer
from .guard import Tampering
from .memory import Memory
from .outputs import Outputs, Unusable, Updates

POISON = 0xFF
"""Every byte of memory that an output may be given: a NaN in every float type, -1 in integers."""
CACHED_BYTES = 1 << 30
"""Memory that a worker may hold for later calls while others are timed."""
CLOCK = time.perf_counter
RECOMPILES = 64
"""Sizes of one operator that torch.compile may specialize for; beyond, it would run eagerly."""


class Worker:
    """State of the process: shared memory, the solution, bound inputs, results kept."""

    def __init__(self, torch: ModuleType, found: list[str]) -> None:
        self.torch = torch
        self.plain = torch.Tensor
        self.found = found
        self.tampering = Tampering(torch)
        self.device = "cpu"
        self.memory = Memory(torch)
        self.outputs = Outputs(torch)
        self.run: Any = None
        self.setup: Any = None
        self.unplanned: list[str] = []
        self.compiled = False
        self.sets: list[dict[str, Any]] = []
        self.pristine: list[dict[str, Any]] = []
        self.kept: list[dict[str, Any]] = []
        self.timer: Any = None

    # --- memory and solution

    def open(self, arenas: dict[str, Any], device: str, share: float | None) -> dict[str, Any]:
        """Map the memory that the evaluator shares."""
        torch = self.torch
        self.device = device
        if device != "cpu" and share is not None:
            torch.cuda.set_per_process_memory_fraction(share)
        if "inputs" in arenas:
            self.sets, self.pristine = [], []
        self.memory.open(arenas, device)
        if device != "cpu" and self.timer is None:
            self.timer = DeviceTimer(torch)
        return {}

    def load(
        self,
        path: str,
        outputs: list[str],
        unplanned: list[str],
        dynamic: bool | None,
        compiled: bool,
        build: str | None,
    ) -> dict[str, Any]:
        """Import the solution at `path`; `build` is the cache folder of a CUDA C++ one."""
        self.outputs.wanted = outputs
        self.unplanned = unplanned
        folder = str(Path(path).parent)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        if build is not None:
            os.environ["SOLSCOPE_BUILD_FOLDER"] = build
        module = _module("solution", path)
        run = getattr(module, "run", None)
        if not callable(run):
            raise Unusable("crashed", f"{Path(path).name} has no function run")
        self.setup = getattr(module, "setup", None)
        self.compiled = compiled
        if compiled:
            self.torch._dynamo.config.recompile_limit = RECOMPILES
            run = self.torch.compile(run, dynamic=dynamic)
        self.run = run
        return {}

    def bind(self, sets: list[dict[str, Any]], mutates: list[str]) -> dict[str, Any]:
        """Take the inputs of each set: views of shared memory, and plain values."""
        self.kept = []
        self.sets = [self._inputs(one) for one in sets]
        self.pristine = [{name: one[name].clone() for name in mutates} for one in self.sets]
        spent = []
        if self.setup is not None:
            for one in self.sets:
                start = CLOCK()
                one["plan"] = self.setup(**{k: self._planned(k, v) for k, v in one.items()})
                spent.append(1e6 * (CLOCK() - start))
        return {"setup_us": spent}

    def _inputs(self, one: dict[str, Any]) -> dict[str, Any]:
        found = {
            name: self.memory.view(item["tensor"]) if isinstance(item, dict) else item
            for name, item in one.items()
        }
        if self.compiled:
            for value in found.values():
                self._constant_features(value)
        return found

    def _constant_features(self, value: Any) -> None:
        """Tell torch.compile what holds in a server: tokens vary, the size of a row does not.

        Otherwise it would make row sizes variable after the second one, and kernels that reduce
        rows slow.
        """
        if isinstance(value, self.plain) and value.is_floating_point() and value.dim() > 1:
            self.torch._dynamo.mark_static(value, value.dim() - 1)

    def _planned(self, name: str, value: Any) -> Any:
        """What `setup` may see: what holds for a whole step; of the rest the shape alone."""
        if not isinstance(value, self.plain):
            return value
        if value.is_floating_point() or name in self.unplanned:
            return self.torch.empty_like(value, device="meta")
        return value.clone()

    # --- calls

    def call(self, index: int) -> dict[str, Any]:
        """Call the solution once; its outputs by name."""
        return self.outputs.named(self.run(**self.sets[index]))

    def describe(self, outputs: dict[str, Any], index: int) -> list[dict[str, Any]]:
        """What the evaluator learns about the outputs of a call."""
        return self.outputs.describe(outputs, self.sets[index], self.device)

    def once(self, index: int, poison: list[int]) -> dict[str, Any]:
        """One call for correctness: outputs are copied in stream order, then poisoned."""
        self.drop()
        self._poison_free(poison)
        outputs = self.call(index)
        described = self.describe(outputs, index)
        self.kept = [{name: tensor.clone() for name, tensor in outputs.items()}]
        for tensor, facts in zip(outputs.values(), described, strict=True):
            if facts["alias"] is None:
                self._poison(tensor)
        self.sync()
        return {"outputs": described}

    def calls(self, order: list[int], keep: bool) -> dict[str, Any]:
        """Call on these sets, one after the other; the evaluator's clock runs meanwhile."""
        kept = []
        for index in order:
            outputs = self.call(index)
            if keep:
                kept.append(outputs)
        self.sync()
        if not keep:
            return {}
        self.kept = kept
        return self.described(order)

    def take(self, requests: list[dict[str, Any]]) -> dict[str, Any]:
        """Copy kept outputs, whole or some rows, to places of the shared memory."""
        target = self.memory.arenas["outputs"]
        for request in requests:
            tensor = self.kept[request["call"]][request["name"]]
            if request["rows"] is not None:
                rows = self.torch.tensor(request["rows"], device=self.device)
                tensor = tensor.index_select(0, rows)
            data = tensor.contiguous().reshape(-1).view(self.torch.uint8)
            if data.numel() != request["bytes"]:
                raise Unusable("wrong_shape", f"output {request['name']} changed its size")
            target[request["offset"] : request["offset"] + data.numel()].copy_(data)
        self.sync()
        return {}

    def restore(self) -> dict[str, Any]:
        """Put tensors that are updated in place back to what they were."""
        for one, before in zip(self.sets, self.pristine, strict=True):
            for name, tensor in before.items():
                one[name].copy_(tensor)
        self.sync()
        return {}

    def drop(self) -> dict[str, Any]:
        """Poison and release the results kept."""
        self._poison_kept()
        self.kept = []
        return {}

    def _poison_kept(self) -> None:
        for outputs in self.kept:
            for tensor in outputs.values():
                if type(tensor) is self.plain:
                    self._poison(tensor)

    def _poison(self, tensor: Any) -> None:
        if tensor.numel() and tensor.is_contiguous():
            tensor.reshape(-1).view(self.torch.uint8).fill_(POISON)

    def _poison_free(self, sizes: list[int]) -> None:
        """Poison what outputs of these sizes will be given: of two equal ones, two pieces."""
        byte = self.torch.uint8
        held = [self.torch.empty(size, dtype=byte, device=self.device) for size in sizes]
        for tensor in held:
            tensor.fill_(POISON)

    def free(self) -> dict[str, Any]:
        """Release everything that belongs to the shape."""
        self.sets, self.kept, self.pristine = [], [], []
        if self.timer is not None:
            self.timer.free()
            self._release()
        return {}

    def _release(self) -> None:
        """Give memory back that no tensor uses, when it is much: that takes time."""
        if self.torch.cuda.memory_reserved() > CACHED_BYTES:
            self.torch.cuda.empty_cache()

    def leave(self) -> dict[str, Any]:
        """Let go of everything, the shared memory included, once no queued work writes to it."""
        self.sync()
        self.free()
        self.memory.close()
        gc.collect()
        return {}

    def trim(self) -> dict[str, Any]:
        """Give memory back that no tensor uses."""
        self.drop()
        if self.timer is not None:
            self._release()
        return {}

    def sync(self) -> None:
        if self.timer is not None:
            self.timer.sync()

    # --- device timing (device_timer.py)

    def rehearse(self) -> dict[str, Any]:
        """Start the profiler once, which takes long the first time."""
        if self.timer is not None:
            self.timer.rehearse()
        return {}

    def timed(
        self, order: list[list[Any]], kineto: bool, spin_us: float, copied: list[int]
    ) -> dict[str, Any]:
        """Time one call per entry [set, cold]; results are kept for the evaluator's questions.

        What the calls `copied` made of tensors that are updated is kept, too.
        """
        updates = Updates(self.sets, self.pristine, copied)
        reply, kept = self.timer.time(self.call, updates.put_back, order, kineto, spin_us)
        self.kept = updates.beside(kept)
        return {**reply, **self.described([index for index, _ in order])}

    def capture(self, order: list[int]) -> dict[str, Any]:
        """Record these calls in a CUDA graph, which must write what they returned."""
        self.kept = self.timer.capture(lambda: [self.call(index) for index in order])
        self._poison_kept()
        return {}

    def described(self, order: list[int]) -> dict[str, Any]:
        """The outputs of the calls that are kept; `order` gives the set of each."""
        pairs = zip(self.kept, order, strict=True)
        return {"outputs": [self.describe(outputs, index) for outputs, index in pairs]}

    def replay(self, times: int) -> dict[str, Any]:
        """Run the graph so many times and wait for it."""
        self.timer.replay(times)
        return {}

    def tampered(self) -> list[str]:
        """What was replaced since the start."""
        return self.tampering.found()


def _module(name: str, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot import {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
