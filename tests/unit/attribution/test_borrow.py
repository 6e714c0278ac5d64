from __future__ import annotations

from typing import Any

import polars as pl

from solscope.attribution import attribute
from solscope.attribution.replays import counterparts
from tests.making import attributed, event, profile

GEMM = "nvjet_tst_128x8_64x12_2x1_v_bz_TNT"


def eager(
    op: str, correlation: int, grid: str, dims: str = "[[4,8],[8,2]]"
) -> list[dict[str, Any]]:
    """An operator that launches a product, at a time of its own."""
    at = 1000 * correlation
    return [
        event("cpu_op", op, at, 90, external_id=correlation, input_dims=dims),
        event(
            "runtime",
            "cudaLaunchKernel",
            at + 10,
            5,
            correlation=correlation,
            external_id=correlation,
        ),
        event("kernel", GEMM, at + 100, 30, correlation=correlation, grid=grid),
    ]


def test_the_same_kernel_with_the_same_grid_lends_its_operator_and_shapes() -> None:
    made = attributed(*eager("aten::mm", 1, "8,1,1"), event("kernel", GEMM, 9000, 30, grid="8,1,1"))
    own, borrowed = made.activities.select("op_borrowed", "dims_borrowed", "borrowed_by").rows()
    assert own == (None, None, None)
    assert borrowed == ("aten::mm", "[[4,8],[8,2]]", "same_kernel")


def test_another_grid_lends_nothing() -> None:
    made = attributed(*eager("aten::mm", 1, "8,1,1"), event("kernel", GEMM, 9000, 30, grid="9,1,1"))
    assert made.activities["op_borrowed"].to_list() == [None, None]


def test_a_kernel_of_two_operators_lends_none() -> None:
    made = attributed(
        *eager("aten::mm", 1, "8,1,1"),
        *eager("aten::addmm", 2, "8,1,1"),
        event("kernel", GEMM, 9000, 30, grid="8,1,1"),
    )
    assert made.activities["op_borrowed"].to_list() == [None, None, None]


def test_shapes_that_differ_between_calls_are_not_lent() -> None:
    made = attributed(
        *eager("aten::mm", 1, "8,1,1"),
        *eager("aten::mm", 2, "8,1,1", dims="[[5,8],[8,2]]"),
        event("kernel", GEMM, 9000, 30, grid="8,1,1"),
    )
    assert made.activities.select("op_borrowed", "dims_borrowed").rows()[-1] == ("aten::mm", None)


NORM = "void flashinfer::norm::RMSNormKernel<8, float>(int)"
ATTENTION = "void flash::flash_fwd_kernel<int>(int)"
ACT = "void flashinfer::activation::act_and_mul_kernel<float>(int)"
ROPE = "rotary_embedding_kernel"
LAYER = (NORM, GEMM, ROPE, ATTENTION, GEMM, NORM, GEMM, ACT, GEMM)


def test_a_companion_lends_by_place_in_the_model() -> None:
    kernels = [event("kernel", name, 100 * i, 50) for i, name in enumerate(LAYER * 2)]
    ops = [
        made
        for i, name in enumerate(LAYER * 2)
        for made in (
            event("cpu_op", f"op {i % 9}", 100 * i, 90, external_id=i + 1, input_dims=f"[[{i}]]"),
            event(
                "runtime", "cudaLaunchKernel", 100 * i + 1, 5, correlation=i + 1, external_id=i + 1
            ),
            event("kernel", name, 10_000 + 100 * i, 50, correlation=i + 1),
        )
    ]
    made = attribute(profile(*kernels), companion=profile(*ops))
    assert made.activities["op_borrowed"].to_list() == [f"op {i % 9}" for i in range(18)]
    assert made.activities["dims_borrowed"].to_list() == [f"[[{i}]]" for i in range(18)]
    assert set(made.activities["borrowed_by"]) == {"companion"}


def eager_run(names: tuple[str, ...], start: int = 0, size: int = 0) -> list[dict[str, Any]]:
    """Each kernel launched by an operator of its own, `size` in all shapes."""
    return [
        made
        for i, name in enumerate(names, start)
        for made in (
            event("cpu_op", f"op {i - start}", 100 * i, 90, external_id=i + 1)
            | {"input_dims": f"[[{size + i - start}]]"},
            event(
                "runtime", "cudaLaunchKernel", 100 * i + 1, 5, correlation=i + 1, external_id=i + 1
            ),
            event("kernel", name, 100_000 + 100 * i, 50, correlation=i + 1),
        )
    ]


def replay_of(names: tuple[str, ...]) -> list[dict[str, Any]]:
    call = event("runtime", "cudaGraphLaunch", 5, 5, correlation=1)
    return [
        call,
        *(event("kernel", n, 100 + 10 * i, 5, correlation=1) for i, n in enumerate(names)),
    ]


ODD = tuple(f"acme_kernel_{i}" for i in range(12))
"""Kernels that nothing is known of: no layers, no roles."""


def test_a_replay_borrows_from_the_same_sequence_in_its_companion() -> None:
    companion = profile(*eager_run((GEMM, *ODD, GEMM)))
    made = attribute(profile(*replay_of(ODD)), companion=companion).activities
    assert made["op_borrowed"].to_list() == [f"op {i}" for i in range(1, 13)]
    assert made["dims_borrowed"].to_list() == [f"[[{i}]]" for i in range(1, 13)]
    assert set(made["borrowed_by"]) == {"companion"}


def test_a_replay_with_one_other_kernel_is_another_sequence() -> None:
    other = (*ODD[:6], "acme_other", *ODD[7:])
    companion = profile(*eager_run((GEMM, *ODD, GEMM)))
    made = attribute(profile(*replay_of(other)), companion=companion).activities
    assert set(made["op_borrowed"]) == {None}


def test_inputs_that_differ_between_places_of_a_sequence_are_not_lent() -> None:
    companion = profile(*eager_run(ODD), *eager_run(ODD, start=20, size=5))
    made = attribute(profile(*replay_of(ODD)), companion=companion).activities
    assert made["op_borrowed"].to_list() == [f"op {i}" for i in range(12)]
    assert set(made["dims_borrowed"]) == {None}


def test_a_replay_borrows_from_eager_steps_of_its_size() -> None:
    """The same kernels with other shapes, in steps of 4 and of 8 tokens; the replay has 3."""
    sizes = {4: 0, 8: 20}
    notes = [
        event("annotation", f"execute_context_0(0)_generation_{n}({n})", 100 * at, 1900)
        for n, at in sizes.items()
    ]
    runs = [made for n, at in sizes.items() for made in eager_run(ODD, start=at, size=n)]
    step = event("annotation", "execute_context_0(0)_generation_3(3)", 0, 50)
    own = profile(step, *replay_of(ODD))
    made = attribute(own, companion=profile(*notes, *runs)).activities
    assert made["dims_borrowed"].to_list() == [f"[[{4 + i}]]" for i in range(12)]


def test_inputs_are_lent_as_a_whole() -> None:
    more = {
        "input_types": '["float","float"]',
        "input_strides": "[[8,1],[2,1]]",
        "concrete_inputs": '["",""]',
    }
    lender = eager("aten::mm", 1, "8,1,1")
    lender[0] |= more
    made = attributed(*lender, event("kernel", GEMM, 9000, 30, grid="8,1,1"))
    lent = made.activities.select("types_borrowed", "strides_borrowed", "concrete_borrowed")
    assert lent.rows() == [(None, None, None), tuple(more.values())]
    # One grid can serve several shapes: no call is made of it.
    assert made.activities["borrowed_call"].to_list() == [None, None]


def test_a_lost_kernel_borrows_from_the_same_sequence_first() -> None:
    calls = [e for n in range(1, 30) for e in eager("aten::mm", n, "8,1,1")]
    made = attributed(*calls, event("kernel", GEMM, 29_500, 30, grid="8,1,1"))
    last = made.activities.row(-1, named=True)
    assert (last["op_borrowed"], last["borrowed_by"]) == ("aten::mm", "sequence")
    assert last["borrowed_call"] == last["row"]


def test_a_kernel_without_a_name_does_not_stop_the_others() -> None:
    nameless = {**event("kernel", "x", 8000, 30), "name": None}
    made = attributed(
        *eager("aten::mm", 1, "8,1,1"), nameless, event("kernel", GEMM, 9000, 30, grid="8,1,1")
    )
    assert made.activities["op_borrowed"].to_list() == [None, None, "aten::mm"]


def test_replays_and_places_are_not_multiplied() -> None:
    """40 replays of a sequence that the companion holds 40 times: 1,600 pairs of each kernel."""
    times, count = 40, len(ODD)
    own = pl.DataFrame(
        {
            "name": ODD * times,
            "replayed": [True] * times * count,
            "launch_row": [at // count for at in range(times * count)],
            "start_ns": range(times * count),
            "step": 0,
            "tokens": None,
        },
    )
    there = own.with_columns(rank=pl.lit(0), device=pl.lit(0))
    found = counterparts(own, there)
    assert found.members.height == found.places.height == times * count
    assert found.members["sequence"].unique().to_list() == [0]
    assert found.members["turn"].to_list() == list(range(count)) * times
    assert sorted(found.places["other"]) == list(range(times * count))
