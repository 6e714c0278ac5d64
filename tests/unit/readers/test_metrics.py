from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from solscope.errors import DamagedFileError
from solscope.events import EVENT_SCHEMA, conform
from solscope.profile import Metadata, Profile
from solscope.readers.base import Head, ReadOptions
from solscope.readers.metrics import READER, attach_metrics
from solscope.readers.source import read_head

RUNS = Path(__file__).parents[4] / "shared/data/h200/runs"

HEADER = "t_ns,metric,device,value\n"
GOOD = "1000,oncpu_ns,Host,5\n2000,gpu_usage,GPU 1,97.5\n"
GOOD_ROWS = [(1000, "oncpu_ns", None, 5.0), (2000, "gpu_usage", 1, 97.5)]


def read(tmp_path: Path, text: str | bytes) -> Profile:
    path = tmp_path / "x.metrics.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return READER.read(path, ReadOptions())


def rows(profile: Profile) -> list[tuple[int, str, int | None, float]]:
    assert profile.metrics is not None
    return profile.metrics.rows()


def codes(profile: Profile) -> list[str]:
    return [warning.code for warning in profile.warnings]


def trace(unix_offset_ns: int | None) -> Profile:
    """One kernel from 100 to 150 ns."""
    kernel = pl.DataFrame({"kind": ["kernel"], "name": ["f"], "start_ns": [100], "dur_ns": [50]})
    return Profile(
        path="x",
        format="kineto",
        metadata=Metadata(unix_offset_ns=unix_offset_ns),
        events=conform(kernel, EVENT_SCHEMA),
    )


def test_csv(tmp_path: Path) -> None:
    profile = read(tmp_path, HEADER + GOOD)
    assert rows(profile) == GOOD_ROWS
    assert profile.events.is_empty()
    assert codes(profile) == ["metrics_only"]


@pytest.mark.parametrize(
    ("cell", "device"),
    [("Host", None), ("", None), ("host", None), ("GPU 3", 3), ("3", 3), ('"GPU 3"', 3)],
)
def test_device_cell(tmp_path: Path, cell: str, device: int | None) -> None:
    assert rows(read(tmp_path, f"{HEADER}1,m,{cell},2\n")) == [(1, "m", device, 2.0)]


def test_bom_and_crlf(tmp_path: Path) -> None:
    assert rows(read(tmp_path, ("\ufeff" + HEADER + GOOD).replace("\n", "\r\n"))) == GOOD_ROWS


def test_large_value_is_kept(tmp_path: Path) -> None:
    assert rows(read(tmp_path, HEADER + "1,m,Host,1e50\n")) == [(1, "m", None, 1e50)]


@pytest.mark.parametrize(
    "bad",
    [
        "x,m,Host,5",
        "1,m,Host,five",
        "1,m,Host,NaN",
        "1,m,Host,inf",
        "1,m,Host,1e110",
        "1,m,Host,-1e300",
        "1,m,Host,",
        "1,m",
        "1,m,Host,5,6",
        "1,,Host,5",
        "1,m,TPU,5",
        "1e300,m,Host,5",
        "99999999999999999999,m,Host,5",
        "-1,m,Host,5",
        '1,"m,Host,5,',
    ],
)
def test_damaged_row_is_skipped_and_counted(tmp_path: Path, bad: str) -> None:
    profile = read(tmp_path, f"{HEADER}{bad}\n{GOOD}")
    assert rows(profile) == GOOD_ROWS
    assert codes(profile) == ["metrics_only", "damaged_rows"]
    assert profile.warnings[1].message.startswith("1 of 3 metrics rows")
    assert profile.metadata.events_in_file == 3


def test_undecodable_bytes_are_replaced(tmp_path: Path) -> None:
    assert rows(read(tmp_path, HEADER.encode() + b"1,m\xff,Host,5\n")) == [
        (1, "m\ufffd", None, 5.0)
    ]


@pytest.mark.parametrize("text", [HEADER, HEADER + "x,y,z,w\n", "something,else\n1,2\n"])
def test_file_without_samples_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(DamagedFileError):
        read(tmp_path, text)


def test_parquet_opens_like_csv(tmp_path: Path) -> None:
    path = tmp_path / "x.metrics.parquet"
    metrics = read(tmp_path, HEADER + GOOD).metrics
    assert metrics is not None
    metrics.write_parquet(path)
    assert READER.sniff(read_head(path))
    assert rows(READER.read(path, ReadOptions())) == GOOD_ROWS


def test_other_parquet_is_not_claimed(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pl.DataFrame({"a": [1]}).write_parquet(path)
    assert not READER.sniff(read_head(path))


def test_damaged_parquet_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.metrics.parquet"
    path.write_bytes(b"PAR1 and nothing more")
    with pytest.raises(DamagedFileError, match="Parquet"):
        READER.read(path, ReadOptions())


@pytest.mark.parametrize(
    ("data", "claimed"),
    [
        (b"t_ns,metric,device,value\n1,m,Host,5\n", True),
        (b'\xef\xbb\xbf"t_ns","metric","device","value"\r\n', True),
        (b"t_ns,metric,device,value,more\n", False),
        (b"cycle,pid,beta_pct,function_name\n", False),
        (b"Time (%),Total Time (ns),Instances,Name\n", False),
        (b'{"t_ns": 1}', False),
    ],
)
def test_sniff(data: bytes, claimed: bool) -> None:
    assert READER.sniff(Head(Path("x"), data)) is claimed


@pytest.mark.parametrize(
    "name",
    ["x.json", "x.json.gz", "x.trace.json", "x.trace.json.zst", "x.pt.trace.json.gz", "x.sqlite"],
)
def test_attach_finds_the_file_beside_the_trace(tmp_path: Path, name: str) -> None:
    (tmp_path / "x.metrics.csv").write_text(HEADER + GOOD)
    profile = attach_metrics(trace(unix_offset_ns=900), tmp_path / name)
    assert rows(profile) == GOOD_ROWS
    assert profile.warnings == ()


def test_attach_without_a_file_changes_nothing(tmp_path: Path) -> None:
    profile = trace(unix_offset_ns=0)
    assert attach_metrics(profile, tmp_path / "x.trace.json") is profile


def test_attach_keeps_metrics_that_are_there(tmp_path: Path) -> None:
    profile = read(tmp_path, HEADER + GOOD)
    (tmp_path / "x.metrics.csv").write_text(HEADER + "1,m,Host,2\n")
    assert attach_metrics(profile, tmp_path / "x.json") is profile


@pytest.mark.parametrize(
    ("unix_offset_ns", "code"), [(5000, "metrics_outside"), (None, "metrics_unaligned")]
)
def test_attach_keeps_samples_it_cannot_place_and_says_so(
    tmp_path: Path, unix_offset_ns: int | None, code: str
) -> None:
    (tmp_path / "x.metrics.csv").write_text(HEADER + GOOD)
    profile = attach_metrics(trace(unix_offset_ns), tmp_path / "x.trace.json.gz")
    assert rows(profile) == GOOD_ROWS
    assert codes(profile) == [code]


@pytest.mark.parametrize("data", [b"", b"garbage", b"PAR1garbage", HEADER.encode() + b"a,b,c,d\n"])
def test_damaged_metrics_file_does_not_spoil_the_trace(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.metrics.csv").write_bytes(data)
    profile = attach_metrics(trace(unix_offset_ns=900), tmp_path / "x.json")
    assert profile.metrics is None
    assert profile.events.height == 1
    assert codes(profile) == ["metrics_damaged"]


@pytest.mark.skipif(not RUNS.exists(), reason="needs ../shared/data/h200")
def test_real_file() -> None:
    path = RUNS / "normal.metrics.csv"
    assert READER.sniff(read_head(path))
    profile = READER.read(path, ReadOptions())
    assert profile.metrics is not None
    assert profile.metrics.row(0) == (1794701630237166605, "oncpu_ns", None, 8385480085.0)
    assert profile.metrics.height == profile.metadata.events_in_file == 3715
    assert profile.metrics["device"].drop_nulls().unique().to_list() == [0]
    assert codes(profile) == ["metrics_only"]
