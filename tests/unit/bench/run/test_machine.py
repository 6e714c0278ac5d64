"""What is recorded about the machine of a run."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from solscope.bench.catalog import built_in  # noqa: E402
from solscope.bench.run.machine import PACKAGES  # noqa: E402


def test_versions_of_every_package_that_a_solution_needs_are_recorded() -> None:
    stated = {name for one in built_in() for name in one.about.dependencies}
    needed = {name.partition("==")[0] for name in stated}
    assert "sglang" in needed
    assert needed - {"einops", "ninja", "nvidia-ml-py", "packaging", "requests"} <= set(PACKAGES)
