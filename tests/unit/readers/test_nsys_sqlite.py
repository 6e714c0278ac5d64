from __future__ import annotations

import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from solscope.errors import DamagedFileError, InputError, UnknownFormatError
from solscope.profile import Device, Profile
from solscope.readers.base import MAX_TIME_NS, Head, ReadOptions
from solscope.readers.nsys_database import ALLOWED, connect
from solscope.readers.nsys_sqlite import READER

H100 = Path(__file__).parents[4] / "shared/data/nsys/h100_2gpu_1s.sqlite"
SECRET = "hf_SECRET_TOKEN"


def gid(pid: int, tid: int = 0) -> int:
    return (1 << 48) | (pid << 24) | tid


STRINGS = f"""
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO StringIds VALUES (1, 'gemm<float>'), (2, 'gemm'), (3, 'cudaLaunchKernel_v7000'),
    (4, 'cuLaunchKernelEx'), (5, 'prefill'), (6, '_Z4axpyPf'), (7, 'cudaMemcpyAsync_ptsz_v7000'),
    (99, '--api-key={SECRET}');
"""
KERNELS = f"""
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
    streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER,
    shortName INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER,
    blockZ INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
    (300, 350, 0, 7, 12, {gid(10)}, 1, 2, 8, 1, 1, 128, 1, 1),
    (100, 140, 0, 7, 11, {gid(10)}, 1, 2, 4, 2, 1, 256, 1, 1);
"""
RUNTIME = f"""
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER,
    globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES
    (90, 95, 0, {gid(10, 21)}, 11, 3), (290, 295, 1, {gid(10, 21)}, 12, 4),
    (400, 401, 0, {gid(10, 21)}, 13, 7);
"""
OLD_NVTX = f"""
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT,
    globalTid INTEGER);
INSERT INTO NVTX_EVENTS VALUES (80, 360, 59, 'step', {gid(10, 21)}),
    (85, 200, 60, 'request', {gid(10, 21)}), (86, NULL, 34, 'mark', {gid(10, 21)}),
    (0, NULL, 75, 'domain', {gid(10, 21)}), (350, NULL, 59, 'open', {gid(10, 21)});
"""
COPIES = f"""
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER,
    streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER,
    srcKind INTEGER, dstKind INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (10, 20, 0, 7, 1, {gid(10)}, 4096, 1, 0, 2),
    (30, 40, 0, 7, 2, {gid(10)}, 64, 11, 4, 2);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER, end INTEGER, deviceId INTEGER,
    streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, memKind INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (50, 55, 0, 7, 3, {gid(10)}, 8, 2);
"""
SYNCS = f"""
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER, deviceId INTEGER,
    streamId INTEGER, correlationId INTEGER, globalPid INTEGER, syncType INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (60, 70, 0, 7, 4, {gid(10)}, 3),
    (71, 72, 0, 7, 5, {gid(10)}, NULL);
"""
GRAPHS = f"""
CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER,
    streamId INTEGER, correlationId INTEGER, globalPid INTEGER, graphId INTEGER,
    graphExecId INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (500, 900, 0, 7, 20, {gid(10)}, 3, 5);
"""
ENUMS = """
CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER, name TEXT, label TEXT);
INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (1, 'CUDA_MEMCPY_KIND_HTOD', 'Host-to-Device'),
    (11, 'CUDA_MEMCPY_KIND_UVM_HTOD', 'Unified Host-to-Device');
CREATE TABLE ENUM_NSYS_EVENT_TYPE (id INTEGER, name TEXT, label TEXT);
INSERT INTO ENUM_NSYS_EVENT_TYPE VALUES (159, 'NvtxPushPopRange', 'NvtxPushPopRange');
"""
GPU_INFO = """
CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, smCount INTEGER, totalMemory INTEGER,
    computeMajor INTEGER, computeMinor INTEGER);
INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H200', 132, 150754820096, 9, 0),
    (1, 'NVIDIA H200', 132, 150754820096, 9, 0);
"""
SESSION = """
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER);
INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000);
"""


def meta(**values: str) -> str:
    rows = ", ".join(f"('{key}', '{value}')" for key, value in values.items())
    table = "CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);"
    return f"{table} INSERT INTO META_DATA_EXPORT VALUES {rows};"


def build(path: Path, *scripts: str) -> Path:
    with closing(sqlite3.connect(path)) as db:
        db.executescript("".join(scripts))
        db.commit()
    return path


def read(path: Path) -> Profile:
    return READER.read(path, ReadOptions())


def made(tmp_path: Path, *scripts: str) -> Profile:
    return read(build(tmp_path / "run.sqlite", *scripts))


def rows(profile: Profile, kind: str, *columns: str) -> list[tuple[object, ...]]:
    return profile.events.filter(pl.col("kind") == kind).select(columns).rows()


def codes(profile: Profile) -> list[str]:
    return [warning.code for warning in profile.warnings]


def test_sniff_takes_any_sqlite_file() -> None:
    assert READER.sniff(Head(Path("x"), b"SQLite format 3\0\x10\0"))
    assert not READER.sniff(Head(Path("x.sqlite"), b'{"traceEvents": []}'))


def test_kernels_are_read_in_order_of_start(tmp_path: Path) -> None:
    profile = made(tmp_path, STRINGS, KERNELS)
    assert rows(profile, "kernel", "name", "start_ns", "dur_ns", "stream", "grid", "block") == [
        ("gemm<float>", 100, 40, 7, "4,2,1", "256,1,1"),
        ("gemm<float>", 300, 50, 7, "8,1,1", "128,1,1"),
    ]


def test_gpu_rows_carry_the_process(tmp_path: Path) -> None:
    profile = made(tmp_path, STRINGS, KERNELS)
    assert rows(profile, "kernel", "pid", "tid", "rank", "device") == [(10, None, None, 0)] * 2


def test_without_graph_columns_graphs_are_null(tmp_path: Path) -> None:
    profile = made(tmp_path, STRINGS, KERNELS)
    assert rows(profile, "kernel", "graph_id", "graph_node") == [(None, None)] * 2


def test_graph_node_is_kept_and_zero_means_none(tmp_path: Path) -> None:
    columns = "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN graphNodeId INTEGER DEFAULT 0;"
    node = "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET graphNodeId = 9 WHERE start = 300;"
    profile = made(tmp_path, STRINGS, KERNELS, columns, node)
    assert rows(profile, "kernel", "graph_id", "graph_node") == [(None, None), (None, 9)]


def test_short_name_serves_where_the_demangled_one_is_null(tmp_path: Path) -> None:
    change = "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = NULL;"
    profile = made(tmp_path, STRINGS, KERNELS, change)
    assert rows(profile, "kernel", "name") == [("gemm",)] * 2


def test_mangled_names_are_demangled(tmp_path: Path) -> None:
    pytest.importorskip("solscope.names")
    change = "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = 6;"
    profile = made(tmp_path, STRINGS, KERNELS, change)
    assert rows(profile, "kernel", "name") == [("axpy(float*)",)] * 2


def test_missing_string_gives_a_null_name(tmp_path: Path) -> None:
    assert rows(made(tmp_path, KERNELS), "kernel", "name") == [(None,)] * 2


def test_runtime_and_driver_calls_are_told_apart(tmp_path: Path) -> None:
    profile = made(tmp_path, STRINGS, KERNELS, RUNTIME)
    assert rows(profile, "runtime", "name", "pid", "tid", "correlation") == [
        ("cudaLaunchKernel", 10, 21, 11),
        ("cudaMemcpyAsync", 10, 21, 13),
    ]
    assert rows(profile, "driver", "name", "correlation") == [("cuLaunchKernelEx", 12)]


def test_old_nvtx_text_without_enum_tables(tmp_path: Path) -> None:
    profile = made(tmp_path, STRINGS, KERNELS, OLD_NVTX)
    assert rows(profile, "annotation", "name", "start_ns", "dur_ns", "pid", "tid") == [
        ("step", 80, 280, 10, 21),
        ("request", 85, 115, 10, None),
        ("open", 350, None, 10, 21),
    ]


def test_new_nvtx_text_id_with_enum_table(tmp_path: Path) -> None:
    nvtx = f"""CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT,
        textId INTEGER, globalTid INTEGER);
        INSERT INTO NVTX_EVENTS VALUES (1, 9, 159, NULL, 5, {gid(10, 21)}),
        (2, 8, 59, NULL, 5, {gid(10, 21)});"""
    profile = made(tmp_path, STRINGS, KERNELS, nvtx, ENUMS)
    assert rows(profile, "annotation", "name", "start_ns") == [("prefill", 1)]


def test_copies_without_enum_tables(tmp_path: Path) -> None:
    profile = made(tmp_path, COPIES)
    assert rows(profile, "memcpy", "name", "bytes") == [
        ("Memcpy HtoD (Pageable -> Device)", 4096),
        ("Memcpy 11 (Managed -> Device)", 64),
    ]
    assert rows(profile, "memset", "name", "bytes") == [("Memset (Device)", 8)]


def test_copies_with_enum_tables(tmp_path: Path) -> None:
    profile = made(tmp_path, COPIES, ENUMS)
    assert rows(profile, "memcpy", "name") == [
        ("Memcpy HtoD (Pageable -> Device)",),
        ("Memcpy Unified HtoD (Managed -> Device)",),
    ]


def test_sync_has_a_stream_but_no_device(tmp_path: Path) -> None:
    profile = made(tmp_path, SYNCS)
    assert rows(profile, "sync", "name", "stream", "device") == [
        ("Stream Sync", 7, None),
        ("Sync", 7, None),
    ]


def test_whole_graphs_are_read_with_a_warning(tmp_path: Path) -> None:
    profile = made(tmp_path, GRAPHS)
    assert rows(profile, "graph", "name", "dur_ns", "graph_id") == [("CUDA graph", 400, 5)]
    assert codes(profile) == ["graph_collapsed"]
    assert "--cuda-graph-trace=node" in profile.warnings[0].message


def test_processes_are_told_apart_and_given_no_rank(tmp_path: Path) -> None:
    other = f"""INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES
        (150, 160, 1, 7, 11, {gid(9)}, 1, 2, 1, 1, 1, 1, 1, 1);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 2, 0, {gid(8, 8)}, 1, 3);"""
    profile = made(tmp_path, STRINGS, KERNELS, RUNTIME, other)
    assert rows(profile, "kernel", "pid", "rank") == [(10, None), (9, None), (10, None)]
    assert rows(profile, "runtime", "pid", "rank") == [(8, None), (10, None), (10, None)]


def test_cuda_ordinals_become_physical_gpus(tmp_path: Path) -> None:
    mapping = """CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER);
        INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (1, 0, 10), (0, 0, 9);"""
    profile = made(tmp_path, STRINGS, KERNELS, mapping, GPU_INFO)
    assert rows(profile, "kernel", "device") == [(1,), (1,)]
    assert [device.ordinal for device in profile.metadata.devices] == [1]


def test_devices_are_described(tmp_path: Path) -> None:
    profile = made(tmp_path, STRINGS, KERNELS, GPU_INFO)
    assert profile.metadata.devices == (
        Device(0, "NVIDIA H200", "nvidia", "sm_90", 132, 150754820096),
    )


def test_devices_without_description_keep_their_ordinal(tmp_path: Path) -> None:
    assert made(tmp_path, STRINGS, KERNELS).metadata.devices == (Device(0, vendor="nvidia"),)


def test_versions_are_kept_and_nothing_else_of_the_export(tmp_path: Path) -> None:
    text = meta(EXPORT_PRODUCT_VERSION="2024.5.1", EXPORT_SCHEMA_VERSION=SECRET + " x", USER=SECRET)
    assert made(tmp_path, KERNELS, text).metadata.versions == {"nsys": "2024.5.1"}


def test_unix_offset_is_the_start_of_the_session(tmp_path: Path) -> None:
    profile = made(tmp_path, KERNELS, SESSION)
    assert profile.metadata.unix_offset_ns == 1_700_000_000_000_000_000


def test_normalized_export_is_in_unix_time_already(tmp_path: Path) -> None:
    text = meta(EXPORT_PARAM_TIME_NORMALIZE="true", EXPORT_PARAM_TIME_SHIFT="5")
    assert made(tmp_path, KERNELS, SESSION, text).metadata.unix_offset_ns == -5


def test_events_in_file_counts_rows_left_out(tmp_path: Path) -> None:
    profile = made(tmp_path, STRINGS, KERNELS, OLD_NVTX)
    assert (profile.metadata.events_in_file, profile.events.height) == (7, 5)


def test_backward_event_has_no_duration_and_a_warning(tmp_path: Path) -> None:
    profile = made(tmp_path, KERNELS, "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 120;")
    assert rows(profile, "kernel", "dur_ns") == [(20,), (0,)]
    assert [w.message for w in profile.warnings] == [
        "1 events end before they start; duration set to 0"
    ]


def test_event_without_start_is_left_out_and_counted(tmp_path: Path) -> None:
    change = "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = NULL WHERE start = 100;"
    profile = made(tmp_path, KERNELS, change)
    assert rows(profile, "kernel", "start_ns") == [(300,)]
    assert codes(profile) == ["no_start"]


def test_host_events_alone_are_returned_with_a_warning(tmp_path: Path) -> None:
    profile = made(tmp_path, STRINGS, OLD_NVTX)
    assert profile.events.height == 3
    assert codes(profile) == ["no_gpu_activity"]


def test_export_without_any_event_table_is_an_empty_profile(tmp_path: Path) -> None:
    profile = made(tmp_path, STRINGS, meta(EXPORT_PRODUCT_VERSION="2024.5.1"))
    assert profile.events.is_empty()
    assert codes(profile) == ["no_gpu_activity"]


def test_progress_ends_at_the_size_of_the_file(tmp_path: Path) -> None:
    path = build(tmp_path / "run.sqlite", STRINGS, KERNELS, RUNTIME)
    seen: list[tuple[int, int]] = []
    READER.read(path, ReadOptions(progress=lambda done, size: seen.append((done, size))))
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)


ENVIRONMENT = f"""
CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, nameEnum INTEGER, value TEXT);
INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('HF_TOKEN', 1, '{SECRET}');
CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT);
INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:COMMAND', 'serve --token {SECRET}');
CREATE TABLE ProcessStreams (globalPid INTEGER, filenameId INTEGER, contentId INTEGER);
INSERT INTO ProcessStreams VALUES (1, 99, 99);
CREATE TABLE ANALYSIS_FILE (id INTEGER, filename TEXT, contentId INTEGER, globalPid INTEGER);
INSERT INTO ANALYSIS_FILE VALUES (1, '{SECRET}', 99, 1);
"""
EVERYTHING = (STRINGS, KERNELS, RUNTIME, OLD_NVTX, COPIES, SYNCS, GRAPHS, GPU_INFO, SESSION)


def test_no_secret_reaches_the_profile(tmp_path: Path) -> None:
    profile = made(tmp_path, *EVERYTHING, ENVIRONMENT, meta(EXPORT_USER=SECRET))
    saved = profile.save(tmp_path / "saved")
    profile.events.write_json(saved / "events.json")
    texts = [(saved / name).read_text() for name in ("profile.json", "events.json")]
    assert "gemm<float>" in texts[1]
    assert not any(SECRET in text for text in texts)


@pytest.mark.parametrize(
    "table", ["TARGET_INFO_SYSTEM_ENV", "META_DATA_CAPTURE", "ProcessStreams", "ANALYSIS_FILE"]
)
def test_the_connection_refuses_other_tables(tmp_path: Path, table: str) -> None:
    path = build(tmp_path / "run.sqlite", *EVERYTHING, ENVIRONMENT)
    assert table not in ALLOWED
    with (
        closing(connect(path)) as db,
        pytest.raises(sqlite3.DatabaseError, match="prohibited"),
    ):
        db.execute(f"SELECT * FROM {table}").fetchall()


def test_the_connection_refuses_other_columns_of_its_tables(tmp_path: Path) -> None:
    extra = f"ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN argv TEXT DEFAULT '{SECRET}';"
    path = build(tmp_path / "run.sqlite", KERNELS, extra)
    with (
        closing(connect(path)) as db,
        pytest.raises(sqlite3.DatabaseError, match="argv is prohibited"),
    ):
        db.execute("SELECT argv FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchall()


def test_a_view_named_like_a_table_is_not_followed(tmp_path: Path) -> None:
    view = """CREATE VIEW NVTX_EVENTS AS SELECT 1 AS start, 2 AS end, 59 AS eventType,
        value AS text, 1 AS globalTid FROM TARGET_INFO_SYSTEM_ENV;"""
    profile = made(tmp_path, STRINGS, KERNELS, ENVIRONMENT, view)
    assert rows(profile, "annotation", "name") == []


def test_triggers_and_odd_types_do_no_harm(tmp_path: Path) -> None:
    trap = """CREATE TRIGGER trap AFTER INSERT ON StringIds BEGIN DELETE FROM StringIds; END;
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ('soon', x'00ff', 4e18, 'a', 1.5, -1,
        'gemm', 2, 1, 1, 1, 1, 1, 1);"""
    profile = made(tmp_path, STRINGS, KERNELS, trap)
    assert rows(profile, "kernel", "start_ns", "device") == [(0, None), (100, 0), (300, 0)]


def test_names_are_kept_as_recorded_even_if_hostile(tmp_path: Path) -> None:
    path = build(tmp_path / "run.sqlite", STRINGS, KERNELS)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE StringIds SET value = ? WHERE id = 1", ("\x1b[31mred\0tail",))
        db.commit()
    assert rows(read(path), "kernel", "name") == [("\x1b[31mred\0tail",)] * 2


def test_invalid_utf8_is_replaced(tmp_path: Path) -> None:
    change = "UPDATE StringIds SET value = CAST(x'67ff' AS TEXT) WHERE id = 1;"
    assert rows(made(tmp_path, STRINGS, KERNELS, change), "kernel", "name") == [("g\ufffd",)] * 2


def test_a_duration_that_sums_could_not_hold_is_none(tmp_path: Path) -> None:
    change = f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 0, end = {2**63 - 1};"
    assert rows(made(tmp_path, KERNELS, change), "kernel", "dur_ns") == [(None,)] * 2


def test_a_start_beyond_any_clock_is_left_out(tmp_path: Path) -> None:
    change = f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = {-(2**63)} WHERE start = 100;"
    profile = made(tmp_path, STRINGS, KERNELS, change)
    assert rows(profile, "kernel", "start_ns") == [(300,)]
    assert codes(profile) == ["no_start"]


@pytest.mark.parametrize(("start", "count"), [(MAX_TIME_NS, 2), (MAX_TIME_NS + 1, 1)])
def test_the_latest_start_leaves_room_for_sums(tmp_path: Path, start: int, count: int) -> None:
    assert 2 * MAX_TIME_NS < 2**63
    change = f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = {start} WHERE start = 100;"
    profile = made(tmp_path, STRINGS, KERNELS, change)
    assert len(rows(profile, "kernel", "start_ns")) == count


def test_other_sqlite_files_are_refused(tmp_path: Path) -> None:
    path = build(tmp_path / "cookies.sqlite", "CREATE TABLE cookies (name TEXT);")
    with pytest.raises(UnknownFormatError, match="not an Nsight Systems export") as caught:
        read(path)
    assert "\n" not in str(caught.value)


def many_kernels(path: Path) -> Path:
    filler = f"""WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 4999)
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL
        SELECT 1000 + i, 1001 + i, 0, 7, i, {gid(10)}, 1, 2, 1, 1, 1, 1, 1, 1 FROM n;"""
    return build(path, STRINGS, KERNELS, filler)


def test_batches_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = many_kernels(tmp_path / "run.sqlite")
    whole = read(path).events
    monkeypatch.setattr("solscope.readers.nsys_database.BATCH_ROWS", 1001)
    assert whole.height == 5002
    assert read(path).events.equals(whole)


def test_truncated_file_keeps_what_can_be_read(tmp_path: Path) -> None:
    path = many_kernels(tmp_path / "run.sqlite")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    profile = read(path)
    assert 1000 < profile.events.height < 5002
    assert codes(profile) == ["truncated"]


def test_file_cut_after_its_header_is_damaged(tmp_path: Path) -> None:
    path = many_kernels(tmp_path / "run.sqlite")
    path.write_bytes(path.read_bytes()[:4096])
    with pytest.raises(DamagedFileError, match=r"run\.sqlite: .*again"):
        read(path)


def test_noise_after_the_magic_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    path.write_bytes(b"SQLite format 3\0" + b"\xa5" * 8000)
    with pytest.raises(DamagedFileError, match="damaged SQLite file"):
        read(path)


def test_compressed_file_is_refused_by_name(tmp_path: Path) -> None:
    path = build(tmp_path / "run.sqlite", STRINGS, KERNELS)
    packed = tmp_path / "run.sqlite.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(InputError, match="decompress it first"):
        read(packed)


def test_nothing_is_written_beside_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "a b%20c?d#e"
    folder.mkdir()
    path = build(folder / "run.sqlite", "PRAGMA journal_mode=WAL;", STRINGS, KERNELS)
    before = path.read_bytes()
    assert read(path).events.height == 2
    assert [p.name for p in folder.iterdir()] == ["run.sqlite"]
    assert path.read_bytes() == before


def test_the_database_is_opened_so_that_nothing_can_be_written(tmp_path: Path) -> None:
    """A database in WAL mode gets files beside it as soon as a writer opens it."""
    path = build(tmp_path / "run.sqlite", "PRAGMA journal_mode=WAL;", STRINGS, KERNELS)
    with closing(connect(path)) as db:
        assert db.execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone() == (2,)
        assert [p.name for p in tmp_path.iterdir()] == ["run.sqlite"]


@pytest.fixture(scope="module")
def h100() -> Profile:
    if not H100.exists():
        pytest.skip(f"needs {H100}")
    return read(H100)


def test_h100_kernel_time_per_gpu(h100: Profile) -> None:
    kernels = h100.events.filter(pl.col("kind") == "kernel")
    table = kernels.group_by("device").agg(pl.len(), pl.col("dur_ns").sum()).sort("device")
    assert table.rows() == [(0, 1721, 22_385_163), (1, 1721, 22_444_359)]


def test_h100_span_of_the_kernels_of_gpu_0(h100: Profile) -> None:
    gpu0 = h100.events.filter((pl.col("kind") == "kernel") & (pl.col("device") == 0))
    ends = gpu0["start_ns"] + gpu0["dur_ns"]
    assert ends.max() - gpu0["start_ns"].min() == 960_485_009  # type: ignore[operator]


def test_h100_rows_by_kind(h100: Profile) -> None:
    assert dict(h100.events["kind"].value_counts().iter_rows()) == {
        "kernel": 3442,
        "memcpy": 904,
        "memset": 22,
        "sync": 244,
        "runtime": 5796,
        "cpu_op": 16546,
        "annotation": 236,
        "overhead": 198,
    }


def test_h100_has_two_processes_and_states_no_ranks(h100: Profile) -> None:
    pairs = h100.events.select("pid", "rank").unique().sort("pid")
    assert pairs.rows() == [(111, None), (112, None)]


def test_h100_metadata(h100: Profile) -> None:
    about = h100.metadata
    assert about.events_in_file == 27388
    assert about.unix_offset_ns == 1_779_630_014_975_716_426
    assert about.versions == {"nsys": "2026.2.1.210", "nsys_schema": "3.25.0"}
    assert h100.warnings == ()
