"""Adapters of attention libraries on the CPU: the library is a stand-in of the same interface.

It knows page lists, plans and layouts as FlashInfer and SGLang do, computes in plain torch, and is
as strict about head sizes and argument names; what the kernels themselves compute is not tested.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from solscope.operators.task import Variant
from solscope.operators.tasks.attend import attend
from tests.adapters import check, load

PLANNED: list[dict[str, Any]] = []
"""What the stand-in was asked to plan."""


class Wrapper:
    """Attention by page lists; the four wrappers of FlashInfer differ in their plans."""

    def __init__(self, room: torch.Tensor, layout: str = "NHD", **options: Any) -> None:
        assert layout == "NHD"
        assert set(options) <= {"backend", "use_tensor_cores"}
        self.options = {"backend": "auto", **options}

    def _keep(self, kind: str, head_dim: int, **facts: Any) -> None:
        self.facts = facts
        PLANNED.append({"kind": kind, "head_dim": head_dim, **self.options})
        assert head_dim in (64, 128, 256)
        assert all(
            facts[name].dtype == torch.int32 for name in ("starts", "pointer", "indices", "last")
        )

    def by_pages(self, q: torch.Tensor, cache: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        facts, out = self.facts, torch.empty_like(q)
        starts, pointer = facts["starts"].tolist(), facts["pointer"].tolist()
        for at, last in enumerate(facts["last"].tolist()):
            used = facts["indices"][pointer[at] : pointer[at + 1]].long()
            keys = max(0, len(used) - 1) * facts["page"] + last
            k, v = (side[used].flatten(0, 1)[None, :keys] for side in cache)
            rows = q[starts[at] : starts[at + 1]][None]
            seen = keys - rows.shape[1] + 1 + torch.arange(rows.shape[1])
            visible = seen[None] if facts["causal"] else None
            done = attend(rows, k, v, facts["scale"], visible)[0]
            out[starts[at] : starts[at + 1]] = done.to(q.dtype)
        return out


class Prefill(Wrapper):
    run = Wrapper.by_pages

    def plan(
        self,
        qo_indptr: torch.Tensor,
        paged_kv_indptr: torch.Tensor,
        paged_kv_indices: torch.Tensor,
        paged_kv_last_page_len: torch.Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim_qk: int,
        page_size: int,
        *,
        causal: bool,
        sm_scale: float,
        q_data_type: torch.dtype,
        kv_data_type: torch.dtype,
    ) -> None:
        self._keep(
            "prefill",
            head_dim_qk,
            starts=qo_indptr,
            pointer=paged_kv_indptr,
            indices=paged_kv_indices,
            last=paged_kv_last_page_len,
            page=page_size,
            causal=causal,
            scale=sm_scale,
        )


class Decode(Wrapper):
    run = Wrapper.by_pages

    def plan(
        self,
        indptr: torch.Tensor,
        indices: torch.Tensor,
        last_page_len: torch.Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim: int,
        page_size: int,
        *,
        sm_scale: float,
        q_data_type: torch.dtype,
        kv_data_type: torch.dtype,
    ) -> None:
        self._keep(
            "decode",
            head_dim,
            starts=torch.arange(len(indptr), dtype=torch.int32),
            pointer=indptr,
            indices=indices,
            last=last_page_len,
            page=page_size,
            causal=False,
            scale=sm_scale,
        )


class Ragged(Wrapper):
    def plan(
        self,
        qo_indptr: torch.Tensor,
        kv_indptr: torch.Tensor,
        num_qo_heads: int,
        num_kv_heads: int,
        head_dim_qk: int,
        *,
        causal: bool,
        sm_scale: float,
        q_data_type: torch.dtype,
        kv_data_type: torch.dtype,
    ) -> None:
        lengths = kv_indptr.diff()  # pages of one token
        self._keep(
            "ragged",
            head_dim_qk,
            starts=qo_indptr,
            pointer=kv_indptr,
            indices=torch.arange(int(kv_indptr[-1]), dtype=torch.int32),
            last=(lengths > 0).to(torch.int32),
            page=1,
            causal=causal,
            scale=sm_scale,
        )

    def run(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return self.by_pages(q, (k[:, None], v[:, None]))


class Latent(Wrapper):
    def plan(
        self,
        qo_indptr: torch.Tensor,
        kv_indptr: torch.Tensor,
        kv_indices: torch.Tensor,
        kv_len_arr: torch.Tensor,
        num_heads: int,
        head_dim_ckv: int,
        head_dim_kpe: int,
        page_size: int,
        causal: bool,
        sm_scale: float,
        q_data_type: torch.dtype,
        kv_data_type: torch.dtype,
    ) -> None:
        assert kv_len_arr.dtype == torch.int32
        pages = kv_indptr.diff()
        last = torch.where(pages > 0, kv_len_arr - (pages - 1) * page_size, 0).to(torch.int32)
        self.facts = {
            "starts": qo_indptr,
            "pointer": kv_indptr,
            "indices": kv_indices,
            "last": last,
            "page": page_size,
            "causal": causal,
            "scale": sm_scale,
        }

    def run(
        self, q_nope: torch.Tensor, q_pe: torch.Tensor, ckv: torch.Tensor, kpe: torch.Tensor
    ) -> torch.Tensor:
        q, rows = torch.cat([q_nope, q_pe], -1), torch.cat([ckv, kpe], -1)[:, :, None]
        return self.by_pages(q, (rows, rows))[..., : q_nope.shape[-1]].contiguous()


def module(name: str, **members: Any) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(members)
    return made


@pytest.fixture
def solution(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Load a file of a solution as the worker does, with stand-ins for its library."""
    PLANNED.clear()
    stand_ins = [
        module(
            "flashinfer",
            BatchPrefillWithPagedKVCacheWrapper=Prefill,
            BatchPrefillWithRaggedKVCacheWrapper=Ragged,
        ),
        module("flashinfer.decode", BatchDecodeWithPagedKVCacheWrapper=Decode),
        module("flashinfer.mla", BatchMLAPagedAttentionWrapper=Latent),
        module("_sglang", kernels=lambda _name: SimpleNamespace(decode_attention_fwd=token_decode)),
    ]
    for one in [*stand_ins, module("_pages")]:
        monkeypatch.setitem(sys.modules, one.__name__, one)
    monkeypatch.delitem(sys.modules, "_pages")  # each solution has its own; none stays behind

    def with_little_room(name: str) -> Any:
        found = load(monkeypatch, name)
        if hasattr(sys.modules["_pages"], "WORKSPACE_BYTES"):
            monkeypatch.setattr(sys.modules["_pages"], "WORKSPACE_BYTES", 16)
        return found

    return with_little_room


def token_decode(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    out: torch.Tensor,
    pointer: torch.Tensor,
    indices: torch.Tensor,
    *rest: Any,
) -> None:
    """SGLang's decode kernel: indices of single tokens; 0/0 where there is none."""
    ends = pointer.tolist()
    for at in range(len(q)):
        used = indices[ends[at] : ends[at + 1]]
        if not len(used):
            out[at] = float("nan")
            continue
        out[at] = attend(q[None, None, at], keys[None, used], values[None, used], rest[-1])[0, 0]


PAGED = {"q_heads": 4, "kv_heads": 2, "block_size": 16}


@pytest.mark.parametrize("variant", ["typical", "empty"])
@pytest.mark.parametrize("dim", [64, 72, 192, 256])
def test_flashinfer_attends_in_pages(solution: Any, dim: int, variant: Variant) -> None:
    found = solution("flashinfer/unified_attention")
    axes = {**PAGED, "sequences": [[70, 90, 2], [3, 40, 1]], "head_dim": dim}
    check(found, "unified_attention", axes, variant)
    assert PLANNED[-1]["head_dim"] == {72: 128, 192: 256}.get(dim, dim)


@pytest.mark.parametrize(
    ("sequences", "kind", "backend"),
    [
        ([[64, 64, 2]], "prefill", "auto"),
        ([[1, 33, 3]], "decode", "auto"),
        ([[4, 33, 3]], "prefill", "fa2"),
        ([[1, 33, 4], [100, 100, 1]], "prefill", "fa2"),
    ],
    ids=["prefill", "decode", "verify", "mixed"],
)
def test_flashinfer_takes_the_wrapper_of_the_batch(
    solution: Any, sequences: list[list[int]], kind: str, backend: str
) -> None:
    found = solution("flashinfer/unified_attention")
    axes = {**PAGED, "sequences": sequences, "head_dim": 64}
    check(found, "unified_attention", axes, "typical")
    assert (PLANNED[-1]["kind"], PLANNED[-1]["backend"]) == (kind, backend)


@pytest.mark.parametrize("variant", ["typical", "empty"])
@pytest.mark.parametrize("dim", [72, 128])
def test_flashinfer_attends_to_packed_rows(solution: Any, dim: int, variant: Variant) -> None:
    found = solution("flashinfer/attention_forward")
    axes = {"sequences": [[30, 30, 2], [7, 9, 1]], "heads": 2, "head_dim": dim}
    check(found, "attention_forward", axes, variant)
    assert PLANNED[-1]["head_dim"] == 128


@pytest.mark.parametrize("variant", ["typical", "empty"])
@pytest.mark.parametrize("library", ["flashinfer", "sglang"])
def test_latent_attention_of_libraries(solution: Any, library: str, variant: Variant) -> None:
    found = solution(f"{library}/mla_decode_attention")
    axes = {"contexts": [[70, 2], [9, 1]], "q_heads": 4, "latent_dim": 64, "rope_dim": 16}
    check(found, "mla_decode_attention", axes, variant)


def test_heads_that_flashinfer_cannot_hold_are_refused(solution: Any) -> None:
    solution("flashinfer/unified_attention")
    with pytest.raises(NotImplementedError, match="head_dim 512"):
        sys.modules["_pages"].padded_dim(512)
