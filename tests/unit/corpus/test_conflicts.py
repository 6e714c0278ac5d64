"""A version of deltalake that does not notice lost races is refused before anything is written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import deltalake
import pytest

from solscope.cli import run
from solscope.corpus import conflicts
from solscope.corpus.ingest.extract import extract
from solscope.corpus.maintenance.compaction import compact
from solscope.corpus.maintenance.repair import repair
from solscope.corpus.store import Corpus, create_corpus
from solscope.errors import MissingToolError, SolscopeError
from tests.unit.corpus.traces import write_trace

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"


@pytest.fixture(autouse=True)
def _unanswered() -> Iterator[None]:
    conflicts._notices_conflicts.cache_clear()
    yield
    conflicts._notices_conflicts.cache_clear()


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    made = create_corpus(tmp_path / "store")
    made.append([extract(str(write_trace(tmp_path / "t.json")))])
    return made


@pytest.fixture
def careless(monkeypatch: pytest.MonkeyPatch) -> None:
    """As deltalake 1.6.6: the second compaction of one version is not refused."""
    monkeypatch.setattr(deltalake, "__version__", "1.6.6")
    compact = deltalake.table.TableOptimizer.compact

    def on_newest(self: deltalake.table.TableOptimizer) -> object:
        self.table.update_incremental()
        return compact(self)

    monkeypatch.setattr(deltalake.table.TableOptimizer, "compact", on_newest)


def test_the_installed_version_notices_a_lost_race() -> None:
    assert conflicts._notices_conflicts("installed")


def test_a_version_that_nobody_measured_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deltalake, "__version__", "99.0")
    conflicts.check_conflicts(deltalake)


@pytest.mark.usefixtures("careless")
def test_nothing_is_written_with_a_careless_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["corpus", "init", str(tmp_path / "new")]) == 2
    error = capsys.readouterr().err
    assert "deltalake 1.6.6 can double rows" in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "new").exists()


def test_every_way_of_writing_is_refused(
    corpus: Corpus, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    more = extract(str(write_trace(tmp_path / "more.json", gemm_us=50)))
    request.getfixturevalue("careless")
    before = corpus.version()
    for write in (
        lambda: corpus.append([more]),
        lambda: corpus.remove(corpus.known()),
        lambda: compact(corpus),
    ):
        with pytest.raises(MissingToolError, match="nothing was written"):
            write()
    assert corpus.version() == before
    assert repair(corpus).clean  # Reads, and has nothing to write.
    assert corpus.status().profiles == 1


def test_the_package_asks_for_the_same_versions() -> None:
    assert PYPROJECT.read_text(encoding="utf-8").count(f'"{conflicts.WANTED}"') == 2


def test_without_the_package_no_folder_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(SolscopeError, match=r"pip install 'solscope\[corpus\]'"):
        create_corpus(tmp_path / "deep" / "store")
    assert list(tmp_path.iterdir()) == []
