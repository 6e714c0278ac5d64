"""Fixtures that several test files share."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

from solscope.readers.kineto_core import native_scanner

# The same examples in every run, so that what fails can be run again; look for others with
# HYPOTHESIS_PROFILE=default.
settings.register_profile("repeatable", derandomize=True, database=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.fixture(params=["native", "python"])
def core(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test once with each scanner of Chrome traces."""
    name = str(request.param)
    if name == "native" and native_scanner() is None:
        pytest.skip("the native scanner is not built")
    monkeypatch.setenv("SOLSCOPE_CORE", name)
    return name
