from __future__ import annotations

import sys
import time

import pytest

from solscope import names
from solscope.names import demangle, functor, short_name

NSYS_COPY = (
    "void at::native::elementwise_kernel<(int)128, (int)4, void at::native::gpu_kernel_impl_nocast"
    "<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase &)::[lambda() (instance 3)]"
    "::operator ()() const::[lambda() (instance 12)]::operator ()() const"
    "::[lambda(c10::BFloat16) (instance 1)]>(at::TensorIteratorBase &, const T1 &)"
    "::[lambda(int) (instance 1)]>(int, T3)"
)
KINETO_COPY = (
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast"
    "<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()()"
    " const::{lambda()#12}::operator()() const::{lambda(c10::BFloat16)#1}>"
    "(at::TensorIteratorBase&, "
    "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const"
    "::{lambda()#12}::operator()() const::{lambda(c10::BFloat16)#1} const&)::{lambda(int)#1}>(int)"
)
FLASH3 = (
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::"
    "CollectiveMainloopFwdSm90<(int)2, cute::tuple<cute::C<(int)1>>>, flash::Epilogue<(int)2>>>>"
    "(T1::Params)"
)
GROUPED = (
    "_ZN7cutlass13device_kernelIN2at4cuda6detail25enable_3x_kernel_for_sm9xINS_4gemm6kernel"
    "13GemmUniversalINS5_17GroupProblemShapeIN4cute5tupleIJiiiEEEEENS5_10collective13CollectiveMmaI"
)

SHORT = {
    "nvjet_tst_320x128_64x3_1x2_h_bz_coopB_TNT": "nvjet_tst_320x128_64x3_1x2_h_bz_coopB_TNT",
    "triton_poi_fused_clamp_sub_0": "triton_poi_fused_clamp_sub_0",
    "__amd_rocclr_copyBuffer.kd": "__amd_rocclr_copyBuffer",
    "attn_fwd [clone .kd]": "attn_fwd",
    FLASH3: "flash::FlashAttnFwdSm90",
    "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8>"
    "(T1::Params)": "cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8",
    "void ck_tile::kentry<2, ck_tile::FmhaFwdKernel<ck_tile::P<int>>, ck_tile::FmhaFwdKernel"
    "<ck_tile::P<int>>::Kargs>(int)": "ck_tile::FmhaFwdKernel",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<c10::BFloat16>, "
    "std::array<char*, 1ul> >(int)": "vectorized_elementwise_kernel[FillFunctor]",
    "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float, float, "
    "float, at::native::binary_internal::MulFunctor<float> >, std::array<char*, 2ul> >(int)": (
        "vectorized_elementwise_kernel[MulFunctor]"
    ),
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, "
    "float, float, float>, unsigned int, float, 4, 4> >(int)": "reduce_kernel[MeanOps]",
    "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel<at::native::"
    "index_put_kernel_impl<at::native::OpaqueType<2> >(at::TensorIterator&)::{lambda(char*)#1}>"
    "(at::TensorIteratorBase&)::{lambda(int)#1}>(long)": "index_elementwise_kernel[index_put]",
    "void (anonymous namespace)::elementwise_kernel_with_index<int, at::native::arange_cuda_out"
    "(c10::Scalar const&)::{lambda()#1}>(int)": "elementwise_kernel_with_index[arange]",
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
    "namespace)::TensorListMetadata<1>, at::native::(anonymous namespace)::BinaryOpScalarFunctor"
    "<float, 1, 1, 0>, std::multiplies<float>, float>(int)": (
        "multi_tensor_apply_kernel[multiplies]"
    ),
    "void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16, &silu<float>>(T1 *)": (
        "flashinfer::activation::act_and_mul_kernel[silu]"
    ),
    "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type "
    "vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)": (
        "vllm::fused_add_rms_norm_kernel"
    ),
    "std::enable_if<!T7, void>::type internal::gemvx::kernel<int, (bool)0>(T13)": (
        "internal::gemvx::kernel"
    ),
    "void <unnamed>::softmax_warp_forward<float, (int)6>(T2 *)": "softmax_warp_forward",
    "void (anonymous namespace)::softmax_warp_forward<float, 6>(float*)": "softmax_warp_forward",
    "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(A::K<true>::Params)": (
        "fmha_cutlassF_bf16_aligned_64x64_rf_sm80"
    ),
    "void rocprim::ROCPRIM_400001_NS::detail::partition_kernel<(rocprim::M)3, true>(int)": (
        "rocprim::detail::partition_kernel"
    ),
    "bool ns::operator< <int>(int, int)": "ns::operator_call",
    "Memcpy DtoH (Device -> Pinned)": "Memcpy DtoH (Device -> Pinned)",
    "flashinfer::norm::FusedAddRM": "flashinfer::norm::FusedAddRM",
    GROUPED: "cutlass::gemm::kernel::GemmUniversal",
    "_ZN7sgl_hip10activation18act_and_mul_kernelI14__hip_bfloat16TnPFT_RKS3_EXadL_Z4siluIS2_E": (
        "sgl_hip::activation::act_and_mul_kernel"
    ),
}


@pytest.mark.parametrize(("name", "expected"), SHORT.items(), ids=SHORT.values())
def test_short_name(name: str, expected: str) -> None:
    assert short_name(name) == expected


def test_nsys_and_kineto_spell_one_kernel_differently_and_read_alike() -> None:
    assert short_name(NSYS_COPY) == short_name(KINETO_COPY) == "elementwise_kernel[direct_copy]"


def test_cut_names_read_up_to_the_cut() -> None:
    assert short_name(FLASH3[:90]) == "flash::FlashAttnFwdSm90"
    assert short_name("void at::native::elementwise_kernel<128, 4, at::nat") == "elementwise_kernel"


def test_functor_is_told_only_by_kernels_that_have_one() -> None:
    assert functor(NSYS_COPY) == "direct_copy"
    assert functor("elementwise_kernel") is None
    assert functor(FLASH3) is None


def test_demangle() -> None:
    pytest.importorskip("cxxfilt")
    assert demangle("_Z3fooIiEvT_") == "void foo<int>(int)"
    assert demangle("_ZN5aiter1kIDF16bEEvPT_.kd") == "void aiter::k<__bf16>(__bf16*)"


@pytest.mark.parametrize("name", ["", "nvjet_tst", "_Zbroken", "_Z", "void f<int>(int)"])
def test_demangle_leaves_other_names_alone(name: str) -> None:
    assert demangle(name) == name


def test_demangle_without_cxxfilt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cxxfilt", None)
    demangle.cache_clear()
    assert demangle("_Z3barIiEvT_.kd") == "_Z3barIiEvT_"
    demangle.cache_clear()


def test_demangle_refuses_a_name_that_would_explode() -> None:
    # Each level repeats the previous type twice: 229 bytes would give 35 MB, 400 bytes terabytes.
    levels = "".join(f"S1_IS{level:X}_S{level:X}_E" for level in range(2, 16))
    bomb = "_Z1f1aIiiE1bIS0_S0_E" + levels + levels
    assert demangle(bomb) == bomb
    assert short_name(bomb) == "f"


HOSTILE = [
    "<" * 100_000,
    ">" * 100_000,
    "(<" * 50_000,
    "<)" * 50_000,
    "operator<" * 11_000,
    "::" * 50_000,
    " " * 100_000,
    "void " * 20_000,
    "_ZN" + "1a" * 50_000,
    "_Z" + "9" * 100_000,
    "cutlass::device_kernel<" * 5_000,
    "at::native::elementwise_kernel<" + "float, " * 15_000,
    "x" + " [clone .kd]" * 8_000,
    "[clone " * 14_000,
    "\x00",
    ")",
    "[kernel]",
    "{lambda()#1}",
    "operator()",
    "(anonymous namespace)::",
    "<unnamed>::",
    ".kd",
]


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: repr(name[:12]))
def test_hostile_names_are_read_in_linear_time(name: str) -> None:
    start = time.process_time()
    assert short_name(name)
    functor(name)
    assert time.process_time() - start < 20  # quadratic work would take minutes


def test_every_cut_of_a_name_gives_something() -> None:
    for name in (NSYS_COPY, KINETO_COPY, FLASH3, GROUPED):
        assert all(short_name(name[:length]) for length in range(1, len(name)))


def test_empty_name() -> None:
    assert short_name("") == ""


def test_only_the_head_of_a_long_name_is_read() -> None:
    assert short_name("f<" + "a" * names.MAX_READ + ">(int)") == "f"
