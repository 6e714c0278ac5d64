"""Which files are the ranks of a run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from solscope import cli
from solscope.attribution import Attributed
from solscope.errors import InputError
from solscope.ranks.facts import _message
from solscope.ranks.files import is_run
from solscope.ranks.find import host_in_name, number_ranks, rank_in_name, run_files
from solscope.ranks.groups import group_labels, members
from solscope.ranks.kinds import kind_of
from solscope.ranks.read import make_run, open_run, read_run
from solscope.readers.recording import process_groups
from solscope.run import listed
from tests.ranks_making import Program, make
from tests.sampling import some

TRACE = {
    "traceEvents": [
        {
            "ph": "X",
            "cat": "kernel",
            "name": "ncclDevKernel_AllReduce",
            "ts": 1.0,
            "dur": 1.0,
            "args": {"device": 0, "stream": 7},
        }
    ]
}


def write(path: Path, rank: int | None = None, world: int = 2) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    header = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": world}}
    path.write_text(json.dumps(header | TRACE))


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("a/rank3.trace.json.gz", 3),
        ("a/1700000000.5-TP-2-DECODE.trace.json.gz", 2),
        ("a/dp1_pp0_tp0_dcp0_ep1_rank5.1762000000000.pt.trace.json.gz", 5),
        ("a/vllm-abc-rank-11.1762000000000.pt.trace.json", 11),
        ("a/rank7/trace.json", 7),
        ("a/1700-TP-1-DP-0.trace.json.gz", None),
        ("a/node1_4711.1700000000000.pt.trace.json", None),
    ],
)
def test_ranks_in_names(name: str, rank: int | None) -> None:
    assert rank_in_name(name) == rank


def test_the_cache_is_used_unless_it_is_forbidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("SOLSCOPE_CACHE_DIR", str(cache))
    monkeypatch.setenv("SOLSCOPE_NO_CACHE", "")
    monkeypatch.setenv("SOLSCOPE_CACHE_MIN_BYTES", "0")
    for rank in range(2):
        write(tmp_path / f"run/rank{rank}.json", rank)
    assert cli.run(["ranks", str(tmp_path / "run"), "--no-cache", "--json"]) == 0
    assert not cache.exists()
    assert cli.run(["ranks", str(tmp_path / "run"), "--json"]) == 0
    assert cache.exists()


def test_a_view_is_made_of_each_rank(tmp_path: Path) -> None:
    for rank in range(3):
        write(tmp_path / f"rank{rank}.json", rank, 3)
    run, made = read_run([tmp_path], _kernels)
    assert [rank.rank for rank in run.ranks] == [0, 1, 2]
    assert made == {0: 1, 1: 1, 2: 1}


def _kernels(attributed: Attributed) -> int:
    return attributed.activities.height


def test_paths_may_be_written_in_any_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in range(2):
        write(tmp_path / f"rank{rank}.json", rank, 2)
    monkeypatch.chdir(tmp_path)
    given = ["./rank0.json", f"{tmp_path}//rank1.json"]
    assert cli.run(["ranks", *given]) == 0
    assert read_run(given, _kernels)[1] == {0: 1, 1: 1}


def test_the_header_decides_before_the_name() -> None:
    assert number_ranks(["rank0.json", "rank1.json"], [3, 2]) == ([3, 2], False)


def test_names_with_several_numbers_are_counted_pipeline_first() -> None:
    names = ["x-TP-1-PP-0.json", "x-TP-0-PP-1.json", "x-TP-0-PP-0.json", "x-TP-1-PP-1.json"]
    assert number_ranks(names, [None] * 4) == ([1, 2, 0, 3], True)


def test_the_host_in_the_name_of_a_trace() -> None:
    assert host_in_name("d/node-1.local_4711.1700000000000.pt.trace.json.gz") == "node-1.local"
    assert host_in_name("d/rank0.trace.json.gz") is None


def test_folders_are_searched_below(tmp_path: Path) -> None:
    write(tmp_path / "run" / "node1" / "rank10.json", 10)
    write(tmp_path / "run" / "node0" / "rank2.json", 2)
    (tmp_path / "run" / "notes.txt").write_text("no profile")
    files = run_files([tmp_path / "run"])
    assert [Path(file).name for file in files] == ["rank2.json", "rank10.json"]


def test_a_file_that_cannot_be_read_is_said_to_be_skipped(tmp_path: Path) -> None:
    write(tmp_path / "rank0.json", 0)
    (tmp_path / "rank1.json.gz").write_bytes(b"\x1f\x8b\x08 cut short")
    skipped: list[str] = []
    files = run_files([tmp_path], lambda path, reason: skipped.append(Path(path).name))
    assert [Path(file).name for file in files] == ["rank0.json"]
    assert skipped == ["rank1.json.gz"]


def test_a_group_is_its_ranks_or_its_name() -> None:
    recorded = pl.DataFrame(
        {
            "process_group": ["0", "0", None, "7"],
            "process_group_ranks": ["[0, 1, 2]", None, None, "[0, 1, ..., 63]"],
        }
    )
    labels = group_labels(recorded).to_list()
    assert labels == ["0,1,2", "group 0", None, "0,1,...,63"]
    assert [members(label) for label in labels] == [(0, 1, 2), None, None, None]


def test_missing_ranks_are_said_in_one_line(tmp_path: Path) -> None:
    for rank in (0, 1):
        write(tmp_path / f"rank{rank}.json", rank, world=128)
    run = open_run(tmp_path)
    assert run.world_size == 128
    (warning,) = run.warnings
    assert warning.code == "ranks_missing"
    assert warning.message.startswith("ranks 2-127 of 128 are missing")


@pytest.mark.parametrize("name", ["rank3000000", "rank65536"])
def test_rank_numbers_that_no_run_has_are_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path / "rank0.json")
    write(tmp_path / f"{name}.json")
    with pytest.raises(InputError, match=r"is too large; ranks must be below 65,536"):
        open_run(tmp_path)


@pytest.mark.parametrize(("rank", "world"), [(1 << 20, 2), (0, 1 << 20), (0, (1 << 16) + 1)])
def test_headers_with_numbers_that_no_run_has_are_refused(
    tmp_path: Path, rank: int, world: int
) -> None:
    write(tmp_path / "a.json", rank, world)
    with pytest.raises(InputError, match=r"too large|too many; at most 65,536"):
        open_run(tmp_path / "a.json")


def test_two_files_of_one_rank_are_refused(tmp_path: Path) -> None:
    for stage in ("DECODE", "EXTEND"):
        write(tmp_path / f"1-TP-0-{stage}.json", 0)
    with pytest.raises(InputError, match="two files for rank 0"):
        open_run(tmp_path)


def test_ranks_are_read_in_processes(tmp_path: Path) -> None:
    for rank in (0, 1):
        write(tmp_path / f"rank{rank}.json", rank)
    seen: list[int] = []
    run = open_run(tmp_path, processes=2, progress=lambda done, total, path: seen.append(done))
    assert [rank.rank for rank in run.ranks] == [0, 1]
    assert seen == [1, 2]


CUT = '{"schemaVersion": 1, "traceEvents": [{"ph": '


@pytest.mark.parametrize("processes", some([2, 1], 2))
def test_a_rank_that_cannot_be_read_is_named_and_the_others_are_read(
    tmp_path: Path, processes: int
) -> None:
    for rank in (0, 2):
        write(tmp_path / f"rank{rank}.json", rank, world=3)
    cut = tmp_path / "rank1.json"
    cut.write_text(CUT)
    seen: list[tuple[str, str]] = []
    run = open_run(tmp_path, processes=processes, skipped=lambda *said: seen.append(said))
    assert [rank.rank for rank in run.ranks] == [0, 2]
    left_out, missing = run.warnings
    assert left_out.code == "file_left_out"
    assert left_out.message.startswith(f"left out {cut}: ")
    assert left_out.message.count(str(cut)) == 1
    assert missing.message.startswith("rank 1 of 3 is missing")
    ((path, reason),) = seen
    assert path == str(cut)
    assert left_out.message.endswith(reason)


HOST_ONLY = '"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 1}, '


def cut_off(path: Path, rank: int, world: int, *, events: str = HOST_ONLY) -> None:
    """A file that breaks off after these events."""
    header = json.dumps({"distributedInfo": {"rank": rank, "world_size": world}})
    path.write_text(header[:-1] + ", " + events + '{"ph": "X", "na')


@pytest.mark.parametrize("processes", some([1, 2], 2))
def test_a_rank_that_breaks_off_before_any_kernel_is_missing(
    tmp_path: Path, processes: int
) -> None:
    for rank in (0, 2):
        write(tmp_path / f"rank{rank}.json", rank, world=3)
    cut_off(tmp_path / "rank1.json", 1, 3)
    run, made = read_run([tmp_path], _kernels, processes=processes)
    assert [rank.rank for rank in run.ranks] == [0, 2]
    assert made == {0: 1, 2: 1}
    left_out, missing = run.warnings
    assert left_out.message == (
        f"left out {tmp_path / 'rank1.json'}: "
        "the file is cut off or damaged before any GPU activity"
    )
    assert missing.message.startswith("rank 1 of 3 is missing")


def test_another_recording_is_read_where_the_chosen_one_breaks_off(tmp_path: Path) -> None:
    for rank in (0, 2):
        write(tmp_path / f"rank{rank}.json", rank, world=3)
    cut_off(tmp_path / "rank1.json", 1, 3)
    write(tmp_path / "rank1_again.json", 1, world=3)
    skipped: list[str] = []
    run = open_run(tmp_path, skipped=lambda path, _: skipped.append(Path(path).name))
    assert [Path(rank.path).name for rank in run.ranks] == [
        "rank0.json",
        "rank1_again.json",
        "rank2.json",
    ]
    (left_out,) = run.warnings
    assert left_out.message.startswith(f"left out {tmp_path / 'rank1.json'}: the file is cut off")
    assert skipped == ["rank1.json"]


def test_where_both_recordings_of_a_rank_break_off_both_are_named(tmp_path: Path) -> None:
    for rank in (0, 2):
        write(tmp_path / f"rank{rank}.json", rank, world=3)
    cut_off(tmp_path / "rank1.json", 1, 3)
    cut_off(tmp_path / "rank1_again.json", 1, 4)
    run = open_run(tmp_path)
    assert [rank.rank for rank in run.ranks] == [0, 2]
    first, second, missing = run.warnings
    for warning, name in ((first, "rank1.json"), (second, "rank1_again.json")):
        assert warning.message.startswith(f"left out {tmp_path / name}: the file is cut off")
    assert missing.code == "ranks_missing"


def test_a_rank_that_breaks_off_after_kernels_stays_and_that_is_said(tmp_path: Path) -> None:
    write(tmp_path / "rank0.json", 0)
    whole = json.dumps(TRACE)[1:]
    cut_off(tmp_path / "rank1.json", 1, 2, events=whole.removesuffix("]}") + ", ")
    run = open_run(tmp_path)
    assert [rank.rank for rank in run.ranks] == [0, 1]
    (warning,) = run.warnings
    assert warning.code == "truncated"
    assert warning.message.startswith("rank 1: the file breaks off at byte ")


def test_a_whole_recording_is_read_where_the_chosen_one_breaks_off_after_kernels(
    tmp_path: Path,
) -> None:
    for rank in (0, 2):
        write(tmp_path / f"rank{rank}.json", rank, world=3)
    events = json.dumps(TRACE)[1:].removesuffix("]}") + ", "
    cut_off(tmp_path / "rank1.json", 1, 3, events=events)
    write(tmp_path / "rank1_again.json", 1, world=3)
    run, made = read_run([tmp_path], _kernels)
    again = tmp_path / "rank1_again.json"
    assert [rank.path for rank in run.ranks if rank.rank == 1] == [str(again)]
    assert sorted(made) == [0, 1, 2]
    (left_out,) = run.warnings
    cut = tmp_path / "rank1.json"
    assert left_out.message == f"left out {cut}: breaks off; {again} is read instead"


@pytest.mark.parametrize(("world", "later_us"), [(8, 0.0), (3, 86_400e6)])
def test_a_recording_of_another_run_or_time_does_not_stand_in_for_one_that_breaks_off(
    tmp_path: Path, world: int, later_us: float
) -> None:
    for rank in (0, 2):
        write(tmp_path / f"rank{rank}.json", rank, world=3)
    events = json.dumps(TRACE)[1:].removesuffix("]}") + ", "
    cut_off(tmp_path / "rank1.json", 1, 3, events=events)
    header = {"distributedInfo": {"rank": 1, "world_size": world}}
    event = TRACE["traceEvents"][0] | {"ts": 1.0 + later_us}
    other = tmp_path / "rank1_other.json"
    other.write_text(json.dumps(header | {"traceEvents": [event]}))
    run = open_run(tmp_path)
    assert [Path(rank.path).name for rank in run.ranks if rank.rank == 1] == ["rank1.json"]
    assert run.world_size == 3
    assert [warning.code for warning in run.warnings] == ["file_left_out", "truncated"]
    cut = tmp_path / "rank1.json"
    assert (
        f"left out {other}: {cut} is read instead, though it breaks off" in run.warnings[0].message
    )


def test_where_both_recordings_of_a_rank_break_off_after_kernels_the_chosen_one_stays(
    tmp_path: Path,
) -> None:
    for rank in (0, 2):
        write(tmp_path / f"rank{rank}.json", rank, world=3)
    events = json.dumps(TRACE)[1:].removesuffix("]}") + ", "
    for name, world in (("rank1.json", 3), ("rank1_again.json", 4)):
        cut_off(tmp_path / name, 1, world, events=events)
    run = open_run(tmp_path)
    assert [Path(rank.path).name for rank in run.ranks if rank.rank == 1] == ["rank1.json"]
    assert [warning.code for warning in run.warnings] == ["file_left_out", "truncated"]


def test_when_all_ranks_break_off_before_any_kernel_that_is_an_error(tmp_path: Path) -> None:
    for rank in (0, 1):
        cut_off(tmp_path / f"rank{rank}.json", rank, 2)
    with pytest.raises(InputError, match=r"rank0\.json: the file is cut off or damaged"):
        open_run(tmp_path)


def test_when_no_rank_can_be_read_the_error_of_one_is_raised(tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.json").write_text(CUT)
    with pytest.raises(InputError, match=r"rank0\.json"):
        open_run(tmp_path / "rank0.json", tmp_path / "rank1.json")


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    write(tmp_path / "rank0.json", 0)
    with pytest.raises(InputError, match=r"rank1\.json: no such file"):
        open_run(tmp_path / "rank0.json", tmp_path / "rank1.json")


def test_a_file_of_unknown_format_is_named_where_its_name_is_that_of_a_rank(tmp_path: Path) -> None:
    for rank in (0, 1):
        write(tmp_path / f"rank{rank}.json", rank, world=3)
    (tmp_path / "rank2.json").write_bytes(bytes(200))
    (tmp_path / "rank2.log").write_text("started")
    (tmp_path / "notes.json").write_text("{}")
    (left_out, _) = open_run(tmp_path).warnings
    assert left_out.message.startswith(
        f"left out {tmp_path / 'rank2.json'}: unknown profile format"
    )


def test_a_copy_of_a_rank_is_left_out_and_that_is_said(tmp_path: Path) -> None:
    for rank in (0, 1):
        write(tmp_path / f"rank{rank}.json", rank)
    copy = tmp_path / "a copy of rank0.json"
    write(copy, 0)
    assert is_run(tmp_path)
    run = open_run(tmp_path)
    assert [Path(rank.path).name for rank in run.ranks] == ["rank0.json", "rank1.json"]
    (warning,) = run.warnings
    assert warning.message == f"left out {copy}: rank 0 twice: same content as rank0.json"


def test_another_recording_of_a_rank_is_left_out_and_that_is_said(tmp_path: Path) -> None:
    for rank in (0, 1, 2):
        write(tmp_path / f"17-TP-{rank}-DECODE.json", rank, world=3)
    other = tmp_path / "12-TP-0-EXTEND.json"
    write(other, 0, world=4)
    run = open_run(tmp_path)
    assert [rank.rank for rank in run.ranks] == [0, 1, 2]
    assert run.world_size == 3
    (warning,) = run.warnings
    assert warning.message == (
        f"left out {other}: rank 0 twice: 17-TP-0-DECODE.json has other content, "
        "and a name like those of other ranks"
    )


def test_two_runs_in_a_folder_are_no_run(tmp_path: Path) -> None:
    for rank in (0, 1):
        write(tmp_path / f"bs1-rank{rank}.json", rank)
        write(tmp_path / f"bs64-rank{rank}.json", rank, world=4)
    assert not is_run(tmp_path)
    with pytest.raises(InputError, match="two files for rank 0"):
        open_run(tmp_path)


def test_ranks_without_numbers_are_counted_and_that_is_said() -> None:
    ranks = [
        replace(rank, rank=-1, path=f"host_{20 - rank.rank}.1700000000000.pt.trace.json")
        for rank in make(Program(ranks=2)).ranks
    ]
    run = make_run("x", ranks)
    assert [rank.path.partition(".")[0] for rank in run.ranks] == ["host_19", "host_20"]
    assert run.warnings[0].code == "ranks_counted"


def test_numbers_are_listed_with_their_neighbors_joined() -> None:
    assert listed([2, 3, 4, 7, 9, 10]) == "2-4, 7, 9-10"


def test_process_groups_and_their_parallelism() -> None:
    config = [
        {"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1]},
        {"pg_name": "3", "pg_desc": "tp:0", "ranks": [0]},
        {"pg_name": "4", "pg_desc": "EXPERT_MODEL_PARALLEL_GROUP", "ranks": [0, 1]},
        {"pg_name": "5", "ranks": "all"},
        7,
    ]
    groups = process_groups(config)
    assert [(g.name, g.parallelism) for g in groups] == [
        ("default_pg", None),
        ("tp:0", "tp"),
        ("EXPERT_MODEL_PARALLEL_GROUP", "ep"),
    ]


@pytest.mark.parametrize(
    ("record", "kernel", "kind"),
    [
        ("_allgather_base", "ncclDevKernel_Generic_1(ncclDevKernelArgs)", "all_gather"),
        ("all_to_allv", "ncclDevKernel_SendRecv", "all_to_all"),
        ("recv", "ncclDevKernel_SendRecv", "receive"),
        ("send", "ncclDevKernel_SendRecv", "send"),
        (None, "ncclDevKernel_SendRecv", "send_receive"),
        (None, "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "reduce_scatter"),
        (None, "void vllm::cross_device_reduce_1stage<half, 8>", "all_reduce"),
        (None, "multimem_all_reduce_kernel<c10::BFloat16>", "all_reduce"),
        (None, "void deep_ep::internode_ll::dispatch<true>", "dispatch"),
        (None, "deep_ep::intranode::combine<8>", "combine"),
        (None, "void deep_ep::intranode::notify_dispatch<8>", None),
        (None, "void dpsk::ep::get_dispatch_layout<256>", None),
        (None, "ncclDevKernel_Generic_1(ncclDevKernelArgs)", None),
    ],
)
def test_kinds_of_collectives(record: str | None, kernel: str, kind: str | None) -> None:
    assert kind_of(record, kernel) == kind


@pytest.mark.parametrize(
    "dims",
    ["[[[1],2]]", "[[[1],[[2]]]]", "[[true]]", "[[-4]]", "[[4294967296,4294967296]]", '[["a"]]'],
)
def test_shapes_that_are_none_have_no_bytes(dims: str) -> None:
    assert _message(dims, '["float"]', None)[0] is None


def test_bytes_of_a_message() -> None:
    assert _message("[[4,8]]", '["float"]', None)[0] == 128
    assert _message("[[[4],[8]]]", '["float"]', None)[0] == 48
