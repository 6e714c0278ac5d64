"""The version of the code that an entry was made by: a change of that code makes a new version.

Taken from size and modification time of its files, as Python itself decides whether bytecode is
stale, and not from their content: that costs ten times as much, in every command.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from solscope._version import __version__
from solscope.cache.digest import blake2b

PACKAGE = Path(__file__).resolve().parents[1]
PARTS = ("_native", "attribution", "cache", "hardware", "operators", "readers")
"""Packages that reading and attribution may use, besides the modules of `solscope` itself."""
_OF_POLARS, _ABOUT = "polars-", ".dist-info"


@cache
def code_version() -> str:
    """Changes when reading or attribution may give another result."""
    files = package_files(PACKAGE, deep=False)
    for package in PARTS:
        files += package_files(PACKAGE / package, deep=True)
    # The scanner must not change a result, but a comparison of the two has to run both.
    return _version_of(files)


@cache
def program_version() -> str:
    """Changes when anything in the package does: for what views and pages make of a profile."""
    return _version_of(package_files(PACKAGE, deep=True))


def _version_of(files: list[tuple[str, int, int]]) -> str:
    about = (__version__, _polars_version(), sys.version_info[:2], os.environ.get("SOLSCOPE_CORE"))
    return blake2b(repr((about, sorted(files))).encode(), digest_size=16).hexdigest()


def _polars_version() -> str:
    """The same with and without Polars imported: an answer from the cache may not need it."""
    if "polars" in sys.modules:
        return str(sys.modules["polars"].__version__)
    # A folder beside the package is named after its version; `importlib.metadata` asks the same,
    # and its import takes fifty times as long.
    package = find_spec("polars")
    if package is not None and package.origin is not None:
        found = [*Path(package.origin).parents[1].glob(f"{_OF_POLARS}*{_ABOUT}")]
        if len(found) == 1:
            return found[0].name.removeprefix(_OF_POLARS).removesuffix(_ABOUT)
    from importlib.metadata import version

    return version("polars")


def package_files(folder: Path, *, deep: bool) -> list[tuple[str, int, int]]:
    """Path, size and date of files; what Python and the program keep in `__pycache__` is none."""
    files: list[tuple[str, int, int]] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file():
                stat = entry.stat()
                files.append((entry.path, stat.st_size, stat.st_mtime_ns))
            elif deep and entry.name != "__pycache__":
                files += package_files(Path(entry.path), deep=True)
    return files
