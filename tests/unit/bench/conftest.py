"""Fixtures of tests that run the bench."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from solscope.bench.pool import spawner
from tests.warm_torch import WarmTorch, warm_torch


@pytest.fixture(scope="session")
def _warm_torch() -> Iterator[WarmTorch]:
    with warm_torch() as warm:
        yield warm


@pytest.fixture
def warm_workers(_warm_torch: WarmTorch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start workers without importing torch anew for each run."""
    monkeypatch.setattr(spawner, "start_process", _warm_torch.start_process)
