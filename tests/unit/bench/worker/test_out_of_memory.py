"""Running out of memory is called `oom` in every wording, whatever the architecture."""

from __future__ import annotations

import errno

import pytest

pytest.importorskip("torch")

import torch

from solscope.bench.catalog import find_solution
from solscope.bench.pool.inputs import InputSets
from solscope.bench.run.agenda import Options
from solscope.bench.run.evaluate import evaluate
from solscope.bench.worker.outputs import failure
from solscope.bench.workloads import SMALL

pytestmark = pytest.mark.usefixtures("warm_workers")
X86_64 = (
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: "
    "you tried to allocate 1125899906842624 bytes. Error code 12 (Cannot allocate memory)"
)
ARM64 = (
    "[enforce fail at alloc_cpu.cpp:121] data. DefaultCPUAllocator: not enough memory: "
    "you tried to allocate 1125899906842624 bytes."
)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(X86_64),
        RuntimeError(ARM64),
        RuntimeError("std::bad_alloc"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."),
        torch.OutOfMemoryError("HIP out of memory. Tried to allocate 20.00 GiB."),
        MemoryError(),
        MemoryError("std::bad_alloc"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
    ],
    ids=repr,
)
def test_out_of_memory(error: Exception) -> None:
    assert failure(error, torch, "cpu").status == "oom"


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        RuntimeError("out of resource: shared memory, Required: 245760, Hardware limit: 232448"),
        ValueError("the text 'out of memory' in an error about something else"),
        OSError(errno.ENOENT, "No such file or directory"),
    ],
    ids=repr,
)
def test_other_failures(error: Exception) -> None:
    assert failure(error, torch, "cpu").status == "crashed"


@pytest.mark.parametrize("message", [X86_64, ARM64], ids=["x86_64", "arm64"])
def test_inputs_that_do_not_fit_are_no_fault_of_a_solution(
    monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise RuntimeError(message)

    monkeypatch.setattr(InputSets, "draw", full)
    (result,) = evaluate(
        Options(
            operators=["rms_norm"],
            solutions=[find_solution("torch-eager")],
            shapes="0",
            device="cpu",
            scale=SMALL,
            check_only=True,
            extra=0,
            rounds=1,
        )
    )
    assert result.status == "unsupported"
    assert result.reason is not None
    assert result.reason.startswith("its inputs or its reference do not fit")
