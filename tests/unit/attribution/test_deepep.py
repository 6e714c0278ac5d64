"""A layer of DeepSeek-V3 served with DeepGEMM and DeepEP, as one table of it lists the kernels."""

from __future__ import annotations

from solscope.attribution import Attributed
from tests.making import attributed, event

GEMM = "void deep_gemm::sm100_fp8_gemm_1d1d_impl<0, 0>"
QUANT = "void per_token_group_quant_fp8_kernel<float>"
LAYER = (
    ("flashinfer::norm::FusedAddRMSNormKernel<8, float>", "input_norm"),
    (GEMM, "q_a_kv_a"),
    ("rmsnorm_split_col_kernel", "qk_norm"),
    (QUANT, "q_b"),
    (GEMM, "q_b"),
    ("nvjet_tst_256x128_64x5_2x1_v_bz_TNT", "kv_b"),
    ("rotary_embedding_kernel", "rope"),
    ("mhaSm100fKernel_QkvE4m3", "attention"),
    ("nvjet_tst_64x128_64x13_2x1_v_bz_TNT", "kv_b"),
    (QUANT, "o_proj"),
    (GEMM, "o_proj"),
    ("flashinfer::norm::FusedAddRMSNormKernel<8, float>", "post_norm"),
    ("nvjet_tst_64x32_64x16_2x4_2cta_h_bz_TNT", "router"),
    ("void cublasLt::splitKreduce_kernel<32, 16, int, float>", "router"),
    ("moe_fused_gate_kernel", "topk"),
    ("void deep_ep::internode_ll::dispatch<true, 7168>", "dispatch"),
    ("void deep_gemm::sm100_m_grouped_fp8_gemm_masked_1d1d_impl<0>", "up_gate"),
    ("_silu_and_mul_masked_post_quant_fwd_kernel", "activation"),
    ("void deep_gemm::sm100_m_grouped_fp8_gemm_masked_1d1d_impl<0>", "down"),
    ("void deep_ep::internode_ll::combine<true, 7168>", "combine"),
)


def served(layers: int) -> Attributed:
    names = ["vectorized_gather_kernel", *(name for name, _ in LAYER * layers)]
    names += ["rms_norm_kernel", "nvjet_tst_128x8", "argmax_kernel"]
    return attributed(*(event("kernel", name, 10 * i, 10) for i, name in enumerate(names)))


def test_every_kernel_has_its_role() -> None:
    made = served(3).activities
    second = made.filter(made["layer"] == 1)
    assert list(zip(second["name"], second["role"], strict=True)) == list(LAYER)


# The same layer as it runs, row by row as the table lists it: with the copies that serve its
# projections, what perturbs the scores of the router, a fill behind the first product of the
# experts, and the shared expert between the two halves of combine.
ELEMENTWISE = "void at::native::elementwise_kernel<128, 4, direct_copy_kernel_cuda>"
RUNNING = (
    *LAYER[:6],
    (ELEMENTWISE, "rope"),
    ("rotary_embedding_kernel", "rope"),
    ("void at::native::unrolled_elementwise_kernel<direct_copy_kernel_cuda>", "rope"),
    ("void at::native::index_elementwise_kernel<128, 4, index_put_kernel>", "kv_write"),
    *LAYER[7:9],
    (ELEMENTWISE, "o_proj"),
    *LAYER[9:14],
    ("void at::native::distribution_elementwise_grid_stride_kernel<float, 4>", "topk"),
    *LAYER[14:17],
    ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>>", "up_gate"),
    *LAYER[17:],
    (QUANT, "shared_expert"),
    (GEMM, "shared_expert"),
    ("void flashinfer::activation::act_and_mul_kernel<float, silu>", "shared_expert"),
    (GEMM, "shared_expert"),
    ("void deep_ep::internode_ll::combine<true, 7168>", "combine"),
)


def test_every_row_of_a_running_layer_has_its_role() -> None:
    names = ["vectorized_gather_kernel", *(name for name, _ in RUNNING * 3)]
    names += ["rms_norm_kernel", "nvjet_tst_128x8", "argmax_kernel"]
    made = attributed(*(event("kernel", n, 10 * i, 10) for i, n in enumerate(names))).activities
    second = made.filter(made["layer"] == 1)
    assert list(zip(second["name"], second["role"], strict=True)) == list(RUNNING)
