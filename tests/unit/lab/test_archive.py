from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from solscope.errors import DamagedFileError, InputError
from solscope.lab import archive

TRACE = b"""{
  "traceEvents": [
  {
    "ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2,
    "args": {
      "correlation": 7, "Ev Idx": 12
    }
  },
  {
    "ph": "s", "id": 7, "pid": 1, "tid": 1, "ts": 1.5,
    "cat": "ac2g", "name": "ac2g"
  },
  {
    "ph": "f", "id": 7, "pid": 0, "tid": 7, "ts": 1.6,
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  },
  {
    "ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 3, "dur": 1
  }
  ]
}
"""


def test_a_slim_trace_has_all_but_arrows_and_numbers() -> None:
    events = json.loads(archive.slim(TRACE))["traceEvents"]
    assert [event["name"] for event in events] == ["k", "aten::mm"]
    assert events[0]["args"] == {"correlation": 7}


def files(folder: Path) -> list[Path]:
    raw = folder / "raw"
    raw.mkdir()
    (raw / "a.trace.json").write_bytes(TRACE)
    (raw / "a.metrics.csv").write_text("t_ns,metric,device,value\n1,x,Host,2\n")
    return sorted(raw.iterdir())


def test_packing_and_unpacking(tmp_path: Path) -> None:
    assert [part.name for part in archive.pack(files(tmp_path), tmp_path)] == ["part-000.tar"]
    names = [path.name for path in archive.unpack(tmp_path)]
    assert names == ["a.metrics.csv", "a.trace.json.gz"]
    assert gzip.decompress((tmp_path / "a.trace.json.gz").read_bytes()) == archive.slim(TRACE)
    assert (tmp_path / "a.metrics.csv").read_text().endswith("1,x,Host,2\n")


def test_compressing_keeps_traces_whole(tmp_path: Path) -> None:
    archive.compress(files(tmp_path), tmp_path)
    assert gzip.decompress((tmp_path / "a.trace.json.gz").read_bytes()) == TRACE
    assert (tmp_path / "a.metrics.csv").exists()


def test_no_part_is_larger_than_may_be_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import random

    monkeypatch.setattr(archive, "PART_BYTES", 64 << 10)
    raw = []
    for number in range(8):
        raw.append(tmp_path / f"{number}.bin")
        raw[-1].write_bytes(random.Random(number).randbytes(20 << 10))
    parts = archive.pack(raw, tmp_path)
    assert len(parts) == 4
    assert all(part.stat().st_size <= 64 << 10 for part in parts)
    assert len(archive.unpack(tmp_path)) == 8


def test_only_what_does_not_fit_is_compressed_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "PART_BYTES", 1000)
    monkeypatch.setattr(archive, "MAX_PARTS", 2)
    assert archive._too_large([100] * 10) == []
    # 1740 bytes, room for 2 x (1000 - 240): 220 too many; 2 x 18 and 13 x 15 bytes are saved.
    assert archive._too_large([100] * 15 + [120] * 2) == [15, 16, *range(13)]
    assert archive._too_large([]) == []


def test_a_folder_without_parts_and_a_damaged_part_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no part-\*\.tar in it"):
        archive.unpack(tmp_path)
    (part,) = archive.pack(files(tmp_path), tmp_path)
    whole = part.read_bytes()
    for data in (b"no archive", whole[:700], whole[:520] + b"x" * 40 + whole[560:]):
        part.write_bytes(data)
        with pytest.raises(DamagedFileError, match=r"part-000\.tar"):
            archive.unpack(tmp_path)
