"""Triton for tests, which is not installed beside torch: torch would take it for a compiler."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def triton() -> Path:
    """The folder with Triton; SOLSCOPE_TRITON names another one."""
    if named := os.environ.get("SOLSCOPE_TRITON"):
        return Path(named)
    own = ROOT / ".venv-triton"
    if not (own / ".installed").is_file():
        pytest.skip("no Triton: run `make triton`")
    return own
