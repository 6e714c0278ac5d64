from __future__ import annotations

import pytest

from solscope.attribution.classify import load_rules
from solscope.attribution.sequence import Unit, letters, units
from tests.making import attributed, event
from tests.models import NAMES

HELPERS: dict[str, str] = {r.id: r.helper for r in load_rules().rules if r.helper is not None}

POW = "void at::native::vectorized_elementwise_kernel<4, at::native::pow_tensor_scalar_kernel_impl>"
MEAN = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps>>"


def letter(name: str, kind: str = "kernel") -> str:
    (found,) = letters(attributed(event(kind, name, 0, 10)).activities, HELPERS)
    return str(found)


@pytest.mark.parametrize(("expected", "name"), NAMES.items())
def test_names_used_in_tests_mean_their_letter(expected: str, name: str) -> None:
    assert letter(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("void cublasLt::splitKreduce_kernel<32, 16, int, float>", "g"),
        ("void flash::flash_fwd_splitkv_combine_kernel<float>", "a"),
        ("vllm::topkGating<8, 128, 4>", "O"),
        ("vllm::moe::moe_align_block_size_kernel<int>", "D"),
        ("fused_moe_kernel", "P"),
        ("moe::dev::finalize::finalizeKernelVecLoad", "F"),
        ("deep_ep::internode_ll::dispatch<true, 7168>", "d"),
        ("deep_ep::internode_ll::combine<true, 7168>", "b"),
        ("flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport", "Y"),
        ("causal_conv1d_update_kernel", "V"),
        ("fused_recurrent_gated_delta_rule_fwd_kernel", "L"),
        ("fused_gdn_gating_kernel", "s"),
        (POW, "p"),
        (MEAN, "M"),
        ("void at::native::CatArrayBatchedCopy<float, 4>", "j"),
        ("acme_kernel", "o"),
    ],
)
def test_the_name_alone_gives_the_letter(name: str, expected: str) -> None:
    assert letter(name) == expected


def test_copies_and_fills_by_the_runtime_have_letters_too() -> None:
    assert letter("Memcpy DtoD (Device -> Device)", "memcpy") == "c"
    assert letter("Memset (Device)", "memset") == "m"


def test_every_activity_has_a_letter_in_the_order_of_the_table() -> None:
    made = attributed(*(event("kernel", NAMES[k], 10 * i, 5) for i, k in enumerate("GNGA")))
    assert letters(made.activities, HELPERS).to_list() == ["G", "N", "G", "A"]


def test_a_norm_written_out_is_one_unit() -> None:
    # cast, square, mean, add epsilon, rsqrt, scale, cast, weight; then a product
    assert units(list("cpMiqucuG")) == [Unit("N", 0, 8), Unit("G", 8, 9)]


def joined(text: str) -> str:
    return "".join(unit.letter for unit in units(list(text)))


def test_a_residual_behind_a_norm_is_no_bias_of_it() -> None:
    # An RMSNorm has no bias: the addition before the product is that of the residual.
    assert joined("cpMIqucuiGcpMIqucuiG") == "NiGNiG"
    assert joined("cMipMIqucuiGcMipMIqucuiG") == "NGNG"


def test_norms_of_two_ways_end_where_their_products_begin() -> None:
    assert joined("cpMIqucuGpMIquucGcpMIqucuGpMIquucGpMIquucG") == "NGNGNGNGNG"


def test_a_cast_more_than_usual_before_a_product_is_no_part_of_the_norm() -> None:
    assert joined("cpMIqucuGcpMIqucuGcpMIqucucG") == "NGNGNcG"


def test_norms_that_all_compute_in_another_type_hold_their_casts() -> None:
    assert joined("cNcGcNcG") == "NGNG"
    assert joined("NGcNcG") == "NGcNcG"


def test_an_l2_norm_written_out_is_one_unit() -> None:
    assert units(list("uriquA")) == [Unit("l", 0, 5), Unit("A", 5, 6)]


def test_all_else_is_a_unit_of_its_own() -> None:
    assert units(list("GA")) == [Unit("G", 0, 1), Unit("A", 1, 2)]


def test_units_cover_the_sequence_without_gap_or_overlap() -> None:
    found = units(list("EcpMiqucuGuiuriqucpMiquG"))
    assert [unit.start for unit in found] == [0, *(unit.end for unit in found[:-1])]
    assert found[-1].end == 24


def test_nothing_gives_nothing() -> None:
    assert units([]) == []


def test_a_cast_before_nearly_every_norm_belongs_to_it() -> None:
    parts = units(list("EicNGAGicNGSGicNGAGicNGSGicN"))
    assert "".join(unit.letter for unit in parts) == "EiNGAGiNGSGiNGAGiNGSGiN"


def test_a_copy_behind_communication_is_no_cast_of_the_norm_after_it() -> None:
    text = "ECcNGAGCcNGSGCcNGAGCcNGSGCcN"
    assert "".join(unit.letter for unit in units(list(text))) == text


def test_a_copy_of_a_sum_belongs_to_the_norm_behind_it() -> None:
    # One of two stacks casts the input of its norms.
    found = units(list("cNGAGicNGSGicNG" + "NGAGiNGSGi" * 3))
    assert "".join(unit.letter for unit in found).count("c") == 1
    assert [unit.end - unit.start for unit in found if unit.letter == "N"][:3] == [1, 2, 2]
