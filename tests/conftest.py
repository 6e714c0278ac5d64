"""Fixtures that several test files share."""

from __future__ import annotations

import pytest

from solscope.readers.kineto_core import native_scanner


@pytest.fixture(params=["native", "python"])
def core(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test once with each scanner of Chrome traces."""
    name = str(request.param)
    if name == "native" and native_scanner() is None:
        pytest.skip("the native scanner is not built")
    monkeypatch.setenv("SOLSCOPE_CORE", name)
    return name
