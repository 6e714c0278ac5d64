"""The bound of a shape."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from solscope.bench.bounds import shape_bound  # noqa: E402
from solscope.hardware import at_highest_clock, find  # noqa: E402
from solscope.operators import operator  # noqa: E402


def test_a_bound_needs_a_device_and_names_what_it_is() -> None:
    op, axes = operator("rms_norm"), {"tokens": 4096, "hidden": 5120}
    assert shape_bound(op, axes, axes, None).reason == "no hardware file describes this device"
    found = shape_bound(op, axes, axes, find("H200"))
    read = (4096 * 5120 + 5120) * 2
    assert found.limiter == "hbm"
    assert found.bound_us == pytest.approx(read / 4.8e12 * 1e6)
    assert found.published_us == pytest.approx((2 * read - 5120 * 2) / 4.8e12 * 1e6)
    assert found.bound_us is not None
    assert found.measured_bound_us is not None
    assert found.measured_bound_us > found.bound_us
    assert shape_bound(op, axes, axes, find("H200"), published=False).published_us is None


def test_tensor_cores_count_at_the_clock_that_short_calls_run_at() -> None:
    op, axes = operator("dense_gemm"), {"m": 8192, "n": 8192, "k": 8192}
    found = shape_bound(op, axes, axes, find("H200"))
    assert found.limiter == "tensor.bf16"
    assert found.bound_us == pytest.approx(2 * 8192**3 / (989.4e12 * 1.98 / 1.83) * 1e6)
    at_highest = at_highest_clock(find("H200"))
    assert at_highest.value("tensor.fp64") == find("H200").value("tensor.fp64")
    assert at_highest_clock(find("A100-80")) == find("A100-80")
