"""Fixtures that several test files share."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from solscope.readers.kineto_core import native_scanner
from tests.memory import MEMORY, has_room

# The same examples in every run, so that what fails can be run again: few by default, many in
# `make test-long`. Look for others with HYPOTHESIS_PROFILE=default. No deadline: machines differ.
settings.register_profile(
    "repeatable", derandomize=True, database=None, deadline=None, max_examples=10
)
settings.register_profile("many", settings.get_profile("repeatable"), max_examples=100)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def _write_in_memory() -> None:
    """Put the folders of tests where writing through to the disk takes no time.

    A store makes sure that what it wrote is on the disk. In a whole run, tests would wait for that
    for half a minute.
    """
    if has_room():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_configure(config: pytest.Config) -> None:
    """Remember recordings in processes that run tests; one that hands them out reads none."""
    if config.option.basetemp is None:
        _write_in_memory()
    hands_out = getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput")
    if not hands_out:
        from tests.read_once import install

        install()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with long tests in every process: those at the end are handed on, and must be short.

    xdist gives each process an equal part of the list, and what is left at the end of one to others
    that are done. A long test in that place would keep all others waiting.
    """
    processes: int = getattr(config, "workerinput", {}).get("workercount", 1)
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        if "long" in item.keywords:
            files.setdefault(item.path, []).append(item)
    parts: list[list[pytest.Item]] = [[] for _ in range(processes)]
    for number, tests in enumerate(files.values()):
        parts[number % processes] += tests
    short = [item for item in items if "long" not in item.keywords]
    for part in parts:
        room = max(0, len(items) // processes - len(part))
        part += short[:room]
        del short[:room]
    items[:] = [item for part in parts for item in part] + short


def pytest_collection_finish() -> None:
    """Keep collected tests, which are thousands, out of searches for garbage; search seldom."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(autouse=True, scope="session")
def _no_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep tests, and the processes they start, away from the cache of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOLSCOPE_NO_CACHE", "1")
        patch.setenv("SOLSCOPE_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_progress_lines() -> Iterator[None]:
    """What a command says on stderr must not depend on how long it took here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("solscope.cli.progress.LOG_EVERY_S", float("inf"))
        yield


@pytest.fixture(params=["native", "python"])
def core(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test once with each scanner of Chrome traces."""
    name = str(request.param)
    if name == "native" and native_scanner() is None:
        pytest.skip("the native scanner is not built")
    monkeypatch.setenv("SOLSCOPE_CORE", name)
    return name


@pytest.fixture(autouse=True)
def _read_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """Do not read a recording again that another test has read; see `read_once.py`."""
    from tests.read_once import reads_anew, remembering

    if "reads_anew" in request.keywords or reads_anew(request.path):
        yield
        return
    with remembering():
        yield
