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
from .messages import (
    AnyRequest,
    BindInputs,
    CallOnce,
    CallOutputs,
    CallSets,
    CallTimes,
    CaptureGraph,
    CopyOutputs,
    DescribeOutputs,
    Done,
    DropOutputs,
    FreeShape,
    InputSpec,
    Loaded,
    LoadSolution,
    OpenArenas,
    OutputFacts,
    ReleaseAll,
    ReplayGraph,
    RestoreInputs,
    Result,
    SaveInputs,
    SetupTimes,
    StartProfiler,
    TensorInput,
    TimeCalls,
    TrimMemory,
)
from .outputs import CHANCE, Outputs, TimedCalls, Unusable, copied

POISON = 0xFF
"""Every byte of memory that an output may be given: a NaN in every float type, -1 in integers."""
CACHED_BYTES = 1 << 30
"""Memory that a worker may hold for later calls while others are timed."""
COPIED_SHARE, LEAST_COPIES, COPIED_BYTES = 0.25, 6, 1 << 30
"""Timed calls whose outputs are copied: a quarter, or all of a few, but no more than this much."""
CLOCK = time.perf_counter
RECOMPILES = 64
"""Sizes of one operator that torch.compile may specialize for; beyond, it would run eagerly."""


class Worker:
    """State of the process: shared memory, the solution, bound inputs, results kept."""

    def __init__(self, torch: ModuleType, violations: list[str]) -> None:
        self.torch = torch
        self.plain = torch.Tensor
        self.found = violations
        self.tampering = Tampering(torch)
        self.device = "cpu"
        self.memory = Memory(torch)
        self.outputs = Outputs(torch)
        self.run: Any = None
        self.setup: Any = None
        self.prepare: Any = None
        self.unplanned: list[str] = []
        self.weights: list[str] = []
        self.compiled = False
        self.sets: list[dict[str, Any]] = []
        self.pristine: list[dict[str, Any]] = []
        self.kept: list[dict[str, Any]] = []
        self.copies: list[dict[str, Any]] = []
        """What is kept, in copies that were made when the clock stopped; empty where it did not."""
        self.timer: Any = None
        self.tampering.objects += [
            ("the worker", self),
            ("its memory", self.memory),
            ("its outputs", self.outputs),
        ]

    def answer(self, request: AnyRequest) -> Result:
        """Do what a request asks for; its result."""
        result: Result | None = None
        match request:
            case OpenArenas():
                self.open(request)
            case LoadSolution():
                result = self.load(request)
            case BindInputs():
                result = self.bind(request)
            case SaveInputs():
                self.save()
            case CallOnce():
                result = self.call_once(request)
            case CallSets():
                self.call_sets(request)
            case CopyOutputs():
                self.copy_outputs(request)
            case RestoreInputs():
                self.restore()
            case DropOutputs():
                self.drop()
            case FreeShape():
                self.free()
            case ReleaseAll():
                self.release_all()
            case TrimMemory():
                self.trim()
            case StartProfiler():
                self.start_profiler()
            case TimeCalls():
                result = self.time_calls(request)
            case CaptureGraph():
                self.capture(request)
            case DescribeOutputs():
                result = self.described(request.order)
            case ReplayGraph():
                self.timer.replay(request.times)
        return Done() if result is None else result

    # --- memory and solution

    def open(self, request: OpenArenas) -> None:
        """Map the memory that the evaluator shares."""
        torch = self.torch
        device, share, arenas = request.device, request.share, request.arenas
        self.device = device
        if device != "cpu" and share is not None:
            torch.cuda.set_per_process_memory_fraction(share)
        if "inputs" in arenas:
            self.sets, self.pristine = [], []
        self.memory.open(arenas, device)
        if device != "cpu" and self.timer is None:
            self.timer = DeviceTimer(torch)

    def load(self, request: LoadSolution) -> Loaded:
        """Import the solution."""
        path = request.path
        self.outputs.wanted = request.outputs
        self.outputs.updated = request.updated
        self.unplanned, self.weights = request.unplanned, request.weights
        folder = str(Path(path).parent)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        if request.build is not None:
            os.environ["SOLSCOPE_BUILD_FOLDER"] = request.build
        module = _module("solution", path)
        run = getattr(module, "run", None)
        if not callable(run):
            raise Unusable("crashed", f"{Path(path).name} has no function run")
        self.setup = getattr(module, "setup", None)
        self.prepare = getattr(module, "prepare", None)
        self.compiled = request.compiled
        if request.compiled:
            self.torch._dynamo.config.recompile_limit = RECOMPILES
            if request.compiler_cache is not None:
                os.environ["TORCHINDUCTOR_CACHE_DIR"] = request.compiler_cache
            run = self.torch.compile(run, dynamic=request.dynamic)
        self.run = run
        return Loaded(self.setup is not None, self.prepare is not None)

    def bind(self, request: BindInputs) -> SetupTimes:
        """Take the inputs of each set: views of shared memory, and plain values.

        While they are timed, the evaluator writes the values of the sets only after this.
        """
        self.kept, self.copies = [], []
        self.sets = [self._inputs(spec) for spec in request.sets]
        self.pristine = [{} for _ in self.sets]
        prepared, planned = [], []
        for inputs in self.sets:
            seen = {name: self._shown(name, value) for name, value in inputs.items()}
            if self.prepare is not None:
                start = CLOCK()
                weights = {name: inputs[name] for name in self.weights if name in inputs}
                inputs["prepared"] = self.prepare(**weights)
                prepared.append(1e6 * (CLOCK() - start))
            if self.setup is not None:
                start = CLOCK()
                inputs["plan"] = self.setup(**seen)
                planned.append(1e6 * (CLOCK() - start))
        return SetupTimes(planned, prepared)

    def save(self) -> None:
        """Save the inputs that are updated in place."""
        names = self.outputs.updated
        self.pristine = [{name: inputs[name].clone() for name in names} for inputs in self.sets]
        self.sync()

    def _inputs(self, spec: InputSpec) -> dict[str, Any]:
        inputs = {
            name: self.memory.view(item) if isinstance(item, TensorInput) else item.value
            for name, item in spec.items()
        }
        if self.compiled:
            for value in inputs.values():
                self._constant_features(value)
        return inputs

    def _constant_features(self, value: Any) -> None:
        """Tell torch.compile what holds in a server: tokens vary, the size of a row does not.

        Otherwise it would make row sizes variable after the second one, and kernels that reduce
        rows slow.
        """
        if isinstance(value, self.plain) and value.is_floating_point() and value.dim() > 1:
            self.torch._dynamo.mark_static(value, value.dim() - 1)

    def _shown(self, name: str, value: Any) -> Any:
        if not isinstance(value, self.plain):
            return value
        return shown_to_setup(self.torch, value, planned=name not in self.unplanned)

    # --- calls

    def call(self, index: int) -> dict[str, Any]:
        """Call the solution once; its outputs by name."""
        inputs = self.sets[index]
        return self.outputs.named(self.run(**inputs), inputs)

    def describe(self, outputs: dict[str, Any], index: int) -> list[OutputFacts]:
        """What the evaluator learns about the outputs of a call."""
        return self.outputs.describe(outputs, self.sets[index], self.device)

    def call_once(self, request: CallOnce) -> CallOutputs:
        """One call for correctness: outputs are copied in stream order, then poisoned."""
        self.drop()
        self._poison_free(request.poison)
        outputs = self.call(request.index)
        described = self.describe(outputs, request.index)
        self.kept, self.copies = [{name: tensor.clone() for name, tensor in outputs.items()}], []
        for tensor, facts in zip(outputs.values(), described, strict=True):
            if facts.alias is None:
                self._poison(tensor)
        self.sync()
        return CallOutputs([described])

    def call_sets(self, request: CallSets) -> None:
        """Call on some sets, one after the other; the evaluator's clock runs meanwhile."""
        drawn: dict[int, dict[str, Any]] = {}
        calls: dict[int, int] = {}
        for index in request.order:
            outputs = self.call(index)
            calls[index] = calls.get(index, 0) + 1
            # each call as likely as any other, and none known before it has returned
            if request.keep and CHANCE() * calls[index] < 1:
                drawn[index] = outputs
        self.sync()
        if request.keep:
            self.kept = [drawn[index] for index in sorted(drawn)]
            self.copies = [copied(outputs, self.plain) for outputs in self.kept]

    def copy_outputs(self, request: CopyOutputs) -> None:
        """Copy kept outputs, whole or some rows, to places of the shared memory."""
        target = self.memory.arenas["outputs"]
        for copy in request.copies:
            tensor = (self.copies or self.kept)[copy.call][copy.name]
            if copy.rows is not None:
                rows = self.torch.tensor(copy.rows, device=self.device)
                tensor = tensor.index_select(0, rows)
            data = self._bytes(tensor.contiguous())
            if data.numel() != copy.bytes:
                raise Unusable("wrong_shape", f"output {copy.name} changed its size")
            target[copy.offset : copy.offset + data.numel()].copy_(data)
        self.sync()

    def restore(self) -> None:
        """Put tensors that are updated in place back to what they were."""
        for inputs, before in zip(self.sets, self.pristine, strict=True):
            for name, tensor in before.items():
                inputs[name].copy_(tensor)
        self.sync()

    def drop(self) -> None:
        """Poison and release the results kept."""
        self._poison_kept()
        self.kept, self.copies = [], []

    def _poison_kept(self) -> None:
        for outputs in (*self.kept, *self.copies):
            for tensor in outputs.values():
                if type(tensor) is self.plain:
                    self._poison(tensor)

    def _poison(self, tensor: Any) -> None:
        if tensor.numel() and tensor.is_contiguous():
            self._bytes(tensor).fill_(POISON)

    def _bytes(self, tensor: Any) -> Any:
        """A contiguous tensor as bytes; one of a single value may have any stride."""
        return tensor.reshape(-1).as_strided((tensor.numel(),), (1,)).view(self.torch.uint8)

    def _poison_free(self, sizes: list[int]) -> None:
        """Poison what outputs of these sizes will be given: of two equal ones, two pieces."""
        byte = self.torch.uint8
        blocks = [self.torch.empty(size, dtype=byte, device=self.device) for size in sizes]
        for tensor in blocks:
            tensor.fill_(POISON)

    def free(self) -> None:
        """Release everything that belongs to the shape."""
        self.sets, self.kept, self.copies, self.pristine = [], [], [], []
        if self.timer is not None:
            self.timer.free()
            self._release()

    def _release(self) -> None:
        """Give memory back that no tensor uses, when it is much: that takes time."""
        if self.torch.cuda.memory_reserved() > CACHED_BYTES:
            self.torch.cuda.empty_cache()

    def release_all(self) -> None:
        """Let go of everything, the shared memory included, once no queued work writes to it."""
        self.sync()
        self.free()
        self.memory.close()
        gc.collect()

    def trim(self) -> None:
        """Give memory back that no tensor uses."""
        self.drop()
        if self.timer is not None:
            self._release()

    def sync(self) -> None:
        if self.timer is not None:
            self.timer.sync()

    # --- device timing (device_timer.py)

    def start_profiler(self) -> None:
        """Start the profiler once, which takes long the first time."""
        if self.timer is not None:
            self.timer.rehearse()

    def time_calls(self, request: TimeCalls) -> CallTimes:
        """Time one call per entry; its outputs are kept, some as copies, and updates of some calls.

        Torch finds the memory of all that is kept in its cache. To ask the driver takes as long as
        a kernel: a call that did so while it was timed would wait for the host.
        """
        updated = [tensor.nbytes for tensor in self.pristine[0].values()] if self.pristine else []
        calls = len(request.order)
        copies = _copies(calls, sum(request.reserved))
        self._poison_free(request.reserved * (calls + copies) + updated * len(request.copied))
        inputs = self.sets, self.pristine
        timed = TimedCalls(self.torch, inputs, request.copied, copies, calls)
        times = self.timer.time(self.call, timed, request.order, request.kineto, request.spin_us)
        self.kept, self.copies = timed.kept, timed.copies
        outputs = self.described([index for index, _ in request.order]).outputs
        return CallTimes(outputs=outputs, **times)

    def capture(self, request: CaptureGraph) -> None:
        """Record these calls in a CUDA graph, which must write what they returned."""
        self.kept = self.timer.capture(lambda: [self.call(index) for index in request.order])
        self.copies = []
        self._poison_kept()

    def described(self, order: list[int]) -> CallOutputs:
        """The outputs of the calls that are kept; `order` gives the set of each."""
        pairs = zip(self.kept, order, strict=True)
        return CallOutputs([self.describe(outputs, index) for outputs, index in pairs])


def _copies(calls: int, size: int) -> int:
    """Timed calls whose outputs, of `size` bytes, are copied as soon as their clock has stopped."""
    wanted = max(LEAST_COPIES, round(calls * COPIED_SHARE))
    return max(1, min(calls, wanted, COPIED_BYTES // max(1, size)))


def shown_to_setup(torch: ModuleType, value: Any, *, planned: bool) -> Any:
    """What `setup` may see of a tensor: values that hold for a whole step, else the shape alone."""
    if value.is_floating_point() or not planned:
        return torch.empty_like(value, device="meta")
    return value.clone()


def _module(name: str, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot import {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
