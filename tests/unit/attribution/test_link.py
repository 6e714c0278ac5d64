from __future__ import annotations

import polars as pl

from solscope.attribution.link import link
from solscope.attribution.stacks import enclosing
from tests.making import event, profile


def names(table: pl.DataFrame, rows: str, events: pl.DataFrame) -> list[str | None]:
    return events["name"].gather(table[rows]).cast(pl.String).to_list()


def test_an_activity_finds_its_launch_and_the_operator_with_the_external_id() -> None:
    events = profile(
        event("cpu_op", "aten::linear", 0, 100, external_id=1),
        event("cpu_op", "aten::mm", 10, 80, external_id=2),
        event("runtime", "cudaLaunchKernel", 20, 5, correlation=9, external_id=2),
        event("kernel", "gemm", 200, 30, correlation=9, external_id=2),
    ).events
    linked = link(events)
    assert names(linked, "launch_row", events) == ["cudaLaunchKernel"]
    assert names(linked, "op_row", events) == ["aten::mm"]
    assert linked["op_link"].to_list() == ["external_id"]


def test_without_external_ids_the_innermost_operator_around_the_launch_counts() -> None:
    events = profile(
        event("cpu_op", "aten::linear", 0, 100),
        event("cpu_op", "aten::mm", 10, 30),
        event("runtime", "cudaLaunchKernel", 20, 5, correlation=9),
        event("runtime", "cudaLaunchKernel", 60, 5, correlation=10),
        event("kernel", "gemm", 200, 30, correlation=9),
        event("kernel", "bias", 300, 30, correlation=10),
    ).events
    linked = link(events)
    assert names(linked, "op_row", events) == ["aten::mm", "aten::linear"]
    assert linked["op_link"].to_list() == ["nesting", "nesting"]


def test_old_traces_repeat_the_correlation_as_external_id() -> None:
    events = profile(
        event("cpu_op", "aten::wrong", 500, 10, external_id=9),
        event("cpu_op", "aten::mm", 10, 30, external_id=1),
        event("runtime", "cudaLaunchKernel", 20, 5, correlation=9, external_id=9),
        event("kernel", "gemm", 200, 30, correlation=9, external_id=9),
    ).events
    assert names(link(events), "op_row", events) == ["aten::mm"]


def test_an_operator_of_another_thread_does_not_count() -> None:
    events = profile(
        event("cpu_op", "aten::mm", 0, 100, tid=2),
        event("runtime", "cudaLaunchKernel", 20, 5, correlation=9),
        event("kernel", "gemm", 200, 30, correlation=9),
    ).events
    assert names(link(events), "op_row", events) == [None]


def test_activities_without_a_launch_are_kept() -> None:
    events = profile(event("kernel", "gemm", 0, 10), event("memset", "Memset", 20, 5)).events
    linked = link(events)
    assert linked["launch_row"].to_list() == [None, None]
    assert linked["row"].to_list() == [0, 1]


def test_copies_and_fills_are_linked_too() -> None:
    events = profile(
        event("runtime", "cudaMemcpyAsync", 0, 5, correlation=1),
        event("driver", "cuMemsetD8Async", 10, 5, correlation=2),
        event("memcpy", "Memcpy DtoD", 20, 5, correlation=1),
        event("memset", "Memset", 30, 5, correlation=2),
    ).events
    assert names(link(events), "launch_row", events) == ["cudaMemcpyAsync", "cuMemsetD8Async"]


def test_ranks_of_a_merged_file_do_not_mix() -> None:
    events = profile(
        event("runtime", "launch of 0", 0, 5, correlation=1, rank=0),
        event("runtime", "launch of 1", 0, 5, correlation=1, rank=1),
        event("kernel", "gemm", 20, 5, correlation=1, rank=1),
    ).events
    assert names(link(events), "launch_row", events) == ["launch of 1"]


def test_one_graph_launch_has_many_activities() -> None:
    events = profile(
        event("annotation", "decode", 0, 100),
        event("annotation", "sample", 50, 20),
        event("python", "replay", 5, 20),
        event("runtime", "cudaGraphLaunch", 10, 5, correlation=1),
        event("kernel", "a", 20, 5, correlation=1),
        event("kernel", "b", 30, 5, correlation=1),
    ).events
    linked = link(events)
    assert linked["launch_row"].to_list() == [3, 3]
    assert enclosing(events, linked, "annotation").to_list() == [0, 0]
    assert enclosing(events, linked, "python").to_list() == [2, 2]
