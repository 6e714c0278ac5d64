"""The plug-ins as solscope finds them: through their entry points."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest

import solscope
from solscope.diagnose.causes.base import Cause
from solscope.errors import DamagedFileError

TEXT = "ACME1\n100 50 acme_matmul_bf16_128x128\n200 25 acme_secret\n"


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A small recording."""
    path = tmp_path / "run.acme"
    path.write_text(TEXT)
    return path


def test_profile_is_recognized_and_read(recording: Path) -> None:
    profile = solscope.open(recording)
    assert profile.format == "acme"
    assert profile.events["dur_ns"].to_list() == [50, 25]
    assert profile.warnings == ()


def test_damaged_lines_are_counted(recording: Path) -> None:
    recording.write_text(f"{TEXT}not a kernel\n")
    assert [warning.code for warning in solscope.open(recording).warnings] == ["damaged_rows"]


def test_nothing_usable_is_an_error(recording: Path) -> None:
    recording.write_text("ACME1\n\x00\n")
    with pytest.raises(DamagedFileError, match="no kernel can be read"):
        solscope.open(recording)


def test_rules_name_our_kernels(recording: Path) -> None:
    rules = solscope.load_rules([Path("acme")])
    made = solscope.attribute(solscope.open(recording), rules)
    assert made.activities["category"].to_list() == ["gemm", "other"]


def test_cause_is_one() -> None:
    (point,) = entry_points(group="solscope.causes", name="acme_license")
    assert isinstance(point.load(), Cause)
