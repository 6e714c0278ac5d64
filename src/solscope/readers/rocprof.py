"""rocprofv3 JSON (`{"rocprofiler-sdk-tool": [...]}`), one or several processes per file.

The format keeps names apart from records, so the file is decompressed into one buffer of at most
`LIMIT_BYTES` and decoded by typed structs that hold only what the event table needs: memory is the
decompressed file plus those structs. A file that is cut off cannot be used. Command line and
configuration (paths) are never decoded.

rocprofv3 has no record of memory sets: they run as kernels (`__amd_rocclr_fillBuffer...`). Times
are kept as recorded, since boot, because the file has no wall clock. Sections that a version does
not write stay empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from solscope.errors import DamagedFileError, LimitError
from solscope.events import EVENT_SCHEMA, GPU_KINDS, conform
from solscope.profile import Device, Metadata, Profile, ProfileWarning
from solscope.readers.base import MAX_DUR_NS, MAX_TIME_NS, Head, ReadOptions
from solscope.readers.source import TruncatedStream, stream

LIMIT_BYTES = 4 << 30
_GPU_AGENT = 2
_START = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"rocprofiler-sdk-tool"\s*:')
_CLONE = re.compile(r"(?: \[clone \.kd\]|\.kd)$")
_DIRECTIONS = {
    "HOST_TO_HOST": "Memcpy HtoH",
    "HOST_TO_DEVICE": "Memcpy HtoD",
    "DEVICE_TO_HOST": "Memcpy DtoH",
    "DEVICE_TO_DEVICE": "Memcpy DtoD",
}


class _Handle(msgspec.Struct, gc=False, frozen=True):
    handle: int = 0


class _Size(msgspec.Struct, gc=False, frozen=True):
    x: int = 1
    y: int = 1
    z: int = 1


class _Correlation(msgspec.Struct, gc=False, frozen=True):
    internal: int | None = None


class _Record(msgspec.Struct):
    """What all records share; also a host call or a marker."""

    start_timestamp: int
    end_timestamp: int
    kind: int = 0
    operation: int = 0
    thread_id: int | None = None
    correlation_id: _Correlation = _Correlation()


class _Dispatch(msgspec.Struct):
    agent_id: _Handle
    kernel_id: int
    queue_id: _Handle | None = None
    workgroup_size: _Size | None = None
    grid_size: _Size | None = None


class _Kernel(_Record, kw_only=True):
    dispatch_info: _Dispatch
    stream_id: _Handle | None = None


class _Copy(_Record, kw_only=True):
    dst_agent_id: _Handle = _Handle()
    src_agent_id: _Handle = _Handle()
    stream_id: _Handle | None = None
    bytes: int | None = None


class _Counted(msgspec.Struct, gc=False):
    """A record of which only the number is wanted."""


class _Buffers(msgspec.Struct):
    kernel_dispatch: list[_Kernel] = []
    kernel_dispatches: list[_Kernel] = []
    """The name of `kernel_dispatch` in early vintages."""
    memory_copy: list[_Copy] = []
    hip_api: list[_Record] = []
    hsa_api: list[_Record] = []
    rccl_api: list[_Record] = []
    marker_api: list[_Record] = []
    memory_allocation: list[_Counted] = []
    scratch_memory: list[_Counted] = []
    rocdecode_api: list[_Counted] = []
    rocjpeg_api: list[_Counted] = []
    pc_sample_host_trap: list[_Counted] = []
    pc_sample_stochastic: list[_Counted] = []


class _MemoryBank(msgspec.Struct):
    size_in_bytes: int = 0


class _Agent(msgspec.Struct):
    id: _Handle
    type: int
    name: str = ""
    product_name: str = ""
    cu_count: int = 0
    mem_banks: list[_MemoryBank] = []


class _Symbol(msgspec.Struct):
    kernel_id: int
    formatted_kernel_name: str = ""
    demangled_kernel_name: str = ""
    kernel_name: str = ""


class _Operations(msgspec.Struct):
    kind: str = ""
    operations: list[str] = []


class _Message(msgspec.Struct):
    key: int
    value: str


class _Strings(msgspec.Struct):
    buffer_records: list[_Operations] = []
    marker_api: list[_Message] = []


class _Node(msgspec.Struct):
    hostname: str | None = None


class _About(msgspec.Struct):
    pid: int | None = None
    node: _Node = msgspec.field(default_factory=_Node)


class _Process(msgspec.Struct):
    metadata: _About = msgspec.field(default_factory=_About)
    agents: list[_Agent] = []
    strings: _Strings = msgspec.field(default_factory=_Strings)
    kernel_symbols: list[_Symbol] = []
    buffer_records: _Buffers = msgspec.field(default_factory=_Buffers)


class _File(msgspec.Struct, rename={"processes": "rocprofiler-sdk-tool"}):
    processes: list[_Process] | _Process
    """A bare object in early vintages, a list since."""


class RocprofReader:
    """rocprofv3 JSON (`{"rocprofiler-sdk-tool": ...}`), of one or several processes.

    **Accepts**: complete files of at most 4 GiB decompressed. A truncated file cannot be read.
    Memory grows with the file.

    **Fills**: kernels with grid (in work-groups) and block, copies with bytes, HIP, HSA and RCCL
    calls as runtime, markers as annotations. Several processes become ranks 0, 1, .... Fills run as
    kernels in this format. Command line and configuration are never decoded. There is no wall
    clock.

    **Warnings**: `damaged_events`, `no_gpu_activity`.
    """

    name = "rocprof"
    summary = "rocprofv3 JSON results: kernels, copies, HIP, HSA and RCCL calls, markers"

    def sniff(self, head: Head) -> bool:
        """True when the file opens with rocprofv3's own key."""
        return _START.match(head.data) is not None

    def read(self, path: Path, options: ReadOptions) -> Profile:
        """Read all processes of the file; several are distinguished by `rank`."""
        processes = _decode(path, options)
        several = len(processes) > 1
        tables = [
            _events(process, rank if several else None) for rank, process in enumerate(processes)
        ]
        events = conform(pl.concat(tables), EVENT_SCHEMA)
        good = events.filter(
            pl.col("start_ns").is_between(0, MAX_TIME_NS)
            & pl.col("dur_ns").is_between(0, MAX_DUR_NS)
        )
        hosts = {process.metadata.node.hostname for process in processes}
        return Profile(
            path=str(path),
            format=self.name,
            metadata=Metadata(
                events_in_file=sum(_count(process.buffer_records) for process in processes),
                devices=_devices(processes, set(good["device"])),
                host=hosts.pop() if len(hosts) == 1 else None,
            ),
            events=good,
            warnings=tuple(_warnings(events.height - good.height, good)),
        )


READER = RocprofReader()


def _decode(path: Path, options: ReadOptions) -> list[_Process]:
    try:
        decoded = msgspec.json.decode(_load(path, options), type=_File, strict=False).processes
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TruncatedStream) as error:
        raise DamagedFileError(
            f"{path}: damaged or truncated rocprofv3 JSON ({error}); record or copy it again"
        ) from error
    processes = decoded if isinstance(decoded, list) else [decoded]
    if not processes:
        raise DamagedFileError(f"{path}: rocprofv3 JSON without any process; record it again")
    return processes


def _load(path: Path, options: ReadOptions) -> bytearray:
    data = bytearray()
    for piece in stream(path, options):
        data += piece
        if len(data) > LIMIT_BYTES:
            raise LimitError(
                f"{path}: larger than {LIMIT_BYTES >> 30} GiB when decompressed, too large for "
                "rocprofv3 JSON; record a shorter run"
            )
    if data.startswith(b"\xef\xbb\xbf"):
        del data[:3]
    return data


def _count(buffers: _Buffers) -> int:
    return sum(len(getattr(buffers, section)) for section in buffers.__struct_fields__)


def _gpus(process: _Process) -> list[_Agent]:
    return [agent for agent in process.agents if agent.type == _GPU_AGENT]


def _sensible(number: int | None) -> int | None:
    """`number` unless it is nothing, or more than anything could have."""
    return number if number and 0 < number < 1 << 50 else None


def _devices(processes: list[_Process], active: set[int | None]) -> tuple[Device, ...]:
    """The GPUs that did something."""
    # Processes of one file ran on one host and list the same agents.
    gpus = max(map(_gpus, processes), key=len)
    return tuple(
        Device(
            ordinal=ordinal,
            name=gpu.product_name or None,
            vendor="amd",
            arch=gpu.name or None,
            compute_units=gpu.cu_count or None,
            memory_bytes=_sensible(sum(bank.size_in_bytes for bank in gpu.mem_banks)),
        )
        for ordinal, gpu in enumerate(gpus)
        if ordinal in active
    )


def _events(process: _Process, rank: int | None) -> pl.DataFrame:
    buffers = process.buffer_records
    ordinals = {gpu.id.handle: ordinal for ordinal, gpu in enumerate(_gpus(process))}
    operations = [kind.operations for kind in process.strings.buffer_records]
    parts = [
        _kernels([*buffers.kernel_dispatch, *buffers.kernel_dispatches], process, ordinals),
        _copies(buffers.memory_copy, operations, ordinals),
    ]
    parts += [
        _host("runtime", calls, [_operation(call, operations) for call in calls])
        for calls in (buffers.hip_api, buffers.hsa_api, buffers.rccl_api)
    ]
    messages = {message.key: message.value for message in process.strings.marker_api}
    texts = [
        messages.get(mark.correlation_id.internal or 0) or _operation(mark, operations)
        for mark in buffers.marker_api
    ]
    parts.append(_host("annotation", buffers.marker_api, texts))
    return pl.concat(parts, how="diagonal").with_columns(
        pl.lit(rank, dtype=pl.Int32).alias("rank"),
        pl.lit(_sensible(process.metadata.pid), dtype=pl.Int64).alias("pid"),
    )


def _table(
    kind: str, records: Iterable[_Record], columns: dict[str, Iterable[Any]]
) -> pl.DataFrame:
    """Records as rows; a number that does not fit its column becomes null."""
    records = list(records)
    facts: dict[str, Iterable[Any]] = {
        "kind": [kind] * len(records),
        "start_ns": [record.start_timestamp for record in records],
        "dur_ns": [record.end_timestamp - record.start_timestamp for record in records],
        "tid": [record.thread_id for record in records],
        "correlation": [record.correlation_id.internal for record in records],
        **columns,
    }
    return pl.DataFrame(
        [pl.Series(name, facts[name], EVENT_SCHEMA[name], strict=False) for name in facts]
    )


def _kernels(kernels: list[_Kernel], process: _Process, ordinals: dict[int, int]) -> pl.DataFrame:
    names = {symbol.kernel_id: _kernel_name(symbol) for symbol in process.kernel_symbols}
    infos = [kernel.dispatch_info for kernel in kernels]
    return _table(
        "kernel",
        kernels,
        {
            "name": [names.get(info.kernel_id) or None for info in infos],
            "device": [ordinals.get(info.agent_id.handle) for info in infos],
            "stream": [_stream(kernel.stream_id, kernel.dispatch_info) for kernel in kernels],
            "grid": [_extent(info.grid_size, info.workgroup_size) for info in infos],
            "block": [_extent(info.workgroup_size, _Size()) for info in infos],
        },
    )


def _copies(
    copies: list[_Copy], operations: list[list[str]], ordinals: dict[int, int]
) -> pl.DataFrame:
    return _table(
        "memcpy",
        copies,
        {
            "name": [_direction(_operation(copy, operations)) for copy in copies],
            "device": [_copy_device(copy, ordinals) for copy in copies],
            "stream": [copy.stream_id.handle if copy.stream_id else None for copy in copies],
            "bytes": [copy.bytes for copy in copies],
        },
    )


def _host(kind: str, records: list[_Record], names: list[str | None]) -> pl.DataFrame:
    return _table(kind, records, {"name": names})


def _kernel_name(symbol: _Symbol) -> str:
    name = symbol.formatted_kernel_name or symbol.demangled_kernel_name or symbol.kernel_name
    return _CLONE.sub("", name)


def _operation(record: _Record, operations: list[list[str]]) -> str | None:
    if not 0 <= record.kind < len(operations):
        return None
    names = operations[record.kind]
    return names[record.operation] if 0 <= record.operation < len(names) else None


def _direction(operation: str | None) -> str:
    return _DIRECTIONS.get((operation or "").removeprefix("MEMORY_COPY_"), "Memcpy")


def _copy_device(copy: _Copy, ordinals: dict[int, int]) -> int | None:
    # A copy between two GPUs counts on the one that receives it.
    return ordinals.get(copy.dst_agent_id.handle, ordinals.get(copy.src_agent_id.handle))


def _stream(stream_id: _Handle | None, info: _Dispatch) -> int | None:
    handle = stream_id or info.queue_id
    return handle.handle if handle else None


def _extent(size: _Size | None, unit: _Size | None) -> str | None:
    """`size` in units of `unit`, rounded up: rocprof's grid counts work-items, ours work-groups."""
    if size is None or unit is None or min(unit.x, unit.y, unit.z) < 1:
        return None
    return f"{-(-size.x // unit.x)},{-(-size.y // unit.y)},{-(-size.z // unit.z)}"


def _warnings(damaged: int, events: pl.DataFrame) -> Iterator[ProfileWarning]:
    if damaged:
        text = f"{damaged} records with impossible times were skipped and are not in the totals"
        yield ProfileWarning("damaged_events", text)
    if events.filter(pl.col("kind").is_in(GPU_KINDS)).is_empty():
        text = "no kernel or copy is recorded; record with --kernel-trace --memory-copy-trace"
        yield ProfileWarning("no_gpu_activity", text)
