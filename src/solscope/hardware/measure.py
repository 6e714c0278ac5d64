"""Measure what the GPU of this machine reaches, as opposed to what its data sheet says.

Needs torch and the standard library only, so it also runs from a clone on a bare machine:

    python3 src/solscope/hardware/measure.py OUT.toml [NAME]

That is why all of it is one file: modules beside it would be read through `solscope.hardware`,
which needs msgspec.

Every number is a median of windows timed with device events, the best of several sizes. Inputs are
random: zeros run faster. Matrix products are timed in bursts after a pause, where the clock is
high, and sustained, where the power limit holds it down. Clocks and power are read and never set.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WINDOW_MS = 20.0
"""Calls are timed in windows of at least this length, far above the resolution of events."""
WARM_S = 0.3
"""Seconds of calls before timing starts, so that clock and power settle."""
TIMED_S = 0.7
"""Seconds of calls that are timed."""
BURSTS = 7
BURST_MS = 10.0
"""Milliseconds of calls in a burst: short, so that the power limit does not lower the clock yet."""
PAUSE_S = 0.15
"""Seconds without work before a burst."""
GIB = 1 << 30
COPY_SIZES = (GIB // 2, 2 * GIB, 4 * GIB)
"""Bytes of each buffer that is read, written or copied."""
SHAPES = ((8192, 8192, 8192), (16384, 8192, 8192), (8192, 8192, 16384))
"""m, n, k of the matrix products: all operands together exceed every L2 many times."""
GRAPH_KERNELS = 1000
"""Empty kernels in one graph: enough to make the launch of the graph itself negligible."""
OPTIONAL = (RuntimeError, AttributeError, NotImplementedError, TypeError, ValueError, OSError)
"""Raised by torch for a type or function that this GPU or version does not support."""

EMPTY_SOURCE = 'extern "C" __global__ void solscope_empty() {}'
READ_SOURCE = """extern "C" __global__ void solscope_read(
    const float4* data, float* out, int count, int rounds) {
  const int stride = gridDim.x * blockDim.x;
  const int first = blockIdx.x * blockDim.x + threadIdx.x;
  float total = 0.0f;
  for (int round = 0; round < rounds; ++round) {
    for (int i = first; i < count; i += 2 * stride) {
      float4 a, b;
      asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];"
                   : "=f"(a.x), "=f"(a.y), "=f"(a.z), "=f"(a.w) : "l"(data + i));
      asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];"
                   : "=f"(b.x), "=f"(b.y), "=f"(b.z), "=f"(b.w) : "l"(data + i + stride));
      total += a.x + a.y + a.z + a.w + b.x + b.y + b.z + b.w;
    }
  }
  if (total == 0.12345f) out[0] = total;
}
"""
"""Reads a buffer again and again, past the L1 cache (`cg`)."""
READ_THREADS = 1024
"""Threads of a block that reads the L2."""
READ_BLOCKS_PER_SM = 2
"""With 1024 threads each, 2 blocks occupy an SM fully on data-center GPUs (2048 threads)."""
READ_ROUNDS = 256
"""Times that one launch reads the buffer, so that the launch itself counts little."""

Probe = Callable[[], object]
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Reading:
    """One measured number."""

    section: str
    name: str
    value: float
    unit: str
    method: str


@dataclass(frozen=True)
class MeasuredCard:
    """All that was measured on one card."""

    name: str
    device: str
    vendor: str
    arch: str
    readings: list[Reading]
    about: dict[str, str]


@dataclass(frozen=True)
class ProbeTimes:
    """Milliseconds per call, one number per window."""

    windows_ms: list[float]

    @property
    def median_ms(self) -> float:
        return statistics.median(self.windows_ms)

    @property
    def spread(self) -> str:
        """Middle half of the windows, relative to the median."""
        if len(self.windows_ms) < 2:
            return "1 window"
        low, _, high = statistics.quantiles(self.windows_ms, n=4, method="inclusive")
        around = 100 * (high - low) / self.median_ms
        return f"median of {len(self.windows_ms)} windows, middle half within {around:.1f} %"


@dataclass
class Card:
    """The GPU under test, and how to time work on it."""

    torch: Any
    skipped: list[str] = field(default_factory=list)

    @property
    def properties(self) -> Any:
        return self.torch.cuda.get_device_properties(0)

    @property
    def is_amd(self) -> bool:
        return bool(getattr(self.torch.version, "hip", None))

    def time(self, run: Probe, *, warm_s: float = WARM_S, timed_s: float = TIMED_S) -> ProbeTimes:
        """Time `run` in windows, after a warm-up, without a pause between windows."""
        run()
        self.torch.cuda.synchronize()
        calls = calls_in(WINDOW_MS, self._window(run, 3)())
        for _ in range(math.ceil(warm_s * 1e3 / WINDOW_MS)):
            self._window(run, calls)
        windows = max(9, math.ceil(timed_s * 1e3 / WINDOW_MS))
        waiting = [self._window(run, calls) for _ in range(windows)]
        return ProbeTimes([milliseconds() for milliseconds in waiting])

    def time_bursts(self, run: Probe, call_ms: float) -> ProbeTimes:
        """Time `run` in short bursts, the card idle before each."""
        calls = calls_in(BURST_MS, call_ms)
        times_ms = []
        for _ in range(BURSTS):
            time.sleep(PAUSE_S)
            run()
            times_ms.append(self._window(run, calls)())
        return ProbeTimes(times_ms)

    def _window(self, run: Probe, calls: int) -> Callable[[], float]:
        """Enqueue `calls` calls; the result waits for them and gives milliseconds per call."""
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(calls):
            run()
        end.record()

        def milliseconds() -> float:
            end.synchronize()
            return float(start.elapsed_time(end)) / calls

        return milliseconds

    def state_during(self, run: Probe, call_ms: float) -> str:
        """Clock and power while `run` repeats for about half a second; "" without nvidia-smi."""
        for _ in range(math.ceil(500 / call_ms)):
            run()
        state = smi("clocks.sm", "power.draw")
        self.torch.cuda.synchronize()
        return f"; {state['clocks.sm']}, {state['power.draw']} during it" if state else ""

    def compile(self, source: str, name: str) -> Any | None:
        """A kernel from CUDA source; null where this torch or this card cannot."""
        make = getattr(self.torch.cuda, "_compile_kernel", None)
        if make is None:
            return None
        try:
            return make(source, name)
        except OPTIONAL as error:
            self.skipped.append(f"compiling {name}: {first_line(error)}")
            return None


def measure(progress: Progress, name: str | None = None) -> MeasuredCard:
    """Run all probes on GPU 0; takes one to three minutes. Changes nothing on the card."""
    torch = import_torch()
    card = Card(torch)
    device = str(torch.cuda.get_device_name(0))
    about = describe(card, device)
    readings: list[Reading] = []
    for probe in (memory_bandwidth, matrix_rates, cache_bandwidth, floors, sizes):
        for reading in probe(card):
            progress(f"{reading.name} {reading.value:.4g} {reading.unit}")
            readings.append(reading)
        torch.cuda.empty_cache()
    if card.skipped:
        about["skipped"] = "; ".join(card.skipped)
    arch = (
        str(card.properties.gcnArchName).partition(":")[0]
        if card.is_amd
        else "sm_{}{}".format(*torch.cuda.get_device_capability(0))
    )
    vendor = "amd" if card.is_amd else "nvidia"
    return MeasuredCard(name or short_name(device), device, vendor, arch, readings, about)


def card_name() -> str:
    """Short name of GPU 0."""
    return short_name(str(import_torch().cuda.get_device_name(0)))


def import_torch() -> Any:
    """Torch, when it is there and sees a GPU."""
    from solscope.errors import MissingToolError

    try:
        torch = importlib.import_module("torch")
    except ImportError:
        raise MissingToolError(
            "measuring needs PyTorch: pip install torch (see pytorch.org for your driver)"
        ) from None
    if not torch.cuda.is_available():
        raise MissingToolError("measuring needs a GPU, and PyTorch finds none on this machine")
    return torch


# --- Probes


def memory_bandwidth(card: Card) -> Iterator[Reading]:
    """Read, write and copy of buffers far larger than the L2."""
    rates: dict[str, list[tuple[float, str]]] = {"read": [], "write": [], "copy": []}
    for size in copy_sizes(int(card.properties.total_memory), l2_size(card)):
        for kind, moved, run in _moves(card.torch, size):
            timing = card.time(run, warm_s=0.1, timed_s=0.3)
            how = f"{size / GIB:g} GiB buffer, {timing.spread}"
            rates[kind].append((moved / timing.median_ms * 1e3, how))
    best = {kind: max(timed) for kind, timed in rates.items() if timed}
    for kind, (rate, how) in best.items():
        yield Reading("memory", f"hbm.{kind}", rate, "byte/s", how)
    kind = max(best, key=lambda name: best[name])
    yield Reading("memory", "hbm.bandwidth", best[kind][0], "byte/s", f"hbm.{kind}, the largest")


def _moves(torch: Any, size: int) -> Iterator[tuple[str, int, Probe]]:
    """Kind, bytes moved per call, and the call. A copy moves each byte twice."""
    source = torch.rand(size // 4, device="cuda")
    other = torch.rand(size // 4, device="cuda")
    yield "read", size, lambda: torch.sum(source)
    yield "read", 2 * size, lambda: torch.dot(source, other)
    yield "write", size, lambda: other.fill_(1.5)
    yield "copy", 2 * size, lambda: other.copy_(source)


def matrix_rates(card: Card) -> Iterator[Reading]:
    """Dense matrix products on random data, per precision, in bursts and sustained."""
    for pipe, unit, precision, make in _products(card):
        try:
            with _float32_precision(card.torch, precision):
                readings = _best_products(card, pipe, unit, make)
        except OPTIONAL as error:
            card.skipped.append(f"{pipe}: {first_line(error)}")
        else:
            yield from readings


def _best_products(
    card: Card, pipe: str, unit: str, make: Callable[[int, int, int], Probe]
) -> list[Reading]:
    bursts, sustained = [], []
    for m, n, k in SHAPES:
        run, work = make(m, n, k), 2e3 * m * n * k
        timing = card.time(run)
        how = f"{m}x{n}x{k} on random data, {timing.spread}"
        state = card.state_during(run, timing.median_ms)
        sustained.append((work / timing.median_ms, f"{how}{state}"))
        timing = card.time_bursts(run, timing.median_ms)
        how = f"{m}x{n}x{k} on random data in bursts after a pause, {timing.spread}"
        bursts.append((work / timing.median_ms, how))
    return [
        Reading("peaks", name, rate, unit, how)
        for name, (rate, how) in ((pipe, max(bursts)), (f"{pipe}.sustained", max(sustained)))
    ]


def _products(card: Card) -> Iterator[tuple[str, str, str, Callable[[int, int, int], Probe]]]:
    """Pipe, unit, float32 precision, and the maker of a matrix product."""
    torch = card.torch

    def plain(dtype: Any) -> Callable[[int, int, int], Probe]:
        def make(m: int, n: int, k: int) -> Probe:
            a, b = _random(torch, m, k, dtype), _random(torch, n, k, dtype).t()
            out = torch.empty(m, n, device="cuda", dtype=dtype)
            return lambda: torch.mm(a, b, out=out)

        return make

    def fp8(m: int, n: int, k: int) -> Probe:
        dtype = torch.float8_e4m3fnuz if card.is_amd else torch.float8_e4m3fn
        a, b = _random(torch, m, k, dtype), _random(torch, n, k, dtype).t()
        unit_scale = torch.ones((), device="cuda", dtype=torch.float32)
        options = {"scale_a": unit_scale, "scale_b": unit_scale, "out_dtype": torch.bfloat16}
        return lambda: torch._scaled_mm(a, b, use_fast_accum=True, **options)

    def int8(m: int, n: int, k: int) -> Probe:
        a, b = (
            torch.randint(-127, 128, (rows, k), device="cuda", dtype=torch.int8) for rows in (m, n)
        )
        return lambda: torch._int_mm(a, b.t())

    strict = "tensor.fp32" if card.is_amd else "vector.fp32"
    yield "tensor.bf16", "FLOP/s", "highest", plain(torch.bfloat16)
    yield "tensor.fp16", "FLOP/s", "highest", plain(torch.float16)
    yield "tensor.tf32", "FLOP/s", "high", plain(torch.float32)
    yield strict, "FLOP/s", "highest", plain(torch.float32)
    yield "tensor.fp8", "FLOP/s", "highest", fp8
    yield "tensor.int8", "op/s", "highest", int8


def _random(torch: Any, rows: int, columns: int, dtype: Any) -> Any:
    return torch.randn(rows, columns, device="cuda", dtype=torch.float32).to(dtype)


@contextlib.contextmanager
def _float32_precision(torch: Any, precision: str) -> Iterator[None]:
    """`high` lets float32 products use tf32; `highest` does not."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def cache_bandwidth(card: Card) -> Iterator[Reading]:
    """Repeated reads, inside one kernel, of buffers that fit in half of the L2."""
    kernel = card.compile(READ_SOURCE, "solscope_read")
    if kernel is None or card.is_amd:
        card.skipped.append("l2.bandwidth: no kernel could be compiled")
        return
    blocks = READ_BLOCKS_PER_SM * int(card.properties.multi_processor_count)
    step = 2 * blocks * READ_THREADS
    out = card.torch.zeros(1, device="cuda")
    rates = []
    for size in (l2_size(card) // 4, l2_size(card) // 2):
        count = max(1, size // 16 // step) * step
        data = card.torch.rand(4 * count, device="cuda")
        launch = {"grid": (blocks, 1, 1), "block": (READ_THREADS, 1, 1)}
        arguments = [data, out, count, READ_ROUNDS]
        try:
            timing = card.time(lambda: kernel(args=arguments, **launch), timed_s=0.4)  # noqa: B023
        except OPTIONAL as error:
            card.skipped.append(f"l2.bandwidth: {first_line(error)}")
            return
        how = f"{READ_ROUNDS} reads of {count * 16 / 2**20:.1f} MiB in a kernel, {timing.spread}"
        rates.append((16.0 * count * READ_ROUNDS / timing.median_ms * 1e3, how))
    rate, how = max(rates)
    yield Reading("memory", "l2.bandwidth", rate, "byte/s", how)


def floors(card: Card) -> Iterator[Reading]:
    """Device time of an empty kernel, alone and in a graph."""
    empty, what = _empty_kernel(card)
    graph = card.torch.cuda.CUDAGraph()
    with card.torch.cuda.graph(graph):
        for _ in range(GRAPH_KERNELS):
            empty()
    timing = card.time(graph.replay, warm_s=0.1, timed_s=0.3)
    period = timing.median_ms / 1e3 / GRAPH_KERNELS
    how = f"per kernel in a graph of {GRAPH_KERNELS} {what} kernels, {timing.spread}"
    yield Reading("chip", "graph.floor", period, "s", how)
    yield least_floor(_profiled_seconds(card.torch, empty, graph.replay), period, what)


def least_floor(durations: Sequence[float], period: float, what: str) -> Reading:
    """The smaller of the shortest recorded duration and the time per kernel in a graph."""
    if not durations:
        return Reading("chip", "launch.floor", period, "s", f"graph.floor ({what} kernel)")
    shortest, typical = min(durations) * 1e6, statistics.median(durations) * 1e6
    recorded = f"torch.profiler: shortest {shortest:.3f} us, median {typical:.3f} us"
    how = f"the smaller of graph.floor and what {len(durations)} {what} kernels took in {recorded}"
    return Reading("chip", "launch.floor", min(period, *durations), "s", how)


def _empty_kernel(card: Card) -> tuple[Probe, str]:
    kernel = card.compile(EMPTY_SOURCE, "solscope_empty")
    if kernel is not None:
        try:
            kernel(grid=(1, 1, 1), block=(32, 1, 1), args=[])
            card.torch.cuda.synchronize()
        except OPTIONAL as error:
            card.skipped.append(f"empty kernel: {first_line(error)}")
        else:
            return lambda: kernel(grid=(1, 1, 1), block=(32, 1, 1), args=[]), "empty"
    card.torch.cuda._sleep(0)
    return lambda: card.torch.cuda._sleep(0), "zero-cycle sleep"


def _profiled_seconds(torch: Any, single: Probe, many: Probe) -> list[float]:
    """Durations of all kernels of 100 `single` and one `many`, as torch.profiler records them."""
    kinds = torch.profiler.ProfilerActivity
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        with torch.profiler.profile(activities=[kinds.CPU, kinds.CUDA]) as profiler:
            for _ in range(100):
                single()
            many()
            torch.cuda.synchronize()
        file = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(file))
        return kernel_seconds(json.loads(file.read_text(encoding="utf-8")))


def kernel_seconds(trace: dict[str, Any]) -> list[float]:
    """Durations of the kernels of a Chrome trace; its unit is microseconds."""
    return [
        float(event["dur"]) / 1e6
        for event in trace["traceEvents"]
        if event.get("cat") == "kernel" and event.get("dur", 0) > 0
    ]


def sizes(card: Card) -> Iterator[Reading]:
    """What the driver says of the card."""
    properties = card.properties
    for section, name, value, unit in (
        ("memory", "hbm.size", properties.total_memory, "byte"),
        ("memory", "l2.size", l2_size(card), "byte"),
        ("chip", "sm.count", properties.multi_processor_count, "count"),
    ):
        if value:
            yield Reading(section, name, int(value), unit, "as the driver reports it")


# --- Arithmetic


def calls_in(window_ms: float, call_ms: float) -> int:
    """How many calls fill a window."""
    return max(1, math.ceil(window_ms / max(call_ms, 1e-4)))


def copy_sizes(memory_bytes: int, cache_bytes: int) -> list[int]:
    """Buffer sizes of which three fit on the card and none in its cache."""
    fitting = [size for size in COPY_SIZES if 3 * size < memory_bytes]
    return [size for size in fitting if size >= 4 * cache_bytes] or fitting[-1:]


def l2_size(card: Card) -> int:
    """Bytes of L2 that the driver reports; 0 when it does not."""
    return int(getattr(card.properties, "L2_cache_size", 0))


def short_name(device: str) -> str:
    """The short name in a device name: `H200` for `NVIDIA H200`."""
    model = re.search(r"\b(GB\d{3}|[ABH]\d{2,3}|L\d{1,2}S?|MI\d{3}[AX]?|RTX \d{4})\b", device)
    if model is None:
        return re.sub(r"\W+", "-", device.removeprefix("NVIDIA ").removeprefix("AMD ")).strip("-")
    name = model.group().replace(" ", "")
    return f"{name}-PCIe" if name == "H100" and "PCIe" in device else name


def first_line(error: BaseException) -> str:
    """One line of a message of torch, which may print a page."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]


# --- The machine, and the file


def smi(*fields: str) -> dict[str, str]:
    """What nvidia-smi says of GPU 0; empty without it."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    query = f"--query-gpu={','.join(fields)}"
    try:
        done = subprocess.run(
            [program, query, "--format=csv,noheader", "--id=0"],
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    values = [value.strip() for value in done.stdout.strip().split(",")]
    return dict(zip(fields, values, strict=True)) if len(values) == len(fields) else {}


def describe(card: Card, device: str) -> dict[str, str]:
    """Device, versions, and limits of clocks and power."""
    version = card.torch.version
    about = {
        "device": device,
        "torch": str(card.torch.__version__),
        "runtime": f"ROCm {version.hip}" if card.is_amd else f"CUDA {version.cuda}",
    }
    fields = ("driver_version", "clocks.max.sm", "clocks.max.mem", "power.limit", "temperature.gpu")
    return about | smi(*fields)


def to_toml(measured: MeasuredCard, date: str) -> str:
    """The measured file, as `solscope.hardware.load` reads it."""
    lines = [
        f"name = {_text(measured.name)}",
        f"title = {_text(measured.device)}",
        f"vendor = {_text(measured.vendor)}",
        f"arch = {_text(measured.arch)}",
        "measured = true",
        "",
        "[about]",
        *(f"{_text(key)} = {_text(value)}" for key, value in measured.about.items()),
        "",
        "[sources.measured]",
        f"title = {_text(f'solscope hardware measure on {measured.device}')}",
        f"date = {_text(date)}",
    ]
    for section in ("peaks", "memory", "chip"):
        own = [reading for reading in measured.readings if reading.section == section]
        lines += ["", f"[{section}]", *map(_figure, own)] if own else []
    return "\n".join(lines) + "\n"


def _figure(reading: Reading) -> str:
    value = str(reading.value) if isinstance(reading.value, int) else f"{reading.value:.5e}"
    return (
        f"{_text(reading.name)} = {{ value = {value}, unit = {_text(reading.unit)}, "
        f'source = "measured", note = {_text(reading.method)} }}'
    )


def _text(value: str) -> str:
    """A TOML string; JSON escapes are TOML escapes."""
    return json.dumps(re.sub(r"[^ -~]", "?", value))


def check_free(path: Path, *, force: bool) -> None:
    """Raise when `path` is taken: better before minutes of measuring than after."""
    from solscope.errors import UsageError

    if path.exists() and not force:
        raise UsageError(f"{path} exists; --force overwrites it")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is not a folder")


def write(measured: MeasuredCard, path: Path, *, force: bool = False) -> None:
    """Write the file in one step, so that no half-written one is ever seen."""
    check_free(path, force=force)
    text = to_toml(measured, datetime.date.today().isoformat())
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def main(arguments: list[str]) -> int:
    """Measure without the rest of solscope: OUT.toml [NAME]."""
    if not 1 <= len(arguments) <= 2:
        _log("usage: python3 measure.py OUT.toml [NAME]")
        return 2
    from solscope.errors import SolscopeError

    path = Path(arguments[0])
    try:
        check_free(path, force=False)
        write(measure(_log, arguments[1] if len(arguments) == 2 else None), path)
    except SolscopeError as error:
        _log(f"solscope: {error}")
        return 2
    _log(f"wrote {path}")
    return 0


def _log(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    sys.exit(main(sys.argv[1:]))
