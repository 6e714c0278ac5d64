"""A local S3 server (moto) in a process and a virtual environment of its own.

Its dependencies contradict those of solscope, so that it cannot be installed beside it. `make s3`
installs it into `.venv-s3`; SOLSCOPE_S3_PYTHON names another interpreter that has it.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
START_S = 120.0
"""Longest wait for the server on a busy machine."""
_ADDRESS = re.compile(r"Running on (http://\S+)")


class NoServerError(RuntimeError):
    """The server is not installed, or does not start."""


def server_python() -> Path:
    """The interpreter that has moto."""
    if named := os.environ.get("SOLSCOPE_S3_PYTHON"):
        return Path(named)
    own = ROOT / ".venv-s3"
    if not (own / ".installed").is_file():  # Also where the interpreter is there, but not moto.
        raise NoServerError("no S3 server: run `make s3`")
    return own / "bin" / "python"


@contextmanager
def s3_server(folder: Path, *, read_directly: bool = False) -> Iterator[str]:
    """The address of a server that runs as long as the context; its output goes to `folder`.

    With `read_directly` it takes less time to read objects, and asks for no account to do so.
    """
    output = folder / "s3-server.log"
    command = [str(server_python()), "-I", str(ROOT / "tests" / "s3_serve.py")]
    command += ["--read-directly"] if read_directly else []
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with output.open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=plain)
    try:
        yield _address(process, output)
    finally:
        process.terminate()
        process.wait()


def _address(process: subprocess.Popen[bytes], output: Path) -> str:
    """Where the server listens, once it says so."""
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        if found := _ADDRESS.search(output.read_text()):
            return found[1]
        time.sleep(0.05)
    raise NoServerError(f"the S3 server did not start: {output.read_text()[-500:]}")


def settings(address: str) -> dict[str, str]:
    """Environment variables with which solscope finds it."""
    return {
        "AWS_ENDPOINT_URL": address,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }


def create_bucket(address: str, name: str) -> None:
    """Make a bucket; one that exists stays as it is."""
    asked = urllib.request.Request(f"{address}/{name}", method="PUT")
    with urllib.request.urlopen(asked, timeout=60):
        pass


def require_accounts(address: str, *, required: bool) -> None:
    """Whether the server refuses keys that it does not know."""
    calls_without = b"0" if required else b"inf"
    asked = urllib.request.Request(
        f"{address}/moto-api/reset-auth", calls_without, {"Content-Type": "text/plain"}
    )
    with urllib.request.urlopen(asked, timeout=60):
        pass
