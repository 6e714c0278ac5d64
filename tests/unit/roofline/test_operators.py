from __future__ import annotations

import pytest

from solscope.errors import UsageError
from solscope.hardware import find
from solscope.roofline import operator_bound
from solscope.suite.atrex import SuiteOperator, load_suite
from solscope.suite.axes import suite_axes

SUITE = load_suite().operators
PAGED = {"contexts": [[64, 4]], "q_heads": 8, "kv_heads": 2, "head_dim": 64, "block_size": 16}


@pytest.mark.parametrize("op", SUITE, ids=[op.name for op in SUITE])
def test_published_is_what_the_suite_states(op: SuiteOperator) -> None:
    for shape in op.shapes:
        found = operator_bound(op.name, suite_axes(op, shape), find("H20"), bound="published")
        assert found.time_us == pytest.approx(1e3 * shape.sol_ms["H20"], rel=1e-9)


def test_corrected_leaves_out_what_a_kernel_need_not_do() -> None:
    published = operator_bound("paged_attention_decode", PAGED, find("XPU-A"), bound="published")
    corrected = operator_bound("paged_attention_decode", PAGED, find("XPU-A"))
    assert published.limiter == corrected.limiter == "hbm"
    assert (published.time_us or 0) > (corrected.time_us or 0) > 0


def test_operators_outside_the_suite_take_its_formula() -> None:
    axes = {"m": 64, "n": 64, "k": 64}
    found = operator_bound("dense_gemm", axes, find("H200"), bound="published")
    assert found.terms_us["hbm"] == pytest.approx(3 * 64 * 64 * 2 / 4.8e12 * 1e6)


def test_what_is_asked_must_exist() -> None:
    with pytest.raises(UsageError, match="dense_gemm needs the axes m, n, k; missing: n"):
        operator_bound("dense_gemm", {"m": 64}, find("H200"))
    with pytest.raises(UsageError, match="bound must be corrected or published"):
        operator_bound("dense_gemm", {}, find("H200"), bound="best")  # type: ignore[arg-type]
