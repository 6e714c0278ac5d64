"""What this installation and this machine can do, for `solscope doctor`."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from importlib import metadata
from importlib.util import find_spec

import msgspec

from solscope._version import __version__
from solscope.cache.report import cache_info
from solscope.capture.sensors import find_sensors
from solscope.errors import SolscopeError
from solscope.readers import other_readers, readers
from solscope.readers.kineto_core import core_name, native_scanner

PACKAGES = ("polars", "numpy", "msgspec", "click", "rich", "zlib-ng", "zstandard", "cxxfilt")
TOOLS = {
    "nsys": "exports .nsys-rep files",
    "nvidia-smi": "describes NVIDIA GPUs",
    "amd-smi": "describes AMD GPUs",
}
EXTRAS = {
    "bench": ("torch", "`solscope bench` and `solscope hardware measure`"),
    "corpus": ("deltalake", "`solscope corpus`"),
    "ray": ("ray", "`solscope corpus add --engine ray`"),
    "web": ("starlette", "`solscope serve`"),
}
"""Optional features: the package each needs, and what it is for."""


class Capability(msgspec.Struct, frozen=True):
    """Something that this installation can use, or cannot, and why."""

    name: str
    ok: bool
    detail: str


class Environment(msgspec.Struct, frozen=True):
    """What this installation and this machine can do."""

    version: str
    python: str
    platform: str
    reader_core: str
    """`native` or `python`."""
    reader_core_why: str
    readers: list[Capability]
    packages: list[Capability]
    extras: list[Capability]
    tools: list[Capability]
    sensors: list[Capability]
    gpus: list[str]
    cache: Capability
    """Whether profiles that were read are cached, and where."""


def examine() -> Environment:
    """Look at this installation and this machine."""
    return Environment(
        version=__version__,
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        reader_core=_core(),
        reader_core_why=_why_core(),
        readers=[
            *(Capability(reader.name, True, reader.summary) for reader in readers()),
            *(
                Capability(failure.reader, False, failure.reason)
                for failure in other_readers().failed
            ),
        ],
        packages=[_package(name) for name in PACKAGES],
        extras=[_extra(name) for name in EXTRAS],
        tools=[
            Capability(name, shutil.which(name) is not None, use) for name, use in TOOLS.items()
        ],
        sensors=_sensors(),
        gpus=_gpus(),
        cache=_cache(),
    )


def _core() -> str:
    try:
        return core_name()
    except SolscopeError:
        return "none"


def _why_core() -> str:
    try:
        core_name()
    except SolscopeError as error:
        return str(error)
    if native_scanner() is None:
        return "not built; install a C++ compiler and reinstall solscope to read traces faster"
    return "chosen by SOLSCOPE_CORE" if core_name() == "python" else "built"


def _package(name: str) -> Capability:
    try:
        return Capability(name, True, metadata.version(name))
    except metadata.PackageNotFoundError:
        return Capability(name, False, f"missing; pip install {name}")


def _extra(name: str) -> Capability:
    package, use = EXTRAS[name]
    if find_spec(package) is not None:
        return Capability(name, True, f"{package} is installed; for {use}")
    return Capability(name, False, f"pip install 'solscope[{name}]' ({package}); for {use}")


def _sensors() -> list[Capability]:
    """What `solscope capture` could read here, of this process and this machine."""
    sensors = find_sensors(os.getpid())
    present = [
        Capability(sensor.name, True, ", ".join(sensor.metrics)) for sensor in sensors.present
    ]
    return present + [Capability(sensor.name, False, sensor.reason) for sensor in sensors.missing]


def _cache() -> Capability:
    cache = cache_info()
    if not cache.on:
        return Capability("cache", False, f"profiles are not cached: {cache.reason}")
    return Capability("cache", True, f"{cache.folder}, {cache.bytes / 2**20:.1f} MiB")


def _gpus() -> list[str]:
    """GPUs as the driver's own tool names them; an absent or failing tool means none is known."""
    gpus = []
    for command in (
        ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"],
        ["amd-smi", "static", "--asic", "--csv"],
    ):
        program = shutil.which(command[0])
        if program is None:
            continue
        try:
            done = subprocess.run(
                [program, *command[1:]], capture_output=True, text=True, timeout=20, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            gpus += [line.strip() for line in done.stdout.splitlines() if line.strip()]
    return gpus
