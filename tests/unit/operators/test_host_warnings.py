"""Warnings about the processor, raised by hand wherever torch computes on the host."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from solscope.bench.catalog import find_solution
from solscope.bench.run.agenda import Options
from solscope.bench.run.evaluate import evaluate
from solscope.bench.verify import verify
from solscope.bench.worker import serve as worker
from solscope.bench.workloads import SMALL
from solscope.lab import record
from solscope.operators.host_warnings import HOST_WARNING, ignore_host_warnings
from solscope.suite.atrex import load_suite
from solscope.suite.axes import suite_axes
from solscope.suite.scale import scale_down

ARM64 = "mkldnn_matmul bf16 path needs a cpu with bf16 support"
X86_64 = (
    "mkldnn_matmul: mkldnn_matmul bf16 path needs the cpu support avx_ne_convert or avx512bw, "
    "avx512vl and avx512dq, or AWS Graviton3"
)
MESSAGES = [ARM64, X86_64, "mkldnn_linear: fp16 path needs the cpu support avx512_fp16"]


@pytest.fixture
def processor() -> Iterator[None]:
    """Every operation of torch warns, and every warning is an error."""

    class Warns(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            warnings.warn(ARM64, UserWarning, stacklevel=2)
            return function(*args, **(kwargs or {}))

    with warnings.catch_warnings(), Warns():  # type: ignore[no-untyped-call]
        warnings.simplefilter("error")
        yield


@pytest.mark.usefixtures("processor")
def test_the_stand_in_warns() -> None:
    with pytest.raises(UserWarning, match="bf16 path"):
        torch.ones(2) + 1
    with ignore_host_warnings():
        torch.ones(2) + 1
        with pytest.raises(UserWarning, match="another one"):
            warnings.warn("another one", UserWarning, stacklevel=1)


@pytest.mark.parametrize("message", MESSAGES)
def test_tests_do_not_fail_for_it(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=1)


@pytest.mark.usefixtures("processor")
@pytest.mark.parametrize(
    "name",
    [
        "chunk_delta_rule_output",
        pytest.param("fp8_blockscale_fused_moe", marks=pytest.mark.long),
    ],
)
def test_the_check_of_the_suite(name: str) -> None:
    op = load_suite().operator(name)
    found = verify(name, [scale_down(suite_axes(op, op.shapes[0]))])
    assert found.failures == []


@pytest.mark.usefixtures("processor")
def test_the_evaluator_and_its_workers(tmp_path: Path) -> None:
    """The solution warns in its own process, then ends it: what is shown is not the warning."""
    file = tmp_path / "warns.py"
    file.write_text(
        "import os, sys, warnings\n\n\n"
        "def run(**_):\n"
        f"    warnings.warn({ARM64!r})\n"
        "    warnings.warn('something else')\n"
        "    sys.stderr.flush()\n"
        "    os._exit(3)\n"
    )
    eager, dies = evaluate(
        Options(
            operators=["rms_norm"],
            solutions=[find_solution("torch-eager"), find_solution(str(file))],
            shapes="0",
            device="cpu",
            scale=SMALL,
            check_only=True,
            extra=0,
            rounds=1,
        )
    )
    assert (eager.status, dies.status) == ("passed", "crashed")
    assert dies.reason is not None
    assert "something else" in dies.reason
    assert "bf16 path" not in dies.reason


def test_a_worker_has_the_same_pattern() -> None:
    assert worker.HOST_WARNING == HOST_WARNING


def test_the_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    def warns(*_: object) -> list[object]:
        warnings.warn(ARM64, UserWarning, stacklevel=1)
        raise KeyError("reached")

    monkeypatch.setattr(record, "plan", warns)
    options = record.Options(out=Path("none"), device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(KeyError, match="reached"):
            record.record(options, print)
