"""What an installed solscope must have beside its modules."""

from __future__ import annotations

import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
BUILT = {".py", ".pyc", ".so"}


def test_every_data_file_goes_into_the_wheel() -> None:
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    package = ROOT / "src" / "solscope"
    patterns = setup["tool"]["setuptools"]["package-data"]["solscope"]
    taken = {path for pattern in patterns for path in package.glob(pattern)}
    files = {
        path
        for path in package.rglob("*")
        if path.is_file() and path.suffix not in BUILT and "__pycache__" not in path.parts
    }
    assert len(files) > 20
    assert sorted(str(path.relative_to(package)) for path in files - taken) == []
