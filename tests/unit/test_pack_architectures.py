"""Packed recordings read as those they were made from."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from polars.testing import assert_frame_equal

import solscope

ROOT = Path(__file__).parents[2]
TRACE = ROOT / "tests" / "data" / "kineto_b200.json.gz"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import architecture_truth  # type: ignore[import-not-found]
    import pack_architectures  # type: ignore[import-not-found]

    yield SimpleNamespace(pack=pack_architectures.pack, truth=architecture_truth)
    for name in ("pack_architectures", "architecture_truth"):
        sys.modules.pop(name, None)


def test_a_packed_recording_reads_the_same(scripts: SimpleNamespace, tmp_path: Path) -> None:
    packed = scripts.pack(TRACE, tmp_path)
    assert packed.name == "kineto_b200.json.zst"
    assert packed.stat().st_size < 0.8 * TRACE.stat().st_size
    before, after = (solscope.attribute(solscope.open(path)) for path in (TRACE, packed))
    assert_frame_equal(before.activities, after.activities)


def test_recordings_are_found_packed_or_not(scripts: SimpleNamespace, tmp_path: Path) -> None:
    small = gzip.compress(b'{"traceEvents": []}')
    for name in ("one.stack.json.gz", "one.twin.json.gz", "two.stack.json.gz"):
        (tmp_path / name).write_bytes(small)
    scripts.pack(tmp_path / "two.stack.json.gz", tmp_path)
    assert scripts.truth.names_in(tmp_path) == ["one", "two"]
    assert scripts.truth.recording_of(tmp_path, "one", "graph") is None
    for name, end in (("one", "gz"), ("two", "zst")):
        file = scripts.truth.recording_of(tmp_path, name, "stack")
        assert file == tmp_path / f"{name}.stack.json.{end}"
        assert scripts.truth.load(file) == {"traceEvents": []}
