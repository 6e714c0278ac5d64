"""The trace of a run: ranks on one clock, arrows through collectives, of bounded size."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import solscope
from solscope.attribution import Attributed
from solscope.cli import run as cli
from solscope.errors import UsageError
from solscope.export import runs as module
from solscope.export.files import export
from solscope.export.runs import AlignedRun, Extent, export_run, extent, slowest_step_of
from solscope.ranks.analysis import Analysis, analyze
from solscope.ranks.read import read_run
from solscope.readers import ReadOptions
from tests.making import attributed, event
from tests.unit.export.test_export import assert_nested

UNIX = 1_700_000_000 * 10**9
OFFSET_US = (0, 3_000, -50)
"""What the clock of each rank shows more."""
DRIFT = (0.0, 0.0, 400e-6)
STEPS, CALLS = 6, 4
LATE = 2
"""The rank that enters collectives late."""
UNCACHED = ReadOptions(cache=False)


def shown(rank: int, true_us: float) -> float:
    return round(true_us * (1 + DRIFT[rank]) + OFFSET_US[rank] + 10_000, 3)


def trace(rank: int) -> dict[str, Any]:
    """One rank: steps with four all-reduces each, that end together on the true clock."""
    events: list[dict[str, Any]] = []
    now, number = 0.0, 0

    def span(cat: str, name: str, tid: int, begin: float, end: float, **args: object) -> None:
        ts = shown(rank, begin)
        dur = round(shown(rank, end) - ts, 3)
        pid = 0 if cat == "kernel" else 100
        events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur}
            | {"args": args}
        )

    for step in range(STEPS):
        begun = now
        for call in range(CALLS):
            number += 1
            launch, work = now + 2, now + 10
            late = 200.0 if rank == LATE else 20.0 * ((rank + step) % 2)
            enter = work + 50 + late + 3 * call
            left = work + 50 + 200 + 80 + 7 * ((step * CALLS + call) % 5)
            span("cpu_op", "aten::mm", 1, launch - 1, launch + 3)
            span("cuda_runtime", "cudaLaunchKernel", 1, launch, launch + 2, correlation=2 * number)
            gpu = {"device": 0, "stream": 7}
            span("kernel", "gemm", 7, work, work + 40, correlation=2 * number, **gpu)
            launch += 4
            args: dict[str, Any] = {"correlation": 2 * number + 1}
            span("cuda_runtime", "cudaLaunchKernel", 1, launch, launch + 2, **args)
            args |= {"Collective name": "allreduce", "In msg nelems": 4096, "dtype": "Float"}
            args |= {"Process Group Name": "0", "Process Group Ranks": "[0, 1, 2]", **gpu}
            span("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 7, enter, left, **args)
            now = left
        span("user_annotation", f"execute_context_0(0)_generation_4({step})", 1, begun, now - 200)
        now += 30
    span("python_function", "serve.py(1): run", 1, 0.5, now)
    distributed = {
        "rank": rank,
        "world_size": 3,
        "pg_config": [{"pg_name": "0", "ranks": [0, 1, 2]}],
    }
    return {
        "schemaVersion": 1,
        "baseTimeNanoseconds": UNIX,
        "distributedInfo": distributed,
        "traceEvents": events,
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("run")
    for rank in range(3):
        (where / f"rank{rank}.json").write_text(json.dumps(trace(rank)))
    return where


@pytest.fixture(scope="module")
def opened(folder: Path) -> tuple[Analysis, dict[int, Extent]]:
    run, extents = read_run([folder], extent, options=UNCACHED)
    return analyze(run), extents


def open_rank(path: str) -> Attributed:
    return solscope.attribute(solscope.open(path, options=UNCACHED))


def write(
    opened: tuple[Analysis, dict[int, Extent]], target: Path, step: int | None = None
) -> tuple[list[dict[str, Any]], AlignedRun]:
    written, run = export_run(*opened, open_rank, target, step=step)
    assert written.bytes == target.stat().st_size
    text = gzip.decompress(target.read_bytes()) if target.suffix == ".gz" else target.read_bytes()
    events: list[dict[str, Any]] = json.loads(text, parse_float=Decimal)["traceEvents"]
    recorded = [e for e in events if e["ph"] == "X" and e["cat"] != "Trace"]
    assert len(recorded) == written.events
    return events, run


def test_an_exported_run_reads_as_the_same_run_with_clocks_that_agree(
    opened: tuple[Analysis, dict[int, Extent]], tmp_path: Path
) -> None:
    before = opened[0]
    assert before.clock.recorded_apart_us == pytest.approx(3_050, abs=10)
    _, described = write(opened, tmp_path / "run.json.gz")
    assert described.clock == "collectives"
    after = analyze(solscope.open_run(tmp_path / "run.json.gz", options=UNCACHED))
    assert described.collectives == after.matched.table.height == STEPS * CALLS
    assert after.matched.unmatched == {0: 0, 1: 0, 2: 0}
    assert after.clock.recorded_apart_us == pytest.approx(0.0, abs=0.01)
    assert all(abs(clock.drift_ppm or 0.0) < 1 for clock in after.clock.ranks)
    assert (after.suspect.leader, after.why and after.why.why) == (
        before.suspect.leader,
        before.why and before.why.why,
    )
    assert after.suspect.leader == LATE
    assert after.suspect.step_share_pct == pytest.approx(before.suspect.step_share_pct, rel=1e-3)
    assert after.run.groups[0].ranks == (0, 1, 2)
    moved = (before.times.start - before.times.start[0, 0], after.times.start)
    assert np.abs(moved[0] - (moved[1] - moved[1][0, 0])).max() < 20


def test_arrows_lead_from_the_first_rank_in_a_collective_to_the_last(
    opened: tuple[Analysis, dict[int, Extent]], tmp_path: Path
) -> None:
    events, _ = write(opened, tmp_path / "run.json")
    flows: dict[int, list[dict[str, Any]]] = {}
    for e in events:
        if e.get("cat") == "collective":
            flows.setdefault(e["id"], []).append(e)
    assert len(flows) == STEPS * CALLS
    kernels = {(e["pid"], e["tid"], e["ts"]) for e in events if e.get("cat") == "kernel"}
    for flow in flows.values():
        flow.sort(key=lambda e: e["ts"])
        assert [e["ph"] for e in flow] == ["s", "t", "f"]
        assert flow[-1]["pid"] == f"[rank {LATE}] 0"
        assert all((e["pid"], e["tid"], e["ts"]) in kernels for e in flow)
    launches = {e["id"] for e in events if e.get("cat") == "ac2g"}
    assert len(launches) == 3 * 2 * STEPS * CALLS
    assert not launches & flows.keys()


def test_what_a_rank_waits_is_a_track(
    opened: tuple[Analysis, dict[int, Extent]], tmp_path: Path
) -> None:
    events, _ = write(opened, tmp_path / "run.json")
    threads = {
        (e["pid"], e["tid"]): e["args"]["name"]
        for e in events
        if e["ph"] == "M" and e["name"] == "thread_name"
    }
    waits = [e for e in events if e["ph"] == "X" and threads.get((e["pid"], e["tid"])) == "waiting"]
    assert {e["name"] for e in waits} == {f"waits for rank {LATE}"}
    total = sum(int(1000 * e["dur"]) for e in waits)
    assert total == pytest.approx(np.nansum(opened[0].split.wait), abs=len(waits))
    assert waits[0]["args"]["kind"] == "all_reduce"


def test_slices_of_a_rank_with_a_drift_still_nest(
    opened: tuple[Analysis, dict[int, Extent]], tmp_path: Path
) -> None:
    assert abs(opened[0].clock.ranks[2].drift_ppm or 0.0) > 100
    events, _ = write(opened, tmp_path / "run.json")
    stacks: dict[tuple[Any, Any], list[tuple[Decimal, Decimal]]] = {}
    for e in events:
        if e["ph"] == "X":
            stacks.setdefault((e["pid"], e["tid"]), []).append((e["ts"], -(e["ts"] + e["dur"])))
    assert {key[0] for key in stacks} >= {f"[rank {rank}] 0" for rank in range(3)}
    for thread in stacks.values():
        assert_nested(sorted(thread))
    names = [e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"]
    assert len(set(names)) == len(names) == 9
    order = [e["args"]["sort_index"] for e in events if e.get("name") == "process_sort_index"]
    assert order == sorted(order)


def test_one_step_of_all_ranks(opened: tuple[Analysis, dict[int, Extent]], tmp_path: Path) -> None:
    events, run = write(opened, tmp_path / "step.json", step=3)
    assert run.collectives == CALLS
    steps = {e["args"]["step"] for e in events if e.get("cat") == "kernel"}
    assert steps == {3}
    with pytest.raises(UsageError, match="no step 77; there are 6, from 0 to 5"):
        export_run(*opened, open_rank, tmp_path / "none.json", step=77)
    assert slowest_step_of(opened[0]) in opened[0].steps


def test_host_events_are_left_out_of_a_file_that_would_be_too_large(
    opened: tuple[Analysis, dict[int, Extent]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = sum(sum(part.events.values()) for part in opened[1].values())
    monkeypatch.setattr(module, "MOST_EVENTS", everything - 1)
    events, run = write(opened, tmp_path / "a.json")
    assert run.left_out == {"python": 3}
    assert not [e for e in events if e.get("cat") == "python_function"]
    gpu = 3 * 2 * STEPS * CALLS
    monkeypatch.setattr(module, "MOST_EVENTS", gpu)
    events, run = write(opened, tmp_path / "b.json")
    assert set(run.left_out) == {"python", "cpu_op", "annotation", "runtime"}
    assert {e["cat"] for e in events if e["ph"] == "X"} == {"kernel", "Trace"}
    assert [e for e in events if e.get("cat") == "collective"]
    monkeypatch.setattr(module, "MOST_EVENTS", gpu - 1)
    with pytest.raises(UsageError, match="too many for a viewer"):
        export_run(*opened, open_rank, tmp_path / "c.json")


def test_nothing_is_left_behind_when_a_rank_cannot_be_read_again(
    opened: tuple[Analysis, dict[int, Extent]], tmp_path: Path
) -> None:
    def gone(path: str) -> Attributed:
        if "rank1" in path:
            raise FileNotFoundError(path)
        return open_rank(path)

    with pytest.raises(FileNotFoundError):
        export_run(*opened, gone, tmp_path / "run.json")
    assert not list(tmp_path.iterdir())


def test_the_command_says_what_is_in_the_file(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.json.gz"
    assert cli(["export", str(folder), "--perfetto", str(target), "--no-cache"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{target}\n3 ranks, on one clock within ")
    assert out.endswith("24 collectives joined by arrows\n")
    assert cli(["export", str(folder), "--csv", str(tmp_path / "out.csv")]) == 2
    assert "--csv: for single profiles only" in capsys.readouterr().err
    assert cli(["export", str(folder), "--perfetto", str(target)]) == 2
    assert "exists; pass --force" in capsys.readouterr().err


def test_what_identifies_a_collective_survives_the_export_of_one_profile(tmp_path: Path) -> None:
    send = event(
        "kernel", "ncclDevKernel_SendRecv", 10, 20, collective="send", process_group="pp",
        process_group_ranks="[0, 1]", sequence=7, peer=1,
    )  # fmt: skip
    receive = event("kernel", "ncclDevKernel_SendRecv", 40, 20, collective="recv", peer=0)
    export(attributed(send, receive), "perfetto", tmp_path / "out.json")
    events = solscope.open(tmp_path / "out.json").events
    names = ("collective", "process_group", "process_group_ranks", "sequence", "peer")
    assert events.select(names).rows() == [
        ("send", "pp", "[0, 1]", 7, 1),
        ("recv", None, None, None, 0),
    ]
    arguments = [
        e["args"] for e in json.loads((tmp_path / "out.json").read_text())["traceEvents"]
        if e.get("cat") == "kernel"
    ]  # fmt: skip
    assert arguments[0]["Dst Rank"] == 1
    assert arguments[1]["Src Rank"] == 0
