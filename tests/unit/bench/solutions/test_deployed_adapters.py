"""Adapters of vLLM's and SGLang's CUDA kernels on the CPU, with stand-ins for the kernels."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from solscope.operators.task import Draw, Variant
from tests.adapters import FOLDER, call, check, load, task_of
from tests.deployed_kernels import CALLED, DEEP_GEMM, register

PARTS = (
    "vllm/_C_stable_libtorch.abi3.so",
    "vllm/_moe_C_stable_libtorch.abi3.so",
    "vllm/_flashmla_C.abi3.so",
    "vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so",
    "vllm/third_party/deep_gemm/__init__.py",
    "sgl_kernel/sm90/common_ops.abi3.so",
)
"""Files of the wheels of vllm 0.24.0 and sglang-kernel 0.4.3 that the solutions load."""
HELPERS = ("_vllm", "_fa3", "_deepgemm", "_sgl_kernel")

PAGED = {"q_heads": 4, "kv_heads": 2, "block_size": 16}
ROWS = {"tokens": 9, "hidden": 256}
AXES: dict[str, dict[str, Any]] = {
    "attention_forward": {"sequences": [[30, 30, 2], [7, 9, 1]], "heads": 2, "head_dim": 72},
    "block_scaled_mm": {"m": 6, "n": 256, "k": 384, "out_bytes": 4},
    "fp8_blockscale_fused_moe": {
        "tokens": 9,
        "hidden": 256,
        "intermediate": 128,
        "experts": 6,
        "top_k": 3,
    },
    "fp8_dynamic_per_token_quant": ROWS,
    "fused_add_rms_norm": ROWS,
    "fused_rmsnorm_quant": ROWS,
    "mla_decode_attention": {
        "contexts": [[130, 2], [9, 1]],
        "q_heads": 16,
        "latent_dim": 512,
        "rope_dim": 64,
    },
    "moe_align_block_size": {"tokens": 50, "top_k": 4, "block_size": 16, "experts": 20},
    "moe_sum_reduce": {"tokens": 9, "top_k": 3, "hidden": 64},
    "moe_topk_gating_softmax": {"tokens": 20, "experts": 16, "top_k": 4},
    "paged_attention_decode": {**PAGED, "contexts": [[70, 2], [9, 1]], "head_dim": 64},
    "per_token_group_quant_fp8": {**ROWS, "group_size": 128},
    "reshape_and_cache": {"tokens": 40, "kv_heads": 2, "head_dim": 64, "block_size": 16},
    "rms_norm": ROWS,
    "silu_and_mul": {"tokens": 9, "intermediate": 256},
    "unified_attention": {**PAGED, "sequences": [[20, 90, 2], [1, 40, 1]], "head_dim": 64},
}
ADAPTERS = sorted(
    path.relative_to(FOLDER).with_suffix("").as_posix()
    for name in ("vllm", "sgl_kernel")
    for path in (FOLDER / name).glob("[!_]*.py")
)
VARIANTS: tuple[Variant, ...] = ("typical", "extreme", "ties", "empty", "varied")
Load = Callable[[str], Any]


@pytest.fixture(scope="module", autouse=True)
def operators() -> Iterator[None]:
    forget = register()
    yield
    forget()


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Load:
    """Load a file of a solution as the worker does; the packages lie in `tmp_path`, if at all."""
    CALLED.clear()
    torch.set_num_threads(1)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(torch.ops, "load_library", loaded(tmp_path))
    monkeypatch.setattr(ctypes, "CDLL", lambda name, mode: CALLED.append(name))
    monkeypatch.setattr(os, "environ", dict(os.environ))  # DeepGEMM's are set on import
    for name in HELPERS:  # none is there before, none stays behind
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "deep_gemm", DEEP_GEMM)

    return partial(load, monkeypatch)


def loaded(root: Path) -> Callable[[str], None]:
    def load_library(path: str) -> None:
        CALLED.append(Path(path).relative_to(root).as_posix())

    return load_library


@pytest.fixture
def solution(missing: Load, tmp_path: Path) -> Load:
    """The same, with the files of both packages in their places."""
    for name in PARTS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    return missing


DECLINED = {("vllm/moe_sum_reduce", "extreme")}
"""Its factor is not 1."""


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", ADAPTERS)
def test_adapters_hand_over_what_the_kernels_take(
    solution: Load, name: str, variant: Variant
) -> None:
    found, task = solution(name), name.partition("/")[2]
    if (name, variant) in DECLINED:
        with pytest.raises(NotImplementedError):
            check(found, task, AXES[task], variant)
    else:
        check(found, task, AXES[task], variant)


@pytest.mark.parametrize("sequences", [[[33, 33, 2]], [[1, 70, 3]], [[5, 5, 1], [1, 19, 2]]])
def test_fa3_has_a_schedule_of_its_batch(solution: Load, sequences: list[list[int]]) -> None:
    found = solution("vllm/unified_attention")
    check(found, "unified_attention", {**PAGED, "sequences": sequences, "head_dim": 192})
    kernels = ["_vllm_fa3_C.get_scheduler_metadata", "_vllm_fa3_C.fwd"]
    assert ["vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so", *kernels] == CALLED


def test_fa3_has_no_heads_above_256(solution: Load) -> None:
    found = solution("vllm/unified_attention")
    with pytest.raises(NotImplementedError, match="head_dim 512"):
        check(found, "unified_attention", {**PAGED, "sequences": [[1, 9, 1]], "head_dim": 512})


def test_packed_rows_need_no_schedule(solution: Load) -> None:
    found = solution("vllm/attention_forward")
    check(found, "attention_forward", AXES["attention_forward"])
    assert CALLED[1:] == ["_vllm_fa3_C.fwd"]


def test_flash_mla_plans_without_the_values_of_queries_and_cache(solution: Load) -> None:
    found, task = solution("vllm/mla_decode_attention"), task_of("mla_decode_attention")
    made = task.inputs(AXES["mla_decode_attention"], Draw(seed=7))
    shapes = {name: made[name].to("meta") for name in ("q", "kv_cache")}
    tiles, splits = found.setup(**{**made, **shapes})
    assert (tiles.device.type, splits.device.type) == ("cpu", "cpu")
    assert len(splits) == len(made["seq_lens"]) + 1


@pytest.mark.parametrize("change", [{"block_size": 16}, {"latent_dim": 256}, {"rope_dim": 32}])
def test_flash_mla_has_one_layout(solution: Load, change: dict[str, int]) -> None:
    found = solution("vllm/mla_decode_attention")
    with pytest.raises(NotImplementedError, match="blocks of 64 rows of 512"):
        check(found, "mla_decode_attention", {**AXES["mla_decode_attention"], **change})


@pytest.mark.parametrize("rows", [1, 3, 4, 130])
@pytest.mark.parametrize("name", ["vllm/block_scaled_mm", "sgl_kernel/block_scaled_mm"])
def test_products_take_any_number_of_rows(solution: Load, name: str, rows: int) -> None:
    check(solution(name), "block_scaled_mm", {"m": rows, "n": 128, "k": 128})


def test_deepgemm_takes_part_of_a_block_of_columns(solution: Load) -> None:
    check(solution("vllm/block_scaled_mm"), "block_scaled_mm", {"m": 5, "n": 192, "k": 256})


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("vllm/block_scaled_mm", {"n": 128, "k": 192}),
        ("sgl_kernel/block_scaled_mm", {"n": 128, "k": 192}),
        ("sgl_kernel/block_scaled_mm", {"n": 192, "k": 128}),
    ],
)
def test_products_of_part_of_a_block_are_declined(
    solution: Load, name: str, sizes: dict[str, int]
) -> None:
    found = solution(name)
    with pytest.raises(NotImplementedError, match="whole blocks of 128"):
        check(found, "block_scaled_mm", {"m": 4, **sizes})


@pytest.mark.parametrize("tokens", [1, 130])
def test_experts_get_tiles_of_their_own_rows(solution: Load, tokens: int) -> None:
    found = solution("vllm/fp8_blockscale_fused_moe")
    axes = {**AXES["fp8_blockscale_fused_moe"], "tokens": tokens}
    check(found, "fp8_blockscale_fused_moe", axes)
    assert [name for name in CALLED if "_C." in name or ("gemm" in name and "/" not in name)] == [
        "_moe_C.moe_align_block_size",
        "m_grouped_fp8_gemm_nt_contiguous",
        "_C.silu_and_mul",
        "_C.per_token_group_fp8_quant",
        "m_grouped_fp8_gemm_nt_contiguous",
    ]


@pytest.mark.parametrize(
    ("tokens", "experts", "size"), [(1, 20, 16), (5, 4, 128), (5, 19, 16), (5, 20, 16), (70, 3, 32)]
)
@pytest.mark.parametrize("library", ["vllm", "sgl_kernel"])
def test_slots_are_returned_at_the_size_of_the_operator(
    solution: Load, library: str, tokens: int, experts: int, size: int
) -> None:
    # Fewer slots than experts, as many, and more: SGLang's buffers differ, the result does not.
    found = solution(f"{library}/moe_align_block_size")
    axes = {"tokens": tokens, "experts": experts, "top_k": min(4, experts), "block_size": size}
    check(found, "moe_align_block_size", axes)


@pytest.mark.parametrize(
    ("contexts", "kernel"),
    [([[500, 3]], "v1"), ([[513, 3]], "v2"), ([[513, 129]], "v1"), ([[8193, 129]], "v2")],
)
def test_paged_attention_is_split_as_in_vllm(
    solution: Load, contexts: list[list[int]], kernel: str
) -> None:
    found = solution("vllm/paged_attention_decode")
    (longest, sequences), bf16 = contexts[0], torch.bfloat16
    made = {
        "query": torch.zeros(sequences, 4, 8, dtype=bf16),
        "k_cache": torch.zeros(1, 1, 1, 16, 8, dtype=bf16),
        "v_cache": torch.zeros(1, 1, 8, 16, dtype=bf16),
        "block_tables": torch.zeros(sequences, -(-longest // 16), dtype=torch.int32),
        "seq_lens": torch.zeros(sequences, dtype=torch.int32),
        "max_seq_len": longest,
        "softmax_scale": 1.0,
    }
    call(found, task_of("paged_attention_decode"), made)
    assert CALLED[-1] == f"_C.paged_attention_{kernel}"


def test_paged_attention_in_parts_agrees(solution: Load) -> None:
    found = solution("vllm/paged_attention_decode")
    axes = {**PAGED, "contexts": [[600, 1], [9, 1]], "head_dim": 64}
    check(found, "paged_attention_decode", axes)
    assert CALLED[-1] == "_C.paged_attention_v2"


QUANTIZING = [name for name in ADAPTERS if "quant" in name]


@pytest.mark.parametrize("name", QUANTIZING)
def test_other_encodings_than_nvidias_are_declined(solution: Load, name: str) -> None:
    found, task = solution(name), task_of(name.partition("/")[2])
    made = task.inputs(AXES[name.partition("/")[2]], Draw(seed=7, fp8="e4m3fnuz"))
    with pytest.raises(NotImplementedError, match="e4m3fn only"):
        call(found, task, made)


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_missing_package_is_named(missing: Load, name: str) -> None:
    package = {"vllm": "vllm==0.24.0", "sgl_kernel": "sglang-kernel==0.4.3"}
    install = f"pip install --no-deps {package[name.partition('/')[0]]}"
    with pytest.raises(ImportError, match=f"needs .*: {install}"):
        missing(name)
    assert not CALLED


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_package_without_the_file_is_not_enough(missing: Load, tmp_path: Path, name: str) -> None:
    (tmp_path / name.partition("/")[0]).mkdir()
    with pytest.raises(ImportError, match="pip install --no-deps"):
        missing(name)


def test_deepgemm_finds_its_compiler_and_keeps_what_it_builds(
    solution: Load, tmp_path: Path
) -> None:
    nvrtc = tmp_path / "nvidia/cu13/lib/libnvrtc.so.13"
    nvrtc.parent.mkdir(parents=True)
    nvrtc.touch()
    nvcc = tmp_path / "toolkit/bin/nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.touch(mode=0o755)
    os.environ.update(SOLSCOPE_BUILD_FOLDER="built", PATH=str(nvcc.parent))
    os.environ.pop("CUDA_HOME", None)
    solution("vllm/block_scaled_mm")
    assert os.environ["DG_JIT_CACHE_DIR"] == "built"
    assert os.environ["CUDA_HOME"] == str(nvcc.parents[1].resolve())
    assert [str(nvrtc)] == CALLED
    assert sys.path[-1] == str(tmp_path / "vllm/third_party")


def test_sgl_kernel_loads_nvrtc_before_its_operators(solution: Load) -> None:
    solution("sgl_kernel/rms_norm")
    assert CALLED[-2:] == ["libnvrtc.so.13", "sgl_kernel/sm90/common_ops.abi3.so"]
