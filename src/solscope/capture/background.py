"""The sampler in a separate process, so that it does not slow the one it watches."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

from solscope.errors import SolscopeError

START_S = 20.0
"""Seconds in which the sampling process must have started."""
_SOURCE = str(Path(__file__).parents[2])


class BackgroundSampler:
    """Samples process `pid` into `path` from the moment it is made until `close`."""

    def __init__(
        self,
        pid: int,
        path: Path,
        period_ms: float,
        cores: set[int] | None = None,
        spin: bool = False,
    ) -> None:
        command = [sys.executable, "-m", "solscope.capture.sampler", "--pid", str(pid)]
        command += ["--period-ms", str(period_ms), "-o", str(path), *(["--spin"] if spin else [])]
        paths = [_SOURCE, *filter(None, [os.environ.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            # Not in the terminal's group: Ctrl-C is for the process watched.
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        self.pid = self._process.pid
        if cores is not None:
            os.sched_setaffinity(self.pid, cores)
        self.missing = self._until_ready()
        """Sensors that are not there, a line each."""

    def close(self) -> None:
        """End it; the file is complete then."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _until_ready(self) -> list[str]:
        assert self._process.stdout is not None
        lines: list[str] = []
        deadline = time.monotonic() + START_S
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([self._process.stdout], [], [], left)[0]:
                break
            line = self._process.stdout.readline().decode()
            if line == "ready\n":
                return lines
            if not line:
                break
            lines.append(line.removeprefix("missing: ").strip())
        self.close()
        raise SolscopeError("the sampler did not start; try `solscope capture --list`")
