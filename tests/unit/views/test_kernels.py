from __future__ import annotations

import pytest

from solscope.errors import UsageError
from solscope.views.kernels import kernels
from tests.making import aggregate, attributed, event

GEMM = "nvjet_tst_128x8_64x12_2x1_v_bz_TNT"
COPY_F = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)"
COPY_H = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<half>>(int)"


def test_statistics_of_one_name() -> None:
    made = attributed(*(event("kernel", GEMM, 1000 * i, d) for i, d in enumerate([10, 20, 60])))
    (row,) = kernels(made).kernels
    assert (row.calls, row.total_ns, row.mean_ns, row.median_ns) == (3, 90, 30.0, 20.0)
    assert (row.min_ns, row.max_ns) == (10, 60)
    assert row.std_ns == pytest.approx(26.457513)
    assert (row.category, row.short_name, row.pct) == ("gemm", GEMM, 100.0)


def test_a_single_call_has_no_deviation() -> None:
    assert kernels(attributed(event("kernel", GEMM, 0, 10))).kernels[0].std_ns == 0.0


def test_short_names_join_template_instances() -> None:
    made = attributed(event("kernel", COPY_F, 0, 10), event("kernel", COPY_H, 20, 30))
    assert len(kernels(made, by="name").kernels) == 2
    (row,) = kernels(made, by="short").kernels
    assert (row.name, row.calls) == ("vectorized_elementwise_kernel[FillFunctor]", 2)


def test_by_operator_keeps_what_has_none_as_its_own_row() -> None:
    made = attributed(
        event("cpu_op", "aten::mm", 0, 50, external_id=7),
        event("runtime", "cudaLaunchKernel", 10, 5, correlation=1, external_id=7),
        event("kernel", GEMM, 60, 30, correlation=1, external_id=7),
        event("kernel", "never_launched_here", 100, 10),
    )
    rows = {row.name: row.total_ns for row in kernels(made, by="op").kernels}
    assert rows == {"aten::mm": 30, "(no operator)": 10}


def test_by_operator_says_how_much_was_borrowed_from_the_same_kernel() -> None:
    made = attributed(
        event("cpu_op", "aten::mm", 0, 50, external_id=7),
        event("runtime", "cudaLaunchKernel", 10, 5, correlation=1, external_id=7),
        event("kernel", GEMM, 60, 30, correlation=1, external_id=7),
        event("kernel", GEMM, 100, 10),
    )
    (row,) = kernels(made, by="op").kernels
    assert (row.name, row.total_ns, row.borrowed_ns) == ("aten::mm", 40, 10)


def test_rows_are_sorted_by_time_and_sum_to_the_total() -> None:
    made = attributed(event("kernel", "a", 0, 10), event("memcpy", "Memcpy DtoD", 20, 30))
    table = kernels(made)
    assert [row.name for row in table.kernels] == ["Memcpy DtoD", "a"]
    assert table.total_ns == sum(row.total_ns for row in table.kernels) == 40


def test_aggregates_keep_what_the_source_says() -> None:
    row = {
        "kind": "kernel", "name": GEMM, "calls": 3, "total_ns": 90, "mean_ns": 30.0,
        "median_ns": 20.0, "min_ns": 10, "max_ns": 60, "std_ns": 26.5,
    }  # fmt: skip
    (made,) = kernels(aggregate(row)).kernels
    assert (made.median_ns, made.std_ns, made.max_ns) == (20.0, 26.5, 60)


def test_joined_aggregates_have_an_exact_deviation_and_no_median() -> None:
    # 10, 20 and 60 split into {10, 20} and {60}: together as in the first test.
    rows = [
        {
            "kind": "kernel", "name": COPY_F, "calls": 2, "total_ns": 30, "mean_ns": 15.0,
            "median_ns": 15.0, "min_ns": 10, "max_ns": 20, "std_ns": 50**0.5,
        },
        {
            "kind": "kernel", "name": COPY_H, "calls": 1, "total_ns": 60, "mean_ns": 60.0,
            "median_ns": 60.0, "min_ns": 60, "max_ns": 60, "std_ns": 0.0,
        },
    ]  # fmt: skip
    (row,) = kernels(aggregate(*rows), by="short").kernels
    assert row.std_ns == pytest.approx(26.457513)
    assert (row.median_ns, row.min_ns, row.max_ns, row.mean_ns) == (None, 10, 60, 30.0)


def test_an_aggregate_has_no_operators() -> None:
    row = {"kind": "kernel", "name": GEMM, "calls": 1, "total_ns": 9, "mean_ns": 9.0}
    with pytest.raises(UsageError, match="group by name, short or category"):
        kernels(aggregate(row), by="op")


SPLIT = "nvjet_tst_128x8_64x12_4x1_v_bz_splitK_TNT"
REDUCE = (
    "void cublasLt::splitKreduce_kernel<32, 16, int, float>(cublasLt::cublasSplitKParams<float>)"
)


def test_by_call_adds_helpers_to_the_kernel_they_serve() -> None:
    made = attributed(
        event("kernel", SPLIT, 0, 30),
        event("kernel", REDUCE, 40, 5),
        event("kernel", SPLIT, 60, 34),
        event("kernel", REDUCE, 100, 5),
    )
    (row,) = kernels(made, by="call").kernels
    assert (row.name, row.calls, row.total_ns, row.helper_ns) == (SPLIT, 2, 74, 10)
    assert (row.min_ns, row.max_ns, row.inferred) == (35, 39, False)


def test_by_call_shares_helpers_of_an_aggregate_by_counts_and_says_so() -> None:
    def row(name: str, calls: int, total: int) -> dict[str, object]:
        return {
            "kind": "kernel",
            "name": name,
            "calls": calls,
            "total_ns": total,
            "mean_ns": total / calls,
        }

    made = aggregate(
        row(SPLIT, 3, 300), row(SPLIT + "_2", 1, 90), row(GEMM, 9, 900), row(REDUCE, 4, 41)
    )
    table = kernels(made, by="call")
    found = {r.name: (r.calls, r.total_ns, r.helper_ns, r.inferred) for r in table.kernels}
    assert found == {
        GEMM: (9, 900, 0, False),
        SPLIT: (3, 331, 31, True),
        SPLIT + "_2": (1, 100, 10, True),
    }
    assert table.total_ns == 1331
