from __future__ import annotations

from typing import Any

import pytest

from tests.making import attributed, event

GEMM = "nvjet_tst_128x8_64x12_4x1_v_bz_splitK_TNT"
REDUCE = "void cublasLt::splitKreduce_kernel<32, 16>(int)"
PREPARE = "void flash::prepare_varlen_num_blocks_kernel<8, true>(int)"
ATTENTION = (
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<int>>>(int)"
)
COMBINE = "void cutlass::device_kernel<flash::FlashAttnFwdCombine<int>>(int)"
QUANT = "per_token_group_quant_fp8_kernel"
NORM = "void flashinfer::norm::FusedAddRMSNormKernel<8, float>(int)"


def owners(*names: str) -> list[str | None]:
    """Name of each kernel's owner, for kernels that ran in this order on one stream."""
    made = attributed(*(event("kernel", name, 100 * i, 50) for i, name in enumerate(names)))
    found = made.profile.events["name"].gather(made.activities["owner_row"])
    return [None if name is None else str(name) for name in found]


def test_a_split_k_reduction_belongs_to_the_product_before_it() -> None:
    assert owners(GEMM, REDUCE, GEMM) == [None, GEMM, None]


def test_the_three_kernels_of_one_attention_call_belong_together() -> None:
    assert owners(PREPARE, ATTENTION, COMBINE) == [ATTENTION, None, ATTENTION]


def test_quantization_belongs_to_the_product_it_feeds() -> None:
    assert owners(NORM, QUANT, GEMM) == [None, GEMM, None]


def test_an_owner_too_far_away_is_none() -> None:
    assert owners(GEMM, *[NORM] * 4, REDUCE)[-1] is None


def test_kernels_of_another_stream_do_not_own() -> None:
    made = attributed(
        event("kernel", GEMM, 0, 50, stream=1), event("kernel", REDUCE, 100, 50, stream=2)
    )
    assert made.activities["owner_row"].to_list() == [None, None]


@pytest.mark.parametrize(("op", "expected"), [(1, [5, None]), (2, [None, None])])
def test_a_fill_belongs_to_the_next_kernel_of_the_same_operator(
    op: int, expected: list[int | None]
) -> None:
    def launch(correlation: int, external: int) -> dict[str, Any]:
        more = {"correlation": correlation, "external_id": external}
        return event("runtime", "cudaLaunchKernel", 10 * correlation, 1, **more)

    made = attributed(
        event("cpu_op", "aten::mm", 0, 100, external_id=1),
        event("cpu_op", "aten::zero_", 0, 100, external_id=2, tid=9),
        launch(7, op),
        launch(8, 1),
        event("memset", "Memset (Device)", 200, 5, correlation=7),
        event("kernel", GEMM, 210, 50, correlation=8),
    )
    assert made.activities["owner_row"].to_list() == expected
