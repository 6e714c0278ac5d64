from __future__ import annotations

import csv
import gzip
import re
import time
from collections import defaultdict
from pathlib import Path

import msgspec
import polars as pl
import pytest

from solscope.attribution.classify import classify, load_rules
from solscope.attribution.rule_set import Match, RuleSet
from solscope.attribution.rules import CATEGORIES, Rule, required_literals
from solscope.errors import InputError
from solscope.events import KINDS
from solscope.operators import OPERATOR_MODULES
from tests.sampling import some

SHARED = Path(__file__).parents[4] / "shared"
needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="real profiles are not here: ../shared"
)
RULES = load_rules()

AT = "void at::native::"
FAMILIES = [
    ("nvjet_sm100_tst_128x80x64_TNT", "gemm"),
    ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "gemm"),
    ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x3_tn", "gemm"),
    ("void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<T>>(P)", "gemm"),
    ("void cublasLt::splitKreduce_kernel<32, 16, int>(cublasLt::P<float>)", "gemm"),
    ("std::enable_if<!T7, void>::type internal::gemvx::kernel<int>(T13)", "gemm"),
    ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x256x32", "gemm"),
    ("void wvSplitK_hf_<__hip_bfloat16, 64, 4, 16, 8, 1, 4>(int)", "gemm"),
    ("void deep_gemm::sm100_fp8_gemm_1d1d_impl<1u, (deep_gemm::GemmType)0>(int)", "gemm"),
    ("triton_tem_fused_addmm_3", "gemm"),
    ("void deep_gemm::sm100_fp8_gemm_1d1d_impl<1u, (deep_gemm::GemmType)2>(int)", "moe"),
    (
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::"
        "GroupProblemShape<cute::tuple<int>>>>(P)",
        "moe",
    ),
    ("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu", "moe"),
    ("bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_dynBatch_sm100f", "moe"),
    ("fused_moe_kernel", "moe"),
    ("silu_and_mul_kernel_ep_index", "moe"),
    ("void moe::dev::routing::routingRenormalize::routingIndicesClusterKernel<P>(P)", "moe"),
    ("void vllm::moe::topkGatingSoftmax<4, 128, 4, 16, int>(float const*)", "moe"),
    ("void vllm::moe::moe_align_block_size_kernel<int>(int*)", "moe"),
    (
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<"
        "flash::CollectiveMainloopFwdSm90<2>>>>(P)",
        "attention",
    ),
    ("void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<int>>>(P)", "attention"),
    ("void flash::prepare_varlen_num_blocks_kernel<8, true>(int)", "attention"),
    ("void pytorch_flash::flash_fwd_kernel<T>(P)", "attention"),
    ("void flashinfer::BatchPrefillWithPagedKVCacheKernel<K>(P)", "attention"),
    ("void flashinfer::BatchDecodeWithPagedKVCacheKernel<K>(P)", "attention"),
    ("fmhaSm100fKernel_QkvBfloat16OBfloat16H64", "attention"),
    ("kernel_unified_attention_2d", "attention"),
    ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7", "attention"),
    ("void flash_fwd_splitkv_mla_kernel<T>(P)", "attention"),
    ("attn_fwd.kd", "attention"),
    ("chunk_gated_delta_rule_fwd_kernel_h_blockdim64", "linear_attention"),
    ("fused_recurrent_gated_delta_rule_fwd_kernel", "linear_attention"),
    ("_causal_conv1d_fwd_kernel", "linear_attention"),
    ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "comm"),
    ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(void*)", "comm"),
    ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(void*)", "comm"),
    ("void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(void*)", "comm"),
    ("void dpsk::ep::internode::dispatch<true>(void*)", "comm"),
    ("void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot<P>(P)", "comm"),
    ("nvshmemi_transfer_rma_kernel", "comm"),
    ("void mscclpp::allreduce_kernel<float>(float*)", "comm"),
    ("void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(void*)", "norm"),
    (AT + "(anonymous namespace)::vectorized_layer_norm_kernel<float, float, false>(int)", "norm"),
    ("triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_3", "norm"),
    (
        "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>>(void*)",
        "activation",
    ),
    ("triton_poi_fused_mul_silu_1", "activation"),
    (
        AT
        + "vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl()::{lambda()#1}>(int)",
        "activation",
    ),
    ("void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)", "rope"),
    ("void vllm::reshape_and_cache_flash_kernel<half, half>(half const*)", "kv_cache"),
    ("_per_token_group_quant_fp8", "quant"),
    ("void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u>(float*)", "sampling"),
    (
        AT
        + "reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>>>(int)",
        "sampling",
    ),
    ("void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float>(float*)", "softmax"),
    (AT + "(anonymous namespace)::indexSelectSmallIndex<float, long>(int)", "embedding"),
    ("void fbgemm_gpu::permute_2D_lengths_kernel<int>(int)", "embedding"),
    ("sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc", "conv"),
    ("void cub::DeviceRadixSortOnesweepKernel<cub::P, false>(int*)", "sort_scan"),
    ("void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>(int)", "optimizer"),
    (AT + "(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2>(float*)", "copy"),
    ("__amd_rocclr_copyBuffer", "copy"),
    ("__amd_rocclr_fillBufferAligned", "memset"),
    (AT + "vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)", "elementwise"),
    (
        AT + "reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float>>>(int)",
        "reduce",
    ),
    ("my_private_kernel_v7", "other"),
    ("", "other"),
]


def categories(table: dict[str, float]) -> dict[str, float]:
    """Share of time per category, in percent."""
    matches = RULES.match_all(list(table), [None] * len(table))
    spent: defaultdict[str, float] = defaultdict(float)
    for match, time_spent in zip(matches, table.values(), strict=True):
        spent[match.category] += time_spent
    return {category: 100 * value / sum(table.values()) for category, value in spent.items()}


@pytest.mark.parametrize("rule", RULES.rules, ids=lambda rule: rule.id)
def test_each_example_is_matched_first_by_its_own_rule(rule: Rule) -> None:
    re.compile(rule.pattern)
    assert rule.examples
    for example in rule.examples:
        assert RULES.match(example, rule.example_op).rule_id == rule.id, example


def test_the_rules_cover_every_category_under_unique_ids() -> None:
    ids = [rule.id for rule in RULES.rules]
    assert len(set(ids)) == len(ids)
    assert {rule.category for rule in RULES.rules} == set(CATEGORIES)


def test_a_generic_match_says_what_it_caught() -> None:
    for rule in RULES.rules:
        for example in rule.examples if rule.generic else ():
            assert RULES.match(example, rule.example_op).detail, example


@pytest.mark.parametrize(("name", "category"), FAMILIES)
def test_families(name: str, category: str) -> None:
    assert RULES.match(name).category == category


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("flashinfer::norm::FusedAddRM", "norm"),
        ("deep_gemm::sm100_fp8_gem", "gemm"),
        ("rmsnorm_split_col_kernel", "norm"),
        ("per_token_group_quant_fp8_", "quant"),
        ("nvjet_tst_256x128_64x5_2x1", "gemm"),
        ("elementwise_kernel", "elementwise"),
        ("rotary_embedding_kernel", "rope"),
        ("unrolled_elementwise_kernel", "elementwise"),
        ("index_elementwise_kernel", "elementwise"),
        ("mhaSm100fKernel_Qkv", "attention"),
        ("cublasLt::splitKreduce_kernel", "gemm"),
        ("distribution_elementwise_grid", "sampling"),
        ("topk", "sort_scan"),
        ("deep_ep::internode_ll::dispatch", "comm"),
        ("deep_ep::internode_ll::combine", "comm"),
        ("silu_and_mul_kernel_ep_index", "moe"),
        ("act_and_mul_kernel", "activation"),
    ],
)
def test_names_cut_short_in_seed_001(name: str, category: str) -> None:
    assert RULES.match(name).category == category


def test_match_tells_operator_detail_and_helper() -> None:
    assert RULES.match("triton_poi_fused_clamp_sub_0") == Match(
        rule_id="inductor.pointwise", category="elementwise", detail="clamp_sub", generic=True
    )
    assert RULES.match("kernel_unified_attention_2d").operator == "unified_attention"
    assert RULES.match("cublasLt::splitKreduce_kernel").helper == "previous"
    assert RULES.match("_per_token_group_quant_fp8").helper == "next"


def test_the_operator_decides_only_where_the_name_cannot() -> None:
    assert RULES.match("my_private_kernel_v7", "aten::addmm").category == "gemm"
    assert RULES.match("my_private_kernel_v7", "aten::whatever").category == "other"
    assert RULES.match("nvjet_tst_128x8", "aten::copy_").category == "gemm"


def test_explain_shows_the_text_that_matched_and_the_rules_passed_over() -> None:
    told = RULES.explain("void cublasLt::splitKreduce_kernel<32>(int)")
    assert told.match.rule_id == "gemm.splitk_reduce"
    assert told.matched == "splitKreduce"
    assert ("reduce.native", "reduce") in told.also
    assert "rule gemm.splitk_reduce matches 'splitKreduce'" in str(told)
    assert str(RULES.explain("zzz")) == "other: no rule matches zzz"


def test_many_at_once_is_the_same_as_one_by_one() -> None:
    names = [example for rule in RULES.rules for example in rule.examples]
    assert RULES.match_all(names, [None] * len(names)) == [RULES.match(name) for name in names]


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("nccl|rccl", ("nccl", "rccl")),
        (r"deep_ep::|7deep_ep\d", ("deep_ep::", "7deep_ep")),
        ("all_?[Rr]educe", ("educe",)),
        (r"a{2,3}bcd\(efgh?", ("bcd(efg",)),
        (r"a{2,3}bcd|a{2}", ()),
        (r"\x41\x42abc\.de\d", ("abc.de",)),
        ("(?:one|two)three", ("three",)),
        ("(?i)nccl", ()),
        ("(?i:x)nccl", ()),
        ("(?:one|two)", ()),
        ("abcd|x", ()),
        ("^", ()),
    ],
)
def test_required_literals(pattern: str, texts: tuple[str, ...]) -> None:
    assert required_literals(pattern) == texts


def test_user_rules_come_first_and_replace_by_id(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        "[[rule]]\nid = 'mine'\ncategory = 'moe'\npattern = '^nvjet_tst_64x8'\n"
        "[[rule]]\nid = 'gemm.xmma'\ncategory = 'conv'\npattern = 'xmma_gemm'\n"
    )
    rules = load_rules([mine])
    assert rules.match("nvjet_tst_64x8_64x16").category == "moe"
    assert rules.match("nvjet_tst_128x8_64x12").category == "gemm"
    assert rules.match("sm80_xmma_gemm_f32f32").category == "conv"
    assert len(rules.rules) == len(RULES.rules) + 1


BAD = {
    "[[rule]]\nid = 'a'\ncategory = 'gem'\npattern = 'x'": "rule 'a': .*gem.*categories: gemm",
    "[[rule]]\nid = 'a'\ncategory = 'gemm'\npattern = '('": "rule 'a': pattern is not a regular",
    "[[rule]]\nid = 'a'\ncategory = 'gemm'": "rule 'a': .*pattern",
    "[[rule]]\ncategory = 'gemm'": "rule number 1: .*id",
    "[[rule]]\nid = 'a'\ncategory = 'gemm'\npattern = 'x'\ncolor = 1": "rule 'a': .*color",
    "[[rule]]\nid = 'a'\ncategory = 'gemm'\npattern = 'x'\ngeneric = true": "needs `detail`",
    "[[rule]]\nid = 'a'\ncategory = 'gemm'\npattern = 'x'\ndetail = 'group'": "needs a group",
    "[[rule]]\nid = 'a'\ncategory = 'gemm'\npattern = 'x'\n" * 2: "rule 'a' is defined twice",
    "rule = 3": "only \\[\\[rule\\]\\] tables",
    "[[rule": "not valid TOML",
}


@pytest.mark.parametrize(("text", "message"), BAD.items(), ids=BAD.values())
def test_a_bad_file_is_refused_with_file_rule_and_reason(
    tmp_path: Path, text: str, message: str
) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text(text)
    with pytest.raises(InputError, match=message) as error:
        load_rules([bad])
    assert str(bad) in str(error.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_rules([tmp_path / "none.toml"])


def activities(rows: list[tuple[str, str | None, str | None]]) -> pl.DataFrame:
    schema = {"kind": pl.Enum(KINDS), "name": pl.Categorical(), "op": pl.Categorical()}
    return pl.DataFrame(rows, schema=schema, orient="row").with_row_index("row")


def test_classify_adds_columns_and_keeps_rows_in_order() -> None:
    table = activities(
        [
            ("kernel", "nvjet_tst_1", None),
            ("memcpy", "nvjet_tst_1", None),
            ("kernel", "mine", "aten::mm"),
            ("kernel", "mine", None),
            ("kernel", None, None),
            ("memset", "Memset (Device)", None),
            ("graph", "nvjet_tst_1", None),
            ("kernel", "nvjet_tst_1", None),
            ("kernel", "triton_poi_fused_add_0", None),
        ]
    )
    result = classify(table, RULES)
    assert result["row"].to_list() == list(range(9))
    assert result["category"].to_list() == [
        "gemm", "memcpy", "gemm", "other", "other", "memset", "other", "gemm", "elementwise",
    ]  # fmt: skip
    assert result["rule"][2] == "by_op.gemm"
    assert result["detail"].to_list()[-1] == "add"
    assert result["generic"].to_list() == [False, False, True] + [False] * 5 + [True]
    assert result.schema["category"] == pl.Enum(CATEGORIES)
    assert result.schema["rule"] == result.schema["detail"] == pl.Categorical()


def test_classify_works_without_operators_and_on_nothing() -> None:
    table = activities([("kernel", "attn_fwd", None)]).drop("op")
    assert classify(table, RULES)["category"].to_list() == ["attention"]
    assert classify(table.clear(), RULES).schema == classify(table, RULES).schema


HOSTILE = [
    "<" * 100_000,
    "triton_poi_fused_" + "_to_copy" * 12_000,
    "triton_poi_fused_" + "view_" * 20_000 + "!",
    "triton_poi_fused_" + "1" * 100_000,
    "triton_red_fused_" + "mean_" * 20_000,
    "act_and_mul" * 9_000,
    "cutlass" * 15_000,
    "deep_gemm::" * 9_000,
    "one_shot" * 12_000,
    "fused_" + "1" * 99_999 + "x",
    *(text * 8_000 for rule in RULES.rules for text in required_literals(rule.pattern)[:1]),
]


def test_hostile_names_take_little_time() -> None:
    start = time.process_time()
    RULES.match_all(HOSTILE, [None] * len(HOSTILE))
    assert time.process_time() - start < 20  # one bad pattern alone takes longer


UNITS = {"s": 1e9, "ms": 1e6, "μs": 1e3, "ns": 1.0}


def seed_002() -> dict[str, float]:
    (seed,) = (SHARED / "seeds").glob("002_*.txt")
    spent: defaultdict[str, float] = defaultdict(float)
    for line in seed.read_text().splitlines():
        fields = line.split("\t")
        if len(fields) == 9 and fields[0].endswith("%"):
            value, unit = fields[1].split()
            spent[fields[8]] += float(value) * UNITS[unit]
    return dict(spent)


@needs_shared
def test_coverage_of_seed_002() -> None:
    share = categories(seed_002())
    assert share.get("other", 0) < 0.5
    assert share["gemm"] == pytest.approx(80.6, abs=1.0)
    assert share["attention"] == pytest.approx(6.8, abs=0.5)


@needs_shared
@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("nvjet_", "gemm"),
        ("splitKreduce", "gemm"),
        ("flash::", "attention"),
        ("flashinfer::norm::", "norm"),
        ("flashinfer::activation::", "activation"),
        ("ApplyRotary", "rope"),
    ],
)
def test_families_of_seed_002(text: str, category: str) -> None:
    names = [name for name in seed_002() if text in name]
    assert {RULES.match(name).category for name in names} == {category}


@needs_shared
@pytest.mark.parametrize("stage", ["prefill", "decode"])
def test_coverage_of_nsys_summaries(stage: str) -> None:
    path = SHARED / f"data/nsys/nsys_dsocr_per-stage_{stage}_cuda_gpu_kern_sum.csv"
    with path.open(newline="") as file:
        table = {row["Name"]: float(row["Total Time (ns)"]) for row in csv.DictReader(file)}
    assert categories(table).get("other", 0) < 0.5


class _Event(msgspec.Struct):
    name: str | int | None = None
    cat: str = ""
    dur: float = 0.0


class _Trace(msgspec.Struct):
    traceEvents: list[_Event]  # noqa: N815


TRACES = [
    path
    for pattern in ("traces/*.json.gz", "h200/*/*.json.gz")
    for path in sorted((SHARED / "data").glob(pattern))
    if not path.name.startswith("rocprofv3")
]


def kernels_of(path: Path) -> dict[str, float]:
    trace = msgspec.json.decode(gzip.decompress(path.read_bytes()), type=_Trace)
    spent: defaultdict[str, float] = defaultdict(float)
    for event in trace.traceEvents:
        if event.cat in ("kernel", "Kernel"):
            spent[str(event.name)] += event.dur
    return dict(spent)


@needs_shared
@pytest.mark.parametrize(
    "path", some(TRACES, 4), ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_coverage_of_kineto_traces(path: Path) -> None:
    assert categories(kernels_of(path)).get("other", 0) < 1.0


class _Span(msgspec.Struct):
    start_timestamp: int
    end_timestamp: int
    dispatch_info: dict[str, msgspec.Raw]


class _Symbol(msgspec.Struct):
    kernel_id: int
    kernel_name: str


class _Records(msgspec.Struct):
    kernel_dispatch: list[_Span]


class _Tool(msgspec.Struct):
    kernel_symbols: list[_Symbol]
    buffer_records: _Records


@needs_shared
def test_coverage_of_rocprof() -> None:
    raw = gzip.decompress((SHARED / "data/traces/rocprofv3_908_results.json.gz").read_bytes())
    (tool,) = msgspec.json.decode(raw, type=dict[str, list[_Tool]])["rocprofiler-sdk-tool"]
    names = {symbol.kernel_id: symbol.kernel_name for symbol in tool.kernel_symbols}
    spent: defaultdict[str, float] = defaultdict(float)
    for span in tool.buffer_records.kernel_dispatch:
        kernel = names[int(bytes(span.dispatch_info["kernel_id"]))]
        spent[kernel] += span.end_timestamp - span.start_timestamp
    assert categories(dict(spent)).get("other", 0) < 1.0


def test_the_rule_set_can_be_made_by_hand() -> None:
    rules = RuleSet([Rule(id="a", category="gemm", pattern="x")])
    assert rules.match("xyz").rule_id == "a"
    assert rules.match("abc") == Match()


def test_rules_name_operators_of_the_catalogue() -> None:
    named = {rule.operator for rule in load_rules().rules if rule.operator is not None}
    assert named <= set(OPERATOR_MODULES)
