"""Operators and inputs for replays, from recordings of the captures of their graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import solscope
from solscope.attribution import Attributed, attribute
from solscope.attribution.capture_matching import _interleaved
from solscope.attribution.captures import captured
from solscope.attribution.classify import load_rules
from solscope.attribution.companion_files import captures_beside, companion_files
from solscope.attribution.companions import unmatched
from solscope.attribution.opening import Companions
from solscope.profile import Profile
from tests.making import event, profile

GEMM = "nvjet_tst_128x8_64x12_2x1_v_bz_TNT"
NORM = "void flashinfer::norm::RMSNormKernel<8, float>(int)"
ATTENTION = "void flash::flash_fwd_kernel<int>(int)"
LAYER = {NORM: "aten::rms_norm", GEMM: "aten::mm", ATTENTION: "aten::_flash_attention_forward"}
KERNELS = (NORM, GEMM, ATTENTION, GEMM) * 3


def capture(
    names: Sequence[str],
    start: int = 0,
    *,
    size: int = 8,
    named: bool = True,
    note: str | None = None,
    api: str = "hip",
) -> list[dict[str, Any]]:
    """A graph that is captured from `start` on: an operator and a launch per kernel."""
    calls = [
        made
        for i, name in enumerate(names)
        for made in (
            event("cpu_op", LAYER.get(name, f"op {name}"), start + 100 * i + 20, 80)
            | {"external_id": start + i + 1, "input_dims": f"[[{size},{i}]]"},
            event("runtime", f"{api}LaunchKernel", start + 100 * i + 30, 5)
            | {"correlation": start + i + 1, "external_id": start + i + 1}
            | ({"launched": name} if named else {}),
        )
    ]
    end = start + 100 * len(names) + 50
    around = [event("annotation", note, start - 50, end - start + 100)] if note else []
    begin = event("runtime", f"{api}StreamBeginCapture", start, 10)
    return [*around, begin, *calls, event("runtime", f"{api}StreamEndCapture", end, 10)]


def replay(
    names: Sequence[str],
    start: int = 0,
    *,
    correlation: int = 1,
    step: str | None = None,
    streams: Sequence[int] = (),
) -> list[dict[str, Any]]:
    note = [event("annotation", step, start, 90)] if step else []
    call = event("runtime", "cudaGraphLaunch", start + 5, 5, correlation=correlation)
    kernels = [
        event("kernel", name, start + 100 + 10 * i, 5, correlation=correlation)
        | ({"stream": streams[i]} if streams else {})
        for i, name in enumerate(names)
    ]
    return [*note, call, *kernels]


def made(own: list[dict[str, Any]], *companions: Profile) -> Attributed:
    return attribute(profile(*own), companion=companions)


def dims(result: Attributed) -> list[str | None]:
    return result.activities["dims_borrowed"].to_list()


def reasons(own: list[dict[str, Any]], *companions: Profile) -> list[str]:
    return unmatched(made(own, *companions), companions)


@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
def test_a_replay_takes_operators_and_inputs_of_its_capture(named: bool) -> None:
    taken = profile(*capture(KERNELS, named=named))
    result = made(replay(KERNELS), taken)
    assert result.activities["op_borrowed"].to_list() == [LAYER[name] for name in KERNELS]
    assert dims(result) == [f"[[8,{i}]]" for i in range(12)]
    assert set(result.activities["borrowed_by"]) == {"companion"}
    assert unmatched(result, [taken]) == []


def test_only_launches_inside_a_capture_are_its_nodes() -> None:
    outside = event("runtime", "hipLaunchKernel", 5000, 5, correlation=99, launched=GEMM)
    other_thread = event("runtime", "hipLaunchKernel", 130, 5, correlation=98, launched=GEMM)
    ran = [
        event("runtime", "hipLaunchKernel", 140, 5, correlation=97, launched=GEMM),
        event("kernel", GEMM, 150, 5, correlation=97),
    ]
    graph = event("runtime", "hipGraphLaunch", 160, 5, correlation=96)
    asked = event("runtime", "hipStreamGetCaptureInfo", 170, 5, correlation=95)
    twice = event("driver", "hipModuleLaunchKernel", 32, 2, correlation=1, launched=NORM)
    events = [outside, other_thread | {"tid": 2}, *ran, graph, asked, twice]
    nodes = captured(profile(*capture(KERNELS), *events), load_rules())
    assert nodes["name"].to_list() == list(KERNELS)
    assert nodes["capture"].to_list() == [0] * 12


def test_copies_and_fills_are_nodes() -> None:
    calls = [
        event("runtime", f"cuda{what}Async", 1205 + at, 1, correlation=90 + at)
        for at, what in enumerate(("Memcpy", "Memset"))
    ]
    taken = profile(*capture(KERNELS, api="cuda", named=False), *calls)
    copies = [
        event("memcpy", "Memcpy DtoD (Device -> Device)", 400, 5, correlation=1),
        event("memset", "Memset (Device)", 410, 5, correlation=1),
    ]
    result = made([*replay(KERNELS), *copies], taken)
    assert result.activities["borrowed_by"].drop_nulls().len() == 12
    swapped = [copies[0] | {"start_ns": 420}, copies[1]]
    why = "copies and fills are at other places of the graph"
    assert reasons([*replay(KERNELS), *swapped], taken) == [f"1 of 1 replays: {why}"]


def test_an_operator_around_the_launch_is_not_that_of_the_kernels() -> None:
    around = event("cpu_op", "Torch-Compiled Region: 0/0", 0, 50, external_id=500)
    result = made([around, *replay(KERNELS)], profile(*capture(KERNELS)))
    assert set(result.activities["op"]) == {"Torch-Compiled Region: 0/0"}
    assert result.activities["op_borrowed"].to_list() == [LAYER[name] for name in KERNELS]


def test_a_companion_does_not_lend_the_operator_around_a_graph_launch() -> None:
    around = event("cpu_op", "Torch-Compiled Region: 0/0", 0, 50, external_id=500)
    result = made(replay(KERNELS), profile(around, *replay(KERNELS)))
    assert set(result.activities["op_borrowed"]) == {None}


@pytest.mark.parametrize(("tokens", "size"), [(8, 8), (5, 8), (4, 4), (3, 4)])
def test_the_capture_of_the_least_batch_size_that_holds_the_step_is_taken(
    tokens: int, size: int
) -> None:
    taken = profile(
        *capture(KERNELS, size=8, note="capture_8_FULL"),
        *capture(KERNELS, 5000, size=4, note="capture_4_FULL"),
    )
    step = f"execute_context_0(0)_generation_{tokens}({tokens})"
    result = made(replay(KERNELS, step=step), taken)
    assert dims(result) == [f"[[{size},{i}]]" for i in range(12)]


def test_the_name_of_a_file_states_the_batch_size() -> None:
    taken = replace(profile(*capture(KERNELS)), path="somewhere/bs_16_rank0.json.gz")
    assert set(captured(taken, load_rules())["batch"]) == {16}


def test_more_tokens_than_were_captured() -> None:
    taken = profile(*capture(KERNELS, note="capture_4_FULL"))
    step = "execute_context_0(0)_generation_9(9)"
    why = "a step has 9 tokens; the captures given are for batch size 4"
    assert reasons(replay(KERNELS, step=step), taken) == [f"1 of 1 replays: {why}"]


def test_one_capture_alone_is_for_steps_of_its_size() -> None:
    """Whether another file holds a capture for three tokens is not known."""
    taken = profile(*capture(KERNELS, note="capture_4_FULL"))
    step = "execute_context_0(0)_generation_{0}({0})"
    assert reasons(replay(KERNELS, step=step.format(4)), taken) == []
    why = "a step has 3 tokens; the captures given are for batch size 4"
    assert reasons(replay(KERNELS, step=step.format(3)), taken) == [f"1 of 1 replays: {why}"]


def test_captures_that_differ_lend_only_what_they_agree_on() -> None:
    sizes = [profile(*capture(KERNELS, size=n, note=f"capture_{n}_FULL")) for n in (8, 4)]
    result = made(replay(KERNELS), *sizes)
    assert result.activities["op_borrowed"].to_list() == [LAYER[name] for name in KERNELS]
    assert set(dims(result)) == {None}
    why = "captures of batch sizes 4, 8 fit, and no step says how many tokens it has"
    assert unmatched(result, sizes) == [f"1 of 1 replays: {why}"]


def test_short_graphs_of_a_step_are_matched_by_their_order() -> None:
    pieces = [KERNELS[:3], KERNELS[3:7], KERNELS[:3]]
    taken = profile(
        *(
            made
            for i, names in enumerate(pieces)
            for made in capture(names, 5000 * i, size=i, note="capture_8_PIECEWISE")
        )
    )
    step = event("annotation", "execute_context_0(0)_generation_8(8)", 0, 900)
    own = [
        made for i, names in enumerate(pieces) for made in replay(names, 300 * i, correlation=i + 1)
    ]
    expected = [f"[[{i},{at}]]" for i, names in enumerate(pieces) for at in range(len(names))]
    assert dims(made([step, *own], taken)) == expected
    why = "graphs of fewer than 8 kernels may match by chance"
    alone = reasons([step, *own], profile(*capture(pieces[0], note="capture_8_PIECEWISE")))
    assert alone == [f"3 of 3 replays: {why}"]


def test_streams_keep_their_order_and_overlap_anew() -> None:
    """Called: norm, then gate on one stream, up on another; they start the other way around."""
    called = [f"acme_{i}" for i in range(9)]
    ran = [0, 2, 1, 3, 4, 6, 5, 7, 8]
    on = {2: 9, 5: 9}
    own = replay([called[i] for i in ran], streams=[on.get(i, 7) for i in ran])
    assert dims(made(own, profile(*capture(called)))) == [f"[[8,{i}]]" for i in ran]


def test_what_differs_is_named() -> None:
    other = (*KERNELS[:5], ATTENTION, *KERNELS[6:])
    taken = profile(*capture(KERNELS))
    result = made(replay(other), taken)
    assert set(dims(result)) == {None}
    why = "kernel 6 of 12 is flash::flash_fwd_kernel; the capture has"
    assert unmatched(result, [taken]) == [f"1 of 1 replays: {why} {GEMM} there"]


@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
def test_another_number_of_kernels(named: bool) -> None:
    taken = profile(*capture(KERNELS, named=named))
    why = "a replay has 9 kernels; the closest capture has 12"
    assert reasons(replay(KERNELS[:9]), taken) == [f"1 of 1 replays: {why}"]


def test_the_end_of_a_long_graph_may_be_lost() -> None:
    long = KERNELS * 4
    result = made(replay(long[:-1]), profile(*capture(long)))
    assert dims(result) == [f"[[8,{i}]]" for i in range(47)]


def test_launches_without_names_must_be_of_the_same_families() -> None:
    """One place off: as many nodes, of the same kinds, and all wrong."""
    taken = profile(*capture((*KERNELS[1:], KERNELS[0]), named=False))
    result = made(replay(KERNELS), taken)
    assert set(dims(result)) == {None}
    why = "only 0 of 12 kernels are of the family of the operator captured at their place"
    assert unmatched(result, [taken]) == [f"1 of 1 replays: {why}"]


def test_kernels_in_another_order_than_their_launches_take_nothing() -> None:
    """Equal calls run equal kernels: the last norm and product are swapped."""
    swapped = (*KERNELS[:8], GEMM, NORM, *KERNELS[10:])
    calls = capture(KERNELS, named=False)
    for call in calls:  # all products and all norms alike
        if call["kind"] == "cpu_op":
            call["input_dims"] = f"[[{list(LAYER.values()).index(call['name'])}]]"
    long = [*calls[:-1], *capture(KERNELS * 2, 1150, named=False)[1:]]
    for call in long:
        if call["kind"] == "cpu_op":
            call["input_dims"] = f"[[{list(LAYER.values()).index(call['name'])}]]"
    result = made(replay((*swapped, *KERNELS, *KERNELS)), profile(*long))
    expected = [f"[[{list(LAYER).index(name)}]]" for name in KERNELS * 3]
    assert dims(result) == [*expected[:8], None, None, *expected[10:]]


def test_launches_without_names_and_families_prove_nothing() -> None:
    unknown = tuple(f"acme_{i}" for i in range(12))
    why = "the families of only 0 kernels can be compared"
    taken = profile(*capture(unknown, named=False))
    assert reasons(replay(unknown), taken) == [f"1 of 1 replays: {why}"]


def test_an_eager_companion_of_another_program() -> None:
    taken = profile(
        *(event("kernel", name, 100 * i, 5) for i, name in enumerate((*KERNELS[:5], NORM)))
    )
    why = "the order is the same for 5 of 12 kernels; the next is nvjet_tst_128x8_64x12_2x1_v_bz"
    assert reasons(replay(KERNELS), taken) == [f"1 of 1 replays: {why}_TNT"]


def test_a_profile_without_replays_needs_no_companion() -> None:
    taken = profile(*capture(KERNELS))
    lost = event("kernel", "acme_lost", 10, 5)
    assert reasons([lost], taken) == ["it replays no graph"]
    op = event("cpu_op", "aten::mm", 0, 50, external_id=1)
    call = event("runtime", "cudaLaunchKernel", 10, 5, correlation=1, external_id=1)
    own = [op, call, event("kernel", GEMM, 60, 5, correlation=1)]
    assert reasons(own, taken) == ["all its kernels have operators of their own"]


def test_companions_are_opened_only_when_something_is_missing() -> None:
    taken = profile(*capture(KERNELS))
    result = made(replay(KERNELS), taken)
    assert unmatched(result, (pytest.fail("opened") for _ in range(1))) == []


def test_a_capture_that_does_not_end_has_no_nodes() -> None:
    events = capture(KERNELS)[:-1]
    assert captured(profile(*events), load_rules()).is_empty()
    assert captured(profile(event("kernel", GEMM, 0, 5)), load_rules()).is_empty()


def test_the_folder_beside_a_profile_is_found(tmp_path: Any) -> None:
    own = str(tmp_path / "replay.json")
    assert captures_beside(own) is None
    folder = tmp_path / "capture_traces"
    folder.mkdir()
    assert captures_beside(own) is None
    (folder / "bs_8_rank0.json").write_text("{}")
    assert captures_beside(own) == folder


def test_of_a_folder_the_captures_of_the_same_rank_are_taken(tmp_path: Any) -> None:
    trace = '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1}]}'
    names = ["bs_8_rank0.json", "bs_8_rank1.json", "graph_capture_rank_1.json"]
    for name in names:
        (tmp_path / name).write_text(trace)
    files = [str(tmp_path / name) for name in names]
    assert companion_files(tmp_path, 1) == files[1:]
    assert companion_files(tmp_path, None) == files
    assert companion_files(tmp_path, 7) == files
    assert companion_files(files[0], 1) == files[:1]


def test_companions_of_several_ranks_are_each_read_once(tmp_path: Any) -> None:
    trace = '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1}]}'
    files = [tmp_path / f"bs_8_rank{rank}.json" for rank in (0, 1)]
    for file in files:
        file.write_text(trace)
    lent = Companions(tmp_path, solscope.ReadOptions(cache=False))
    first, second, both = (list(lent.profiles(rank)) for rank in (0, 1, None))
    assert [each.path for each in (*first, *second)] == [str(file) for file in files]
    assert [id(each) for each in both] == [id(each) for each in (*first, *second)]
    assert lent.openings(None) == [*lent.openings(0), *lent.openings(1)]


def test_step_sizes_do_not_matter_to_captures_without_one() -> None:
    step = "execute_context_0(0)_generation_9(9)"
    result = made(replay(KERNELS, step=step), profile(*capture(KERNELS)))
    assert result.activities["dims_borrowed"].null_count() == 0


class Counted(np.ndarray[Any, Any]):
    """An array that counts how often it is turned into a list."""

    lists = 0

    def tolist(self) -> Any:
        Counted.lists += 1
        return super().tolist()


def test_streams_are_interleaved_without_a_list_for_each_node() -> None:
    nodes = np.array([1, 1, 2, 1, 3, 1], dtype=np.int64).view(Counted)
    ours = np.array([1, 2, 1, 1, 3, 1], dtype=np.int64)
    found = _interleaved([[0, 1, 2], [3, 4, 5]], ours, nodes)
    assert found == {0: 0, 1: 2, 2: 3, 3: 1, 4: 4, 5: 5}
    assert Counted.lists == 1
