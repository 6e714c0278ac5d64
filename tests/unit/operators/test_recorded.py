"""From recorded operators to axes and costs, each against a calculation by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from msgspec.structs import replace

from solscope.operators import operator, operators
from solscope.operators.base import Cost
from solscope.operators.calls.lengths import stated_lengths
from solscope.operators.recorded import Recorded, homes, recognize, rule_of
from solscope.operators.tensors import Tensor

BF16 = "c10::BFloat16"


def call(name: str, dims: list[Any], types: list[str], **more: Any) -> Recorded:
    return Recorded(name, dims, types, **more)


def cost(recorded: Recorded) -> Cost:
    found = recognize(recorded)
    assert not isinstance(found, str), found
    return operator(found[0]).cost(found[1])


def reason(recorded: Recorded) -> str:
    found = recognize(recorded)
    assert isinstance(found, str)
    return found


# --- Tensors


def test_a_broadcast_dimension_is_stored_once() -> None:
    assert Tensor((4, 8, 16), BF16, (16, 0, 1)).bytes == 4 * 16 * 2


def test_overlapping_windows_hold_no_more_than_their_span() -> None:
    # 5 windows of 4 elements, one apart: elements 0 ... 7.
    assert Tensor((5, 4), "float", (1, 1)).bytes == 8 * 4


# --- Matrix products


def test_mm() -> None:
    made = cost(call("aten::mm", [[8944, 1024], [1024, 2816]], [BF16, BF16]))
    assert made.flops == {"tensor.bf16": 51_581_550_592}
    assert made.read_bytes == {"activations": 2 * 8944 * 1024, "weights": 2 * 1024 * 2816}
    assert made.write_bytes == {"activations": 2 * 8944 * 2816}


def test_addmm_reads_its_bias() -> None:
    made = cost(call("aten::addmm", [[5], [3, 4], [4, 5], [], []], [BF16, BF16, BF16, "Scalar"]))
    assert made.flops == {"tensor.bf16": 2 * 3 * 5 * 4}
    assert made.read_bytes["weights"] == 2 * (4 * 5 + 5)


@pytest.mark.parametrize(
    ("kernel", "pipe"),
    [
        ("cutlass_80_simt_sgemm_128x32", "vector.fp32"),
        ("cutlass_80_tensorop_s1688gemm_128x64", "tensor.tf32"),
        ("some_kernel", "tensor.tf32"),
    ],
)
def test_fp32_counts_as_tf32_unless_the_kernel_rules_it_out(kernel: str, pipe: str) -> None:
    made = cost(call("aten::mm", [[2, 3], [3, 4]], ["float", "float"], kernel=kernel))
    assert made.flops == {pipe: 48}


def test_bmm_reads_a_shared_matrix_once() -> None:
    strides = [[12, 4, 1], [0, 5, 1]]
    made = cost(call("aten::bmm", [[7, 3, 4], [7, 4, 5]], [BF16, BF16], strides=strides))
    assert made.flops == {"tensor.bf16": 2 * 7 * 3 * 4 * 5}
    assert made.read_bytes == {"activations": 2 * (7 * 12 + 20)}


def test_grouped_mm_counts_one_expert_and_expects_uniform_routing() -> None:
    dims = [[2, 8], [4, 8, 6], [4], [], []]
    found = recognize(call("aten::_grouped_mm", dims, [BF16, BF16, "int", "", ""]))
    assert not isinstance(found, str)
    entry = operator(found[0])
    assert entry.cost(found[1]).flops == {"tensor.bf16": 2 * 2 * 8 * 6}
    assert entry.cost(found[1]).read_bytes["weights"] == 2 * 8 * 6
    assert entry.expected is not None
    # Two choices among four experts reach 4 (1 - (3/4)^2) = 1.75 of them.
    assert entry.expected(found[1]).read_bytes["weights"] == 1.75 * 2 * 8 * 6


FP8, FP4 = "c10::Float8_e4m3fn", "c10::Float4_e2m1fn_x2"


def test_products_of_narrow_types() -> None:
    made = cost(call("aten::_scaled_mm", [[4, 64], [64, 6]], [FP8, FP8]))
    assert made.flops == {"tensor.fp8": 2 * 4 * 6 * 64}
    assert (made.read_bytes["weights"], made.write_bytes) == (64 * 6, {"activations": 24})
    # Two values to a byte: k is 64
    made = cost(call("aten::_scaled_mm", [[4, 32], [32, 6]], [FP4, FP4]))
    assert made.flops == {"tensor.fp4": 2 * 4 * 6 * 64}
    assert made.read_bytes == {"activations": 4 * 32, "weights": 32 * 6}
    dims, byte = [[4, 6], [4, 32], [6, 32]], "unsigned char"
    made = cost(call("_C::cutlass_scaled_fp4_mm", dims, [BF16, byte, byte]))
    assert made.flops == {"tensor.fp4": 2 * 4 * 6 * 64}
    assert made.write_bytes == {"activations": 2 * 4 * 6}
    made = cost(call("aten::_int_mm", [[4, 64], [64, 6]], ["signed char", "signed char"]))
    assert (made.flops, made.write_bytes) == ({"tensor.int8": 3072}, {"activations": 96})
    assert "matrix product" in reason(call("aten::_scaled_mm", [[4, 32], [64, 6]], [FP8, FP8]))


@pytest.mark.parametrize(
    ("name", "dims", "types"),
    [
        # 8 weights of 4 bits to an int32, by rows, by columns, or in tiles of 16 x 64
        ("_C::gptq_gemm", [[3, 128], [16, 64], [1, 8], [1, 64]], [BF16, "int", "int", BF16]),
        ("_C::awq_gemm", [[3, 128], [128, 8], [1, 64], [1, 8]], [BF16, "int", BF16, "int"]),
        ("_C::marlin_gemm", [[3, 128], [], [8, 128], [], [1, 64]], [BF16, "", "int", "", BF16]),
        (
            "aten::_weight_int4pack_mm",
            [[3, 128], [8, 1, 32, 4], [], [1, 64, 2]],
            [BF16, "int", "Scalar", BF16],
        ),
    ],
)
def test_products_with_weights_of_four_bits(name: str, dims: list[Any], types: list[str]) -> None:
    made = cost(call(name, dims, types))
    assert made.flops == {"tensor.bf16": 2 * 3 * 64 * 128}
    assert made.read_bytes == {"activations": 2 * 3 * 128, "weights": 64 * 128 / 2}
    assert made.write_bytes == {"activations": 2 * 3 * 64}


def test_packed_weights_that_do_not_fit_have_no_cost() -> None:
    odd = call("_C::gptq_gemm", [[3, 128], [17, 64], [1, 64]], [BF16, "int", BF16])
    assert "do not fit" in reason(odd)
    assert "scales" in reason(call("_C::gptq_gemm", [[3, 128], [16, 64]], [BF16, "int"]))


def test_experts_with_their_weights() -> None:
    dims = [[5, 8], [4, 12, 8], [4, 8, 6], [5, 2], [5, 2]]
    types = [BF16, BF16, BF16, "float", "int"]
    made = cost(call("vllm::inplace_fused_experts", dims, types))
    # 5 tokens x 2 experts x 3 products of 8 x 6; the fewest experts are 2
    assert made.flops["tensor.bf16"] == 2 * 5 * 2 * 3 * 8 * 6
    assert made.read_bytes["weights"] == 2 * 2 * 3 * 8 * 6
    dims[1] = [4, 12, 4]
    assert "packed" in reason(call("sglang::outplace_fused_experts", dims, types))


def test_scaled_grouped_mm() -> None:
    made = cost(call("aten::_scaled_grouped_mm", [[2, 8], [4, 8, 6]], [FP8, FP8]))
    assert made.flops == {"tensor.fp8": 2 * 2 * 8 * 6}


# --- Attention

CUDNN = ["", "", "", "", "", "", "4", "4", "False", "0.", "True", "False", ""]


def cudnn(queries: int, keys: int, causal: str, mask: bool = False) -> Cost:
    dims = [[2, 6, queries, 8], [2, 3, keys, 8], [2, 3, keys, 8], [2, 1, queries, keys] * mask]
    concrete = [*CUDNN[:10], causal, *CUDNN[11:]]
    types = [BF16, BF16, BF16, BF16 if mask else ""]
    return cost(call("aten::_cudnn_attention_forward", dims, types, concrete=concrete))


def test_causal_prefill() -> None:
    made = cudnn(4, 4, "True")  # 1 + 2 + 3 + 4 = 10 pairs, 2 sequences, 6 heads
    assert made.flops == {"tensor.bf16": 4 * 8 * 2 * 6 * 10, "sfu": 120}
    assert made.read_bytes == {"activations": 2 * 2 * 4 * 6 * 8, "cache": 2 * 2 * 2 * 4 * 3 * 8}


def test_full_attention() -> None:
    assert cudnn(4, 4, "False").flops["sfu"] == 2 * 6 * 16


def test_unknown_causality_is_taken_as_the_smaller_cost() -> None:
    assert cudnn(4, 4, "").flops == cudnn(4, 4, "True").flops
    assert cudnn(4, 4, "False", mask=True).flops == cudnn(4, 4, "True").flops


def test_decode_sees_all_keys_and_reads_its_mask() -> None:
    made = cudnn(1, 9, "False", mask=True)
    assert made.flops["sfu"] == 2 * 6 * 9
    assert made.read_bytes["activations"] == 2 * 2 * 6 * 8 + 2 * 2 * 9


def test_flash_attention_has_the_sequence_before_the_heads() -> None:
    dims = [[16, 559, 16, 64]] * 3
    concrete = ["", "", "", "", "", "559", "559", "0.", "True"]
    made = cost(call("aten::_flash_attention_forward", dims, [BF16] * 3, concrete=concrete))
    assert made.flops["tensor.bf16"] == 4 * 64 * 16 * 16 * (559 * 560 // 2)


# --- Elements


def test_mul_broadcasts() -> None:
    dims, strides = [[2, 3, 4], [4]], [[12, 4, 1], [1]]
    made = cost(call("aten::mul", dims, ["float", BF16], strides=strides))
    assert (made.read_bytes["activations"], made.write_bytes["activations"]) == (96 + 8, 96)
    assert made.flops["vector.fp32"] == 24


def test_a_product_of_two_alike_may_be_a_square() -> None:
    dims, strides = [[4, 4], [4, 4]], [[4, 1], [4, 1]]
    assert cost(call("aten::mul", dims, [BF16, BF16], strides=strides)).bytes == 2 * 32
    assert cost(call("aten::add", dims, [BF16, BF16], strides=strides)).bytes == 3 * 32


def test_a_number_does_not_widen_the_result() -> None:
    made = cost(call("aten::add", [[8], [], []], ["float", "double", "Scalar"]))
    assert made.write_bytes["activations"] == 32


def test_a_comparison_gives_bytes_and_in_place_keeps_the_type() -> None:
    assert cost(call("aten::eq", [[8], []], ["long int", "Scalar"])).write_bytes == {
        "activations": 8
    }
    made = cost(call("aten::add_", [[8], [8], []], [BF16, "float", "Scalar"]))
    assert made.write_bytes == {"activations": 16}


def test_the_out_argument_is_not_read() -> None:
    assert cost(call("aten::div", [[8], [8], [8]], ["float"] * 3)).bytes == 3 * 32


def test_where_reads_the_smaller_source() -> None:
    made = cost(call("aten::where", [[8], [8], []], ["bool", BF16, BF16]))
    assert (made.read_bytes["activations"], made.write_bytes["activations"]) == (8 + 2, 16)


def test_masked_fill_in_place_needs_only_the_mask() -> None:
    made = cost(call("aten::masked_fill_", [[8, 4], [8, 1], []], [BF16, "bool", "Scalar"]))
    assert made.bytes == 8


def test_copy_converts_and_leaves_the_host_out() -> None:
    dims, types = [[8], [8], []], ["float", BF16, "Scalar"]
    assert cost(call("aten::copy_", dims, types)).bytes == 32 + 16
    there = "Memcpy HtoD (Pageable -> Device)"
    assert cost(call("aten::copy_", dims, types, kernel=there)).bytes == 32
    back = "Memcpy DtoH (Device -> Pageable)"
    assert cost(call("aten::copy_", dims, types, kernel=back)).bytes == 16


def test_cat_takes_the_size_of_an_element_from_the_kernel() -> None:
    name = "void CatArrayBatchedCopy<OpaqueType<2u>, unsigned int, 4, 64, 64>"
    recorded = call("aten::cat", [[[2, 4], [2, 6]], []], ["TensorList", "Scalar"], kernel=name)
    assert cost(recorded).bytes == 2 * 2 * 20
    no_kernel = call("aten::cat", [[[2, 4], [2, 6]], []], ["TensorList", "Scalar"])
    assert "not recorded" in reason(no_kernel)


def test_arange_and_fill() -> None:
    types = ["Scalar", "Scalar", "Scalar", "long int"]
    recorded = call("aten::arange", [[], [], [], [0]], types, concrete=["2", "10", "3", ""])
    assert cost(recorded).bytes == 8 * 3
    assert cost(call("aten::fill_", [[5], []], [BF16, "Scalar"])).bytes == 10


# --- Rows, reductions, norms


def test_embedding_reads_one_row_at_least() -> None:
    recorded = call(
        "aten::index_select", [[100, 8], [], [5]], [BF16, "Scalar", "long int"], concrete=["", "0"]
    )
    made = cost(recorded)
    assert made.read_bytes == {"index": 40, "weights": 16}
    assert made.write_bytes == {"activations": 80}


ROWS = "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int)"
ELEMENTS = "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<int>>"


def test_the_grid_of_an_index_says_how_much_comes_out() -> None:
    def index(shape: list[int], kernel: str, grid: str) -> Recorded:
        return call("aten::index", [shape, []], ["float", ""], kernel=kernel, grid=grid)

    # 32 rows of 8192 bytes; two blocks of 256 threads x 16 bytes for each
    made = cost(index([50, 2048], ROWS, "32,2,1"))
    assert (made.read_bytes, made.write_bytes) == (
        {"index": 256, "weights": 8192},
        {"activations": 32 * 8192},
    )
    # 3 blocks of 512 elements: at least 1025 of them
    made = cost(index([9999], ELEMENTS, "3,1,1"))
    assert made.write_bytes == {"activations": 4 * 1025}
    assert "indices" in reason(index([50, 2048], ROWS, ""))
    # More blocks per row than a row of 8 bytes has: not whole rows
    assert "indices" in reason(index([50, 2], ROWS, "32,2,1"))
    # The index may stand behind dimensions of length 1
    assert cost(index([1, 50, 1024], ROWS, "7,1,1")).write_bytes == {"activations": 7 * 4096}


def test_reductions() -> None:
    types = ["float", "ScalarList", "Scalar", ""]
    made = cost(call("aten::mean", [[4, 8], [], [], []], types, concrete=["", "[-1]", "True", ""]))
    assert (made.flop, made.bytes) == (28, 4 * 32 + 4 * 4)
    made = cost(call("aten::argmax", [[4, 8], [], []], [BF16, "Scalar"], concrete=["", "-1"]))
    assert made.bytes == 2 * 32 + 8 * 4
    assert cost(call("aten::max", [[4, 8]], ["float"], concrete=[""])).bytes == 4 * 32 + 4


def test_softmax_topk_sort() -> None:
    made = cost(call("aten::_softmax", [[2, 8], [], []], ["float", "Scalar", "Scalar"]))
    assert (made.flops, made.bytes) == ({"vector.fp32": 64, "sfu": 16}, 128)
    topk = call("aten::topk", [[2, 8]], ["float"], concrete=["", "3", "-1", "True", "True"])
    assert cost(topk).bytes == 4 * 16 + (4 + 8) * 6
    assert cost(call("aten::sort", [[16]], ["long int"])).bytes == 8 * 48


def test_norms_and_engine_operators() -> None:
    dims = [[5, 8], [5, 8], [8], []]
    found = recognize(call("_C::fused_add_rms_norm", dims, [BF16, BF16, BF16, "Scalar"]))
    assert found == ("fused_add_rms_norm", {"tokens": 5, "hidden": 8, "dtype": "bf16"})
    found = recognize(call("sgl_kernel::silu_and_mul", [[5, 8], [5, 16]], [BF16, BF16]))
    assert found == ("silu_and_mul", {"tokens": 5, "intermediate": 8, "dtype": "bf16"})
    cache = [[3, 2, 4], [3, 2, 4], [99, 16, 2, 4], [99, 16, 2, 4], [3]]
    kinds = [BF16, BF16, "unsigned char", "unsigned char", "long int"]
    made = cost(call("_C_cache_ops::reshape_and_cache_flash", cache, kinds))
    assert (made.read_bytes, made.write_bytes) == (
        {"activations": 2 * 48, "index": 24},
        {"activations": 48},
    )


def test_triangular_solve_and_depthwise_convolution() -> None:
    concrete = ["", "", "False", "True", "True"]
    solve = call(
        "aten::linalg_solve_triangular",
        [[3, 4, 4], [3, 4, 5]],
        ["float", "float"],
        concrete=concrete,
    )
    made = cost(solve)
    assert (made.flop, made.bytes) == (3 * 5 * 16, 4 * 3 * (10 + 20 + 20))
    conv = call(
        "aten::_conv_depthwise2d",
        [[2, 8, 1, 5], [8, 1, 1, 4]],
        [BF16, BF16],
        concrete=["", "", "[1, 4]", "", "[1, 1]", "[0, 3]", "[1, 1]"],
    )
    made = cost(conv)  # 5 + 6 - 4 + 1 = 8 results of each channel
    assert made.flop == 2 * 2 * 8 * 8 * 4
    assert made.bytes == 2 * (2 * 8 * 5 + 8 * 4 + 2 * 8 * 8)


def test_embedding() -> None:
    dims, types = [[100, 8], [2, 5], [], [], []], [BF16, "long int", "Scalar", "Scalar", "Scalar"]
    made = cost(call("aten::embedding", dims, types))
    assert made.read_bytes == {"index": 80, "weights": 16}
    assert made.write_bytes == {"activations": 160}


def test_routing_of_engines() -> None:
    dims, types = [[5, 2], [5, 2], [5, 2], [5, 16]], ["float", "int", "int", "float"]
    found = recognize(call("_moe_C::topk_softmax", dims, types))
    assert found == ("moe_topk_gating_softmax", {"tokens": 5, "experts": 16, "top_k": 2})
    narrow = cost(call("_moe_C::topk_softmax", dims, [*types[:3], BF16]))
    assert narrow.bytes == 2 * 80 + (4 + 4) * 10
    found = recognize(call("_moe_C::moe_sum", [[5, 2, 8], [5, 8]], [BF16, BF16]))
    assert found == ("moe_sum_reduce", {"tokens": 5, "top_k": 2, "hidden": 8, "dtype": "bf16"})
    blocks = call("_moe_C::moe_align_block_size", [[5, 2]], ["int"], concrete=["", "8", "16"])
    assert recognize(blocks) == (
        "moe_align_block_size",
        {"tokens": 5, "top_k": 2, "block_size": 16},
    )


# --- Sampling and communication


def test_sampling_takes_the_rows_of_logits() -> None:
    dims = [[4, 1000], [4], []]
    found = recognize(call("sgl_kernel::top_p_sampling_from_probs", dims, ["float", "int", ""]))
    assert found == ("sampling", {"rows": 4, "vocabulary": 1000, "dtype": "fp32"})
    made = cost(call("flashinfer::sampling_from_logits", [[4], [4, 1000]], ["int", BF16]))
    assert (made.flops["sfu"], made.read_bytes) == (4000, {"activations": 8000})
    assert "logits" in reason(call("aten::multinomial", [[4]], ["float"]))


NCCL = "ncclDevKernel_{}(ncclDevKernelArgsStorage<4096ul>)"
GROUP = ["", "", "", "0", "", "[]", "[]", "0", "1", "8"]


def test_a_collective_is_known_by_its_kernel() -> None:
    # As torch records the gathering of logits by 8 ranks
    found = recognize(
        call(
            "record_param_comms",
            [[1, 25136]],
            [BF16],
            concrete=GROUP,
            kernel=NCCL.format("AllGather_RING_LL"),
        )
    )
    assert found == ("all_gather", {"bytes": 2 * 25136, "ranks": 8})
    other = call("record_param_comms", [[4]], [BF16], kernel="ncclDevKernel_Broadcast_RING_LL")
    assert "known collective" in reason(other)


def test_a_list_has_its_type_in_the_kernel() -> None:
    kernel = NCCL.format("AllReduce_Sum_bf16_RING_LL")
    listed = call("record_param_comms", [[[3, 4], [5]]], ["TensorList"], kernel=kernel)
    assert recognize(listed) == ("all_reduce", {"bytes": 2 * 17})
    unknown = call("record_param_comms", [[[3]]], ["TensorList"], kernel="ncclKernel_AllReduce")
    assert "type" in reason(unknown)
    assert "size" in reason(call("record_param_comms", [[]], [""], kernel=kernel))


def test_uneven_parts_keep_the_largest() -> None:
    # 10 rows of 4 floats, parts of 1, 2 and 7 rows go and 4, 2 and 1 come: 4 may stay, so that 6
    # rows of 16 bytes leave
    concrete = [*GROUP[:5], "[1, 2, 7]", "[4, 2, 1]", "0", "1", "3"]
    kernel = NCCL.format("SendRecv")
    made = cost(call("record_param_comms", [[10, 4]], ["float"], concrete=concrete, kernel=kernel))
    assert (made.bytes, made.link_bytes) == (320, 96)


def test_the_switch_adds_in_multimem_kernels() -> None:
    found = recognize(call("symm_mem::multimem_all_reduce_", [[2557440], [], []], [BF16, "", ""]))
    assert found == ("all_reduce", {"bytes": 5114880, "in_network": True})
    found = recognize(call("_C_custom_ar::all_reduce", [[], [8]], ["Scalar", BF16]))
    assert found == ("all_reduce", {"bytes": 16})
    made = call("vllm::all_gather", [[2, 8], [], []], [BF16, "", ""], concrete=["", "-1", "4"])
    assert recognize(made) == ("all_gather", {"bytes": 32, "ranks": 4})


# --- Shapes without types


@pytest.mark.parametrize(
    ("kernel", "pipe", "size"),
    [
        ("nvjet_tst_128x8_64x12_2x1_v_bz_TNT", "tensor.bf16", 2),
        ("sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize96x128x32", "tensor.fp16", 2),
        ("sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize64x64x128", "tensor.fp8", 1),
        ("ampere_sgemm_128x64_tn", "vector.fp32", 4),
    ],
)
def test_types_of_a_product_come_from_its_kernel(kernel: str, pipe: str, size: int) -> None:
    made = cost(call("aten::mm", [[4, 8], [8, 2]], [], kernel=kernel))
    assert made.flops == {pipe: 2 * 4 * 8 * 2}
    assert made.read_bytes["activations"] == size * 32


def test_the_narrowest_type_counts() -> None:
    kernel = "vectorized_elementwise_kernel<4, BinaryFunctor<c10::BFloat16, MulFunctor<float>>>"
    made = cost(call("aten::mul", [[100], []], [], kernel=kernel))
    assert (made.read_bytes, made.write_bytes) == ({"activations": 200}, {"activations": 200})


def test_without_a_type_in_the_kernel_there_is_no_cost() -> None:
    assert "kernel names none" in reason(call("aten::mul", [[4], [4]], [], kernel="acme"))
    cast = "unrolled_elementwise_kernel<float, LoadWithCast<1>>"
    assert "not recorded" in reason(call("aten::add", [[4], [4]], [], kernel=cast))
    assert "not recorded" in reason(call("aten::where", [[4], [4], [4]], [], kernel="float"))


# --- What is not known


def test_reasons() -> None:
    assert reason(call("acme::magic", [[4]], [BF16])) == "no cost model for this operator"
    assert "indices" in reason(call("aten::index", [[4, 4], []], [BF16, ""]))
    assert "type" in reason(call("aten::mul", [[4], [4]], ["Thing", "Thing"]))
    assert "matrix product" in reason(call("aten::mm", [[4, 3], [4, 3]], [BF16, BF16]))


def test_every_rule_is_found_in_the_file_of_its_operator() -> None:
    every = {name: rule for op in operators() for name, rule in op.recorded.items()}
    assert {name: rule_of(name) for name in homes()} == every
    assert rule_of("record_param_comms") is not None
    assert rule_of("acme::magic") is None


ONE = """
import sys
from solscope.operators.recorded import rule_of
rule_of("aten::mm")
print(*sorted(name.rpartition(".")[2] for name in sys.modules if ".operators.catalog." in name))
"""


def test_a_rule_imports_its_own_operator_alone() -> None:
    homes()
    line = [sys.executable, "-c", ONE]
    env = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(line, check=True, capture_output=True, env=env)  # finds the homes, if need be
    done = subprocess.run(line, check=True, capture_output=True, text=True, env=env)
    # The other two recognize kernels without a name of their own.
    assert done.stdout.split() == ["dense_gemm", "dot_product_attention", "fused_elementwise"]


@pytest.mark.parametrize(
    "dims", [[], [[]], [[1 << 60]] * 4, [["x"]] * 4, [[-1]] * 4, [None, {}], [[[]]] * 3]
)
def test_damaged_inputs_give_a_reason_or_a_cost(dims: list[Any]) -> None:
    assert len(homes()) > 100
    for name in homes():
        damaged = Recorded(name, dims, [BF16] * 5, dims, ["inf", "nan", "9" * 5000, "[", ""])
        found = recognize(damaged)
        assert isinstance(found, str) or operator(found[0]).cost(found[1]).bytes >= 0, name


# --- Convolutions, norms over channels, kernels of Inductor

CONV = ["", "", "[1, 1]", "[2, 2]", "[1, 1]", "2", "False"]


def test_convolution() -> None:
    # 2 images of 4 channels, 6 x 6; 8 filters of 3 x 3 in 2 groups, stride 2, padding 1: 3 x 3 out.
    dims = [[2, 4, 6, 6], [8, 2, 3, 3]]
    recorded = call("aten::cudnn_convolution", dims, [BF16] * 2, concrete=CONV)
    made = cost(recorded)
    # Windows overlap: a product per output, input channel of the group, and image.
    assert made.flops == {"tensor.bf16": 2 * 2 * 8 * 9 * 2}
    assert made.read_bytes == {"activations": 2 * 2 * 4 * 36, "weights": 2 * 8 * 2 * 9}
    assert made.write_bytes == {"activations": 2 * 2 * 8 * 9}
    found = recognize(recorded)
    assert not isinstance(found, str)
    likely = operator("convolution").expected
    assert likely is not None
    assert likely(found[1]).flops == {"tensor.bf16": 2 * 2 * 8 * 9 * 2 * 9}


def test_patches_share_no_products() -> None:
    # 8 x 8 pixels in patches of 4 x 4: 4 positions of 16 taps, 3 channels in and 5 out.
    scalars = ["", "", "", "[0, 0]", "[4, 4]", "[1, 1]", "1", "False"]
    types = [BF16, BF16, ""]
    dims = [[1, 3, 8, 8], [5, 3, 4, 4], []]
    made = cost(call("aten::miopen_convolution", dims, types, concrete=scalars))
    assert made.flops == {"tensor.bf16": 2 * 5 * 4 * 3 * 16}


def test_a_strided_convolution_may_skip_inputs() -> None:
    # 1 x 1 with stride 3 on 9 positions: 3 of them are read.
    scalars = ["", "", "[0]", "[3]", "[1]", "1"]
    dims = [[1, 2, 9], [4, 2, 1]]
    made = cost(call("aten::cudnn_convolution", dims, [BF16] * 2, concrete=scalars))
    assert made.read_bytes["activations"] == 2 * 2 * 3


def test_gradients_of_a_convolution() -> None:
    # 1 x 1, 3 channels in and 5 out on 4 x 4: both gradients take the products of the forward call.
    scalars = ["", "", "", "[0]", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1"]
    dims: list[Any] = [[1, 5, 4, 4], [1, 3, 4, 4], [5, 3, 1, 1], *([] for _ in range(8))]
    types = [BF16] * 3 + ["ScalarList"] * 4

    def backward(wanted: str) -> Recorded:
        return call("aten::convolution_backward", dims, types, concrete=[*scalars, wanted])

    made = cost(backward("[True, True, False]"))
    assert made.flops == {"tensor.bf16": 2 * 2 * 5 * 16 * 3}
    assert made.read_bytes == {"activations": 2 * (5 + 3) * 16, "weights": 2 * 15}
    assert made.write_bytes == {"activations": 2 * 3 * 16, "weights": 2 * 15}
    assert cost(backward("[False, True, True]")).flops == {"tensor.bf16": 2 * 5 * 16 * 3}
    scalars[7] = "True"
    assert reason(backward("[True, True, True]")) == "transposed convolutions are not known"


def test_norms_over_channels_and_their_gradients() -> None:
    dims: list[Any] = [[2, 3, 4, 5], [3], [3], [3], [3], [], [], []]
    made = cost(call("aten::native_batch_norm", dims, [BF16] * 5 + ["Scalar"] * 3))
    assert made.flops == {"vector.fp32": 4 * 120}
    assert (made.read_bytes, made.write_bytes) == ({"activations": 240}, {"activations": 240})
    dims[1] = dims[0]
    back = cost(call("aten::native_batch_norm_backward", dims, [BF16] * 5 + ["Scalar"] * 3))
    assert (back.read_bytes, back.write_bytes) == ({"activations": 480}, {"activations": 240})


def test_a_norm_without_weight() -> None:
    dims: list[Any] = [[4, 8], [], [], []]
    made = cost(call("aten::_fused_rms_norm", dims, [BF16, "ScalarList", "", "Scalar"]))
    assert made.flops["vector.fp32"] == 2 * 32
    assert (made.read_bytes, made.write_bytes) == ({"activations": 64}, {"activations": 64})


def test_index_copy() -> None:
    # 2 requests, 3 heads, 1 of 10 positions, 4 wide, into a cache of bf16.
    dims: list[Any] = [[2, 3, 10, 4], [], [1], [2, 3, 1, 4]]
    made = cost(call("aten::index_copy_", dims, [BF16, "Scalar", "long int", BF16]))
    assert made.read_bytes == {"activations": 48, "index": 8}
    assert made.write_bytes == {"activations": 48}


def test_gathered_parts_count_for_every_rank() -> None:
    made = cost(call("c10d::_allgather_base_", [[8, 100], [1, 100], []], [BF16, BF16, ""]))
    assert (made.link_bytes, made.bytes) == (200, 600)  # two ranks at least


@pytest.mark.parametrize("name", ["aiter::fmha_v3_fwd", "aiter::mha_fwd"])
def test_attention_of_aiter(name: str) -> None:
    dims: list[Any] = [[1, 6, 4, 8], [1, 6, 2, 8], [1, 6, 2, 8], *([] for _ in range(5))]
    types = [BF16] * 3 + ["Scalar"] * 5
    scalars = ["", "", "", "0.", "0.35", "False", "-1", "-1"]
    made = cost(call(name, dims, types, concrete=scalars))
    assert made.flops["tensor.bf16"] == 4 * 8 * 4 * 6 * 6
    scalars[6] = "128"
    windowed = call(name, dims, types, concrete=scalars)
    assert reason(windowed) == "attention with a window is not known"


def test_norms_of_aiter() -> None:
    dims: list[Any] = [[4, 8], [4, 8], [4, 8], [4, 8], [8], [], []]
    types = [BF16] * 5 + ["Scalar"] * 2
    made = cost(call("aiter::rmsnorm2d_fwd_with_add_ck", dims, types))
    assert made.read_bytes == {"weights": 16, "activations": 2 * 64}
    plain = cost(call("aiter::rms_norm", [[4, 8], [8], [], []], [BF16, BF16, "Scalar", "Scalar"]))
    assert plain.read_bytes == {"weights": 16, "activations": 64}


def fused(name: str, dims: list[Any], types: list[str], *counts: int) -> Recorded:
    scalars = [""] * len(dims) + [str(count) for count in counts]
    every = [*dims, *([] for _ in counts)]
    return call(name, every, [*types, *("Scalar" for _ in counts)], concrete=scalars)


def test_a_fused_kernel_touches_its_tensors_once() -> None:
    # x and r of 4 x 8 in bf16, 8 weights in fp32, out of 4 x 8.
    name = "triton_red_fused_add_mean_mul_pow_rsqrt_0"
    made = cost(fused(name, [[4, 8], [4, 8], [8], [4, 8]], [BF16, BF16, "float", BF16], 4, 8))
    assert made.read_bytes == {"activations": 64 + 64 + 32}
    assert made.write_bytes == {"activations": 64}
    assert made.flops == {}


def test_a_fused_kernel_does_not_touch_more_elements_than_it_has() -> None:
    # A table of 100 rows, of which 4 are converted.
    made = cost(fused("triton_poi_fused__to_copy_1", [[100, 8], [4, 8]], ["float", BF16], 32))
    assert (made.read_bytes, made.write_bytes) == ({"activations": 128}, {"activations": 64})


def test_a_fused_kernel_that_picks_parts_counts_only_what_is_as_large_as_itself() -> None:
    # 8 indices, an embedding of 100 x 4, 4 weights, 8 x 4 out.
    name = "triton_red_fused__fused_rms_norm_embedding_0"
    types = ["long int", BF16, BF16, BF16]
    made = cost(fused(name, [[8], [100, 4], [4], [8, 4]], types, 8, 4))
    assert (made.read_bytes, made.write_bytes) == ({"activations": 64}, {"activations": 64})
    parts = fused("triton_poi_fused_slice_add_3", [[100], [50]], [BF16, BF16], 30)
    assert reason(parts) == "which parts of its tensors the kernel touches is not recorded"


def test_sizes_of_dynamic_shapes_are_no_elements() -> None:
    # ks0 = 32 stands before the 64 elements: 32 x 64 is the size of no tensor.
    made = cost(fused("triton_poi_fused_add_1", [[64], [64]], [BF16, BF16], 32, 64))
    assert made.bytes == 2 * 128
    two = cost(fused("triton_poi_fused_add_1", [[8, 4], [8, 4]], [BF16, BF16], 8, 4))
    assert two.bytes == 2 * 64


def test_other_kernels_of_triton_have_no_cost() -> None:
    bare = call("triton_poi_fused_0", [[8], [8]], [BF16, BF16], concrete=["", ""])
    assert reason(bare) == "the number of elements of the kernel is not recorded"
    for name in ("triton_tem_fused_mm_5", "sage_fwd_1", "triton_"):
        assert reason(fused(name, [[8], [8]], [BF16, BF16], 8)) == "no cost model for this operator"


# --- Lengths that the step states

DECODE = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)"
MIXED = (
    "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)"
    "_generation_37(sq37sk34489sqsq37sqsk34489)"
)
UNIFIED = call(
    "vllm::unified_attention_with_output", [[32, 64, 64], [32, 8, 64], [32, 8, 64]], [BF16] * 3
)


def test_paged_attention_takes_the_lengths_that_the_step_states() -> None:
    made = cost(replace(UNIFIED, lengths=stated_lengths(DECODE)))
    assert made.flops["tensor.bf16"] == 4 * 64 * 64 * 55086
    # Keys are means, rounded down: 55086 // 32 = 1721.
    assert made.read_bytes["cache"] == 2 * 2 * 8 * 64 * 32 * 1721
    assert made.write_bytes["activations"] == 2 * 64 * 64 * 32


def test_pairs_of_a_mixed_step_are_exact() -> None:
    made = cost(replace(UNIFIED, lengths=stated_lengths(MIXED)))
    pairs = 7671310 - (7475785 - 8155) // 2 + 34489
    assert made.flops["tensor.bf16"] == 4 * 64 * 64 * pairs


@pytest.mark.parametrize(
    "step",
    [
        None,
        "execute_context_0(0)_generation_32(32)",
        DECODE.replace("generation_32", "generation_0"),
    ],
)
def test_paged_attention_without_stated_lengths_has_no_cost(step: str | None) -> None:
    unstated = replace(UNIFIED, lengths=None if step is None else stated_lengths(step))
    assert reason(unstated) == "lengths of the sequences are not recorded"


def test_keys_of_another_width_are_not_those_of_paged_attention() -> None:
    odd = replace(UNIFIED, dims=[[32, 64, 64], [32, 8, 128]], lengths=stated_lengths(DECODE))
    assert reason(odd) == "queries and keys have other heads than paged attention"


RAGGED_KERNEL = (
    "void paged_attention_ll4mi_QKV_mfma16_kernel<0, __hip_bfloat16, __hip_bfloat16, "
    "(vllm::Fp8KVCacheDataType)0, 1, 128, 256, false, 4, 1, ck_tile::ComposedAttention<0u, false> >"
)


def ragged(cache: list[int], kernel: str = RAGGED_KERNEL) -> Recorded:
    return call(
        "sglang_profiler::attention_paged_attention_ragged_100",
        [[32, 32, 128], [10905190400], [32, 32, 128], cache, cache],
        [BF16, "unsigned char", BF16, BF16, BF16],
        kernel=kernel,
        lengths=stated_lengths(DECODE),
    )


def test_a_counter_at_the_end_of_a_name_is_left_out() -> None:
    made = cost(ragged([835874, 1, 8, 128]))
    assert made.read_bytes["cache"] == 2 * 2 * 8 * 128 * 32 * 1721


def test_a_ragged_cache_must_have_the_layout_that_its_kernel_states() -> None:
    other = "the recorded inputs are not those of its kernel"
    # Heads before the block: the same numbers, in another order.
    assert reason(ragged([835874, 8, 1, 128])) == other
    assert reason(ragged([835874, 1, 4, 128])) == other
    fp8 = ragged([835874, 1, 8, 128])
    assert reason(replace(fp8, types=[BF16, "", BF16, *["c10::Float8_e4m3fn"] * 2])) == other
    unknown = ragged([835874, 1, 8, 128], kernel="another_attention")
    assert reason(unknown) == "its kernel does not state the layout of the cache"


# --- Operators that read their weights inside


def experts_inside(*inner: tuple[list[int], str], kernel: str = "") -> Recorded:
    """x, scores of 32 experts, two arguments without tensors, and what inner operators took."""
    shapes = [[32, 3072], [32, 32], [], [], *(shape for shape, _ in inner)]
    types = [BF16, BF16, "", "", *(kind for _, kind in inner)]
    return call("vllm::moe_forward", shapes, types, kernel=kernel)


ROUTING = (([32, 4], BF16), ([32, 4], "short int"))
PACKED = (([32, 1536, 5888], "unsigned char"), ([32, 1472, 3072], "unsigned char"))


def test_experts_are_those_of_inner_operators() -> None:
    made = cost(experts_inside(*ROUTING, *PACKED, kernel="_matmul_ogs_bf16xbf16xmxfp4"))
    assert made.flops["tensor.bf16"] == 6 * 32 * 4 * 3072 * 2944
    # The fewest experts, 4, with 4 bits per weight and a scale of 8 bits for 32 of them.
    assert made.read_bytes["weights"] == 4 * 3 * 3072 * 2944 * 4.25 / 8


def test_experts_may_be_stored_with_rows_first() -> None:
    weights = (([32, 5888, 3072], BF16), ([32, 3072, 2944], BF16))
    made = cost(experts_inside(*ROUTING, *weights))
    assert made.read_bytes["weights"] == 4 * 3 * 3072 * 2944 * 2


@pytest.mark.parametrize(
    ("inner", "why"),
    [
        (ROUTING, "the weights of the experts are not among the inputs"),
        ((*ROUTING, PACKED[0]), "the weights of the experts are not among the inputs"),
        ((*ROUTING, PACKED[0], ([32, 1472, 3070], "unsigned char")), "the weights of the experts"),
        (PACKED, "how many experts a token takes is not recorded"),
        ((*ROUTING, ([32, 8], BF16), ([32, 8], "int"), *PACKED), "how many experts a token takes"),
    ],
)
def test_experts_that_inner_operators_leave_open(
    inner: tuple[tuple[list[int], str], ...], why: str
) -> None:
    assert reason(experts_inside(*inner)).startswith(why)


ROUTER = call("TopK", [[32, 128], []], [BF16, "Scalar"], concrete=["", "4"], kernel="_topk_forward")
SLOTS = call(
    "SortTokens",
    [[32, 4], [32, 4], []],
    [BF16, "short int", "Scalar"],
    kernel="_combined_routing_compute",
)


def test_the_router_and_the_sort_of_triton_kernels() -> None:
    assert cost(ROUTER).read_bytes == {"activations": 2 * 32 * 128}
    # One byte numbers 128 experts; the type of the indices is not recorded.
    assert cost(ROUTER).write_bytes == {"activations": 2 * 32 * 4, "index": 32 * 4}
    many = replace(ROUTER, dims=[[32, 512], []])
    assert cost(many).write_bytes["index"] == 2 * 32 * 4
    assert cost(SLOTS).read_bytes == {"activations": 32 * 4 * (2 + 2)}
    assert cost(SLOTS).write_bytes == {"activations": 2 * 32 * 4, "index": 2 * 32 * 4}


@pytest.mark.parametrize(
    "other",
    [
        replace(ROUTER, kernel="gather_k_best"),
        replace(ROUTER, types=["int", "Scalar"]),
        replace(ROUTER, dims=[[32, 128], [32, 4]], types=[BF16, "long int"]),
        replace(SLOTS, kernel="radix_sort"),
        replace(SLOTS, types=["int", "short int", "Scalar"]),
        replace(SLOTS, types=[BF16, BF16, "Scalar"]),
    ],
)
def test_operators_of_other_programs_that_have_these_names_have_no_cost(other: Recorded) -> None:
    assert reason(other) == "its kernel and inputs are not those of triton_kernels"


def test_a_router_takes_no_more_experts_than_there_are() -> None:
    wrong = replace(ROUTER, concrete=["", "129"])
    assert reason(wrong) == "how many experts a token takes is not recorded"


# --- Triton kernels under their own names


def test_a_kernel_that_quantizes_touches_each_tensor_once() -> None:
    shapes = [[1, 24, 768, 128], [1, 24, 768, 128], [1, 24, 3]]
    quantize = call(
        "sage_quant_kernel_0",
        shapes,
        [BF16, "signed char", "float"],
        kernel="sage_quant_kernel",
        category="quant",
    )
    made = cost(quantize)
    assert made.read_bytes == {"activations": 3 * 24 * 768 * 128}
    assert made.write_bytes == {"activations": 4 * 24 * 3}
    assert reason(replace(quantize, category="other")) == "no cost model for this operator"
    assert reason(replace(quantize, kernel="another")) == "no cost model for this operator"


def test_attention_under_its_own_name_has_heads_on_the_axis_that_is_short_enough() -> None:
    attend = call(
        "sage_fwd_1",
        [[1, 24, 768, 128]] * 3,
        ["signed char", "signed char", "c10::Float8_e4m3fnuz"],
        kernel="sage_fwd",
        category="attention",
    )
    # A mask is not recorded: causal is the least.
    assert cost(attend).flops["tensor.int8"] == 4 * 128 * 24 * 768 * 769 // 2
    unsure = replace(attend, dims=[[1, 24, 64, 128]] * 3)
    assert reason(unsure) == "which axis of its inputs has the heads is not recorded"
    packed = replace(attend, dims=[[768, 24, 128]] * 3)
    assert reason(packed) == "packed sequences: their lengths are not recorded"
