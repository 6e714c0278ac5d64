"""Kernels in Triton where there is no GPU: what to do instead of what its driver says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from solscope.bench.template import write_template
from solscope.bench.worker.outputs import NO_TRITON, failure
from solscope.cli import run
from tests.triton_folder import triton


def raising(module: str, error: Exception, through: Callable[[], Any] | None = None) -> Any:
    """A function of a module of this name, which raises, or calls another one."""

    def fail() -> None:
        if through is not None:
            through()
        raise error

    return FunctionType(fail.__code__, {"__name__": module}, closure=fail.__closure__)


def raised(call: Callable[[], Any]) -> Exception:
    try:
        call()
    except (RuntimeError, ValueError) as error:
        return error
    raise AssertionError("nothing was raised")


DRIVER = raising("triton.runtime.driver", RuntimeError("0 active drivers ([])."))
LAUNCHER = raising("triton.runtime.jit", ValueError("Pointer argument (at 0) cannot be accessed"))
OWN = raising("solution", RuntimeError("a mistake"))
SIMILAR = raising("tritonish", RuntimeError("a mistake"))


@pytest.mark.parametrize("inner", [DRIVER, LAUNCHER])
def test_what_triton_cannot_do_on_a_cpu_is_said_with_what_to_do(inner: Callable[[], Any]) -> None:
    error = raised(raising("solution", RuntimeError("never"), inner))
    found = failure(error, torch, "cpu")
    assert (found.status, found.reason) == ("unsupported", NO_TRITON)
    assert failure(error, torch, "cuda").status == "crashed"


@pytest.mark.parametrize("inner", [OWN, SIMILAR, raising("triton.runtime.jit", OSError(), OWN)])
def test_mistakes_of_the_solution_stay_its_own(inner: Callable[[], Any]) -> None:
    """Also of one that Triton calls."""
    assert failure(raised(inner), torch, "cpu").status == "crashed"


def test_an_interpreted_kernel_may_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert failure(raised(DRIVER), torch, "cpu").status == "crashed"


@pytest.mark.long
@pytest.mark.usefixtures("warm_workers")
@pytest.mark.parametrize(("interpret", "code"), [("0", 2), ("1", 0)])
def test_a_kernel_that_begins_in_triton(
    interpret: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(str(triton()))  # workers look for packages where we do
    monkeypatch.setenv("TRITON_INTERPRET", interpret)
    write_template("rms_norm", tmp_path / "mine", "triton", force=False)
    check = ["bench", "check", str(tmp_path / "mine"), "--op", "rms_norm", "--device", "cpu"]
    assert run([*check, "--small", "--shapes", "0", "--extra", "1"]) == code
    assert (NO_TRITON in capsys.readouterr().err) == (code == 2)
