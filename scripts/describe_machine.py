"""Print where tests run: machine, architecture, cores, memory and versions. Needs no package."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

PACKAGES = ("solscope", "torch", "polars", "numpy", "deltalake", "ray", "pytest")


def main() -> None:
    """Print a line per fact."""
    for name, value in (
        ("machine", processor()),
        ("system", f"{platform.system()} {platform.release()}, {platform.machine()}"),
        ("cores", f"{usable_cores()} of {os.cpu_count()}, load {load()}"),
        ("memory", memory()),
        ("python", platform.python_version()),
        ("commit", commit()),
        *((name, version(name)) for name in PACKAGES),
    ):
        print(f"{name:10} {value}")


def processor() -> str:
    """The processor's name; Arm has none in /proc/cpuinfo, so `lscpu` is asked there."""
    for command, key in ((["cat", "/proc/cpuinfo"], "model name"), (["lscpu"], "Model name")):
        lines = output(*command).splitlines()
        names = [
            value.strip()
            for line in lines
            for k, _, value in [line.partition(":")]
            if k.strip() == key
        ]
        if names:
            return names[0]
    return platform.processor() or "not known"


def usable_cores() -> int:
    """Cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def load() -> str:
    """How many processes wanted to run in the last minute."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "not known"


def memory() -> str:
    """All memory of the machine."""
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return "not known"
    return f"{size / 2**30:.1f} GiB"


def commit() -> str:
    """The commit of the checkout, and whether files differ from it."""
    found = output("git", "rev-parse", "--short", "HEAD").strip()
    changed = output("git", "status", "--porcelain", "--untracked-files=no").strip()
    return (f"{found}, with changes" if changed else found) or "not known"


def version(name: str) -> str:
    """The installed version of a package."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def output(*command: str) -> str:
    """What a command prints; nothing when it cannot be run."""
    here = Path(__file__).parents[1]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=here).stdout
    except OSError:
        return ""


if __name__ == "__main__":
    main()
