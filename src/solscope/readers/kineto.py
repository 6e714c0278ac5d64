"""PyTorch/Kineto Chrome traces, as torch.profiler, vLLM and SGLang write them.

Old and new vintages: microsecond integers or nanosecond fractions, `Kernel` or `kernel`, CUDA or
HIP, a `traceEvents` member or a bare array, one rank or several merged into one file. Flow arrows
(`ac2g`), instant events and viewer metadata carry nothing that correlation ids do not, and are
counted but not kept.

The data libraries are imported when the file is already being scanned.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from solscope.readers.base import Head, ReadOptions
from solscope.readers.kineto_scanning import Scan

if TYPE_CHECKING:
    from solscope.profile import Profile


class KinetoReader:
    """PyTorch profiler (Kineto) Chrome traces, from `torch.profiler`, vLLM, SGLang and others.

    **Accepts**: a JSON object with `traceEvents`, or a bare array of events; plain, gzip, zstd or
    xz.
    Old and new versions: microsecond integers or nanosecond fractions, `Kernel` or `kernel`, CUDA
    or HIP. Broken JSON inside events: control characters, invalid UTF-8, `inf` and `nan`, numbers
    in quotes. Truncated files. Several ranks merged into one file.

    **Fills**: every column of the event table that the trace records. Flow arrows, instant events
    and viewer metadata are counted in `events_in_file` and not kept. On ROCm, copies and fills that
    are filed as kernels (`CopyHostToDevice`, `FillBuffer`) become memcpy and memset. The message
    sizes that NCCL kernels record (`In msg nelems`, `dtype`, `Group size`, sizes of parts) become
    their inputs if none are recorded. Metadata: devices, framework (guessed from names), versions,
    rank and world size (`distributedInfo`, else the file name), stage (`-DECODE`, `-EXTEND` in the
    file name), wall clock.

    **Streams**: memory grows with the table, not with the file. Two scanners give the same columns:
    a native one and a pure-Python one; `solscope doctor` says which is in use.

    **Warnings**: `truncated`, `damaged_events`, `missing_duration`, `negative_duration`,
    `absurd_number`, `unknown_category`.
    """

    name = "kineto"
    summary = "PyTorch profiler (Kineto) traces: .json, .json.gz, .json.zst, .json.xz"

    def sniff(self, head: Head) -> bool:
        text = head.data.removeprefix(b"\xef\xbb\xbf").lstrip()
        if text[:1] == b"[":
            return re.match(rb"\[\s*(\{\s*\"|\]|$)", text) is not None
        if text[:1] != b"{" or b'"rocprofiler-sdk-tool"' in text[:4096]:
            return False
        keys = (b'"traceEvents"', b'"schemaVersion"', b'"deviceProperties"', b'"displayTimeUnit"')
        return any(key in text for key in keys)

    def start(self, path: Path, options: ReadOptions) -> KinetoReading:
        return KinetoReading(path, options)

    def read(self, path: Path, options: ReadOptions) -> Profile:
        return self.start(path, options).finish()


class KinetoReading:
    """A trace that is being read."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self._path = path
        self._scan = Scan(path, options)

    def finish(self) -> Profile:
        from solscope.readers.kineto_profile import profile_of

        try:
            return profile_of(self._path, self._scan)
        finally:
            self.stop()

    def stop(self) -> None:
        self._scan.stop()


READER = KinetoReader()
