"""What file names, event names and headers tell about a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from solscope.readers.recording import (
    file_name_facts,
    guess_framework,
    safe_about,
    safe_versions,
)

FILE_NAMES: dict[str, tuple[int | None, str | None]] = {
    "trace.json.gz": (None, None),
    "1700000000-TP-0.trace.json.gz": (0, None),
    "1700000000-TP-3-DECODE.trace.json.gz": (3, "decode"),
    "1700000000-TP-3-EXTEND.trace.json.gz": (3, "prefill"),
    "run_prefill_rank5.json": (5, "prefill"),
    "rank0.1700000000.pt.trace.json.gz": (0, None),
    "rank_12.json": (12, None),
    "dp0_pp0_tp1_rank9.json": (9, None),
    "1700000000-TP-1-DP-2.trace.json.gz": (None, None),
    "1700000000-TP-1-PP-0-DECODE.trace.json.gz": (None, "decode"),
    "1700000000-TP-1-EP-1.trace.json.gz": (None, None),
    "TP0.json": (0, None),
    "http-0.json": (None, None),
    "frank7.json": (None, None),
    "decode.json": (None, None),
    "my-decoder-run.json": (None, None),
    "rank12345678901.json": (None, None),
}


@pytest.mark.parametrize("name", FILE_NAMES)
def test_rank_and_stage_of_a_file_name(name: str) -> None:
    assert file_name_facts(Path("rank8-DECODE-folder") / name) == FILE_NAMES[name]


FRAMEWORKS: dict[str, str | None] = {
    "vllm/v1/worker/gpu_worker.py(99): execute_model": "vllm",
    "vllm::unified_attention": "vllm",
    "_C_cache_ops::reshape_and_cache": "vllm",
    "sglang/srt/managers/scheduler.py(1): run": "sglang",
    "sgl_kernel::rmsnorm": "sglang",
    "rtp_llm/server/x.py(1): f": "rtp-llm",
    "trtllm::fused_moe": "tensorrt-llm",
    "xfuser/core.py(1): f": "xdit",
    "diffusers/models/x.py(1): f": "diffusers",
    "transformers/models/x.py(1): f": "transformers",
    "aten::mm": None,
}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_framework_of_a_name(name: str) -> None:
    assert guess_framework(["aten::add", name]) == FRAMEWORKS[name]


def test_a_framework_that_uses_another_is_the_one() -> None:
    names = ["transformers/x.py(1): f", "vllm/x.py(1): f", "sglang/x.py(1): f"]
    assert guess_framework(names) == "sglang"
    assert guess_framework(names[:2]) == "vllm"


def test_no_names_no_framework() -> None:
    assert guess_framework([]) is None


HEADER: dict[str, Any] = {
    "schemaVersion": 1,
    "with_stack": True,
    "trace_id": "8F2A",
    "baseTimeNanoseconds": 1700000000000000000,
    "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8, "token": "hunter2"},
    "config": {"model": {"torch_dtype": "bfloat16", "revision": "hunter2"}},
    "env": {"HF_TOKEN": "hunter2", "PATH": "/home/alice/bin"},
    "command": ["python", "--api-key=hunter2"],
    "argv": "python --api-key=hunter2",
    "user": "alice",
    "hostname": "gpu-box",
}


def test_only_known_facts_of_a_header_are_kept() -> None:
    assert safe_about(HEADER) == {
        "schemaVersion": 1,
        "with_stack": True,
        "trace_id": "8F2A",
        "baseTimeNanoseconds": 1700000000000000000,
        "distributedInfo.backend": "nccl",
        "distributedInfo.rank": 3,
        "distributedInfo.world_size": 8,
        "config.model.torch_dtype": "bfloat16",
    }


@pytest.mark.parametrize("value", ["x" * 80, ["hunter2"], None])
def test_a_known_fact_must_be_small(value: object) -> None:
    assert safe_about({"tag": value}) == {}


def test_a_short_string_is_small() -> None:
    assert safe_about({"tag": "x" * 79}) == {"tag": "x" * 79}


def test_a_header_of_thousands_of_facts_is_cut() -> None:
    assert len(safe_about({str(index): {"rank": index} for index in range(5000)})) == 200


VERSIONS = {
    "cuda_runtime_version": 12080,
    "driver_version": "570.124.06",
    "torch_version": "2.8.0+cu128",
    "nccl": "2.27.3",
    "hip_version": None,
    "token_version": "Bearer hunter2",
    "long_version": "1" * 41,
    "list_version": ["1", "2"],
    "api_key": "1.2.3",
}


def test_versions_and_nothing_else() -> None:
    assert safe_versions(VERSIONS) == {
        "cuda_runtime_version": "12080",
        "driver_version": "570.124.06",
        "torch_version": "2.8.0+cu128",
        "nccl": "2.27.3",
    }
