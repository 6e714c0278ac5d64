"""Requests of the evaluator and replies of a worker: the only words that cross the pipe.

Both ends use these structs, so that mypy checks them and neither end computes with a message of
another form. A request says by its parameter which reply it gets: `ReplayGraph` is a
`Request[Done]`, `TimeCalls` a `Request[CallTimes]`. On the pipe a message is a line of JSON:

    {"number": "9f...", "request": {"do": "ReplayGraph", "times": 3}}
    {"number": "9f...", "refused": [], "replaced": [], "failure": null, "result": {}}
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec

Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
Us = Annotated[float, msgspec.Meta(ge=0, le=1e12)]
"""Microseconds. The bounds refuse NaN and infinity, too, which no comparison would notice."""
MAX_ENTRIES = 1000
"""Dimensions of an output, and offences of a solution, in one reply."""
Offences = Annotated[list[str], msgspec.Meta(max_length=MAX_ENTRIES)]
FailureStatus = Literal["unsupported", "oom", "crashed", "wrong_shape", "cheating"]
"""What a worker can find out about a failure by itself; the evaluator has more words."""


class ArenaHandle(msgspec.Struct, frozen=True):
    """Shared memory as one process gets it from another: a file, or the parts of a CUDA handle."""

    bytes: int
    path: str | None = None
    cuda: list[Any] | None = None
    """Arguments of torch's `_new_shared_cuda`; bytes as {"hex": ...}."""


class TensorInput(msgspec.Struct, frozen=True, tag="tensor"):
    """An input that is a tensor: where it lies in the arena of inputs."""

    offset: int
    bytes: int
    """From its first to its last element."""
    dtype: str
    shape: list[int]
    stride: list[int]


class ValueInput(msgspec.Struct, frozen=True, tag="value"):
    """An input that is a plain value, such as an epsilon."""

    value: Any


InputSpec = dict[str, TensorInput | ValueInput]
"""One set of inputs, by name, in the order of the task."""


class OutputFacts(msgspec.Struct, frozen=True):
    """An output as a worker describes it."""

    name: str
    shape: Annotated[list[Size], msgspec.Meta(max_length=MAX_ENTRIES)]
    dtype: str
    alias: str | None
    """The input whose memory it is."""


class OutputCopy(msgspec.Struct, frozen=True):
    """An output of a kept call to be copied into the arena of outputs."""

    call: int
    name: str
    rows: list[int] | None
    """Null for all."""
    offset: int
    bytes: int


# --- Replies


class Done(msgspec.Struct, frozen=True):
    """A request with nothing to report."""


class Loaded(msgspec.Struct, frozen=True):
    """What a solution has beside `run`."""

    setup: bool = False
    prepare: bool = False


class SetupTimes(msgspec.Struct, frozen=True):
    """Time of `setup` and of `prepare` for each set; empty without one."""

    setup_us: list[Us] = []
    prepare_us: list[Us] = []


class CallOutputs(msgspec.Struct, frozen=True):
    """The outputs of each kept call."""

    outputs: list[list[OutputFacts]]


class CallTimes(msgspec.Struct, frozen=True):
    """One time per call, by each clock, and the outputs of each call."""

    outputs: list[list[OutputFacts]]
    events_us: list[Us]
    host_us: list[Us]
    """Time to queue the call."""
    lag_us: list[Us]
    """How long the device worked after the end event of the call."""
    span_us: list[Us] | None = None
    """By Kineto; null where it was not asked for or recorded too little."""
    span_reason: str = ""
    busy_us: list[Us] = []
    activities: list[Size] = []
    """Kernels, copies and fills per call."""


# --- Requests

R = TypeVar("R", bound=msgspec.Struct)


class Request(msgspec.Struct, Generic[R], frozen=True, tag_field="do", tag=True):
    """Something for a worker to do; `R` is its reply."""


class OpenArenas(Request[Done], frozen=True):
    """Map shared memory, in place of arenas of the same names."""

    arenas: dict[str, ArenaHandle]
    device: str
    share: float | None
    """Most GPU memory that the worker may take, as a share of all."""


class LoadSolution(Request[Loaded], frozen=True):
    """Import the solution."""

    path: str
    outputs: list[str]
    """Names of what it returns."""
    updated: list[str]
    """Inputs that it updates in place, and may return as well."""
    unplanned: list[str]
    """Inputs of which `setup` sees the shape alone."""
    weights: list[str]
    """Inputs that `prepare` gets."""
    compiled: bool
    dynamic: bool | None
    build: str | None
    """The cache folder of a CUDA C++ solution."""
    compiler_cache: str | None = None
    """Where torch.compile keeps what it makes; null for its usual place."""


class BindInputs(Request[SetupTimes], frozen=True):
    """Take inputs for the calls to come, and run `prepare` and `setup` on each set."""

    sets: list[InputSpec]


class SaveInputs(Request[Done], frozen=True):
    """Save inputs that are updated in place, so that they can be restored."""


class CallOnce(Request[CallOutputs], frozen=True):
    """One call for correctness."""

    index: int
    """Of the set."""
    poison: list[int]
    """Sizes of the outputs: memory that they may be given is overwritten first."""


class CallSets(Request[Done], frozen=True):
    """Calls on these sets, one after the other."""

    order: list[int]
    keep: bool
    """Whether the outputs of one call on each set are kept, in the order of the sets: a call that
    the worker draws while it goes on, and copies of what it returned, made before the reply."""


class CopyOutputs(Request[Done], frozen=True):
    """Copy kept outputs, whole or some rows, into the arena of outputs."""

    copies: list[OutputCopy]


class RestoreInputs(Request[Done], frozen=True):
    """Put inputs that are updated in place back to what they were when saved."""


class DropOutputs(Request[Done], frozen=True):
    """Overwrite and release the outputs kept."""


class FreeShape(Request[Done], frozen=True):
    """Release everything that belongs to the shape."""


class ReleaseAll(Request[Done], frozen=True):
    """Let go of everything, the shared memory included."""


class TrimMemory(Request[Done], frozen=True):
    """Drop the outputs, and give memory back that no tensor uses."""


class StartProfiler(Request[Done], frozen=True):
    """Start and stop the profiler once, which takes long the first time."""


class TimeCalls(Request[CallTimes], frozen=True):
    """Time one call per entry."""

    order: list[tuple[int, bool]]
    """Set, and whether the L2 is flushed before."""
    kineto: bool
    spin_us: float
    """Head start of the host."""
    copied: list[int]
    """Calls of which updated inputs are copied when their clock stops."""
    reserved: list[int]
    """Sizes of the outputs of one call: memory for what is kept is taken before the first call."""


class CaptureGraph(Request[Done], frozen=True):
    """Record calls on these sets in a CUDA graph."""

    order: list[int]


class DescribeOutputs(Request[CallOutputs], frozen=True):
    """Describe the outputs kept; `order` gives the set of each call."""

    order: list[int]


class ReplayGraph(Request[Done], frozen=True):
    """Run the graph so many times and wait for it."""

    times: int


AnyRequest = (
    OpenArenas
    | LoadSolution
    | BindInputs
    | SaveInputs
    | CallOnce
    | CallSets
    | CopyOutputs
    | RestoreInputs
    | DropOutputs
    | FreeShape
    | ReleaseAll
    | TrimMemory
    | StartProfiler
    | TimeCalls
    | CaptureGraph
    | DescribeOutputs
    | ReplayGraph
)
Result = Done | Loaded | SetupTimes | CallOutputs | CallTimes


def reply_type(request: Request[R]) -> type[R]:
    """The struct that the reply to a request must have the form of."""
    reply: type[R] = type(request).__orig_bases__[0].__args__[0]  # type: ignore[attr-defined]
    return reply


class Asked(msgspec.Struct, frozen=True):
    """A request on the pipe."""

    number: str
    """Drawn at random; the reply must repeat it."""
    request: AnyRequest


class Failure(msgspec.Struct, frozen=True):
    """Why there is no result."""

    status: FailureStatus
    reason: str


class Answer(msgspec.Struct, frozen=True):
    """A reply on the pipe."""

    number: str
    refused: Offences
    """What the solution tried and may not do."""
    replaced: Offences
    """What it replaced in its process."""
    failure: Failure | None = None
    result: Any = None
