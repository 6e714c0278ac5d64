from __future__ import annotations

from typing import Any

from solscope.attribution import attribute
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
LAYER = (NORM, GEMM, ATTENTION, GEMM, NORM, GEMM, ACT, GEMM)


def test_a_companion_lends_by_place_in_the_model() -> None:
    kernels = [event("kernel", name, 100 * i, 50) for i, name in enumerate(LAYER * 2)]
    ops = [
        made
        for i, name in enumerate(LAYER * 2)
        for made in (
            event("cpu_op", f"op {i % 8}", 100 * i, 90, external_id=i + 1, input_dims=f"[[{i}]]"),
            event(
                "runtime", "cudaLaunchKernel", 100 * i + 1, 5, correlation=i + 1, external_id=i + 1
            ),
            event("kernel", name, 10_000 + 100 * i, 50, correlation=i + 1),
        )
    ]
    made = attribute(profile(*kernels), companion=profile(*ops))
    assert made.activities["op_borrowed"].to_list() == [f"op {i % 8}" for i in range(16)]
    assert made.activities["dims_borrowed"].to_list() == [f"[[{i}]]" for i in range(16)]
    assert set(made.activities["borrowed_by"]) == {"companion"}


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
