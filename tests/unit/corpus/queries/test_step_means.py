"""Step times of all profiles of a store, and a diagnosis against them."""

from __future__ import annotations

from pathlib import Path

import pytest

from solscope.cli.baseline import diagnose_with
from solscope.corpus.ingest.extract import extract
from solscope.corpus.queries.step_means import step_means
from solscope.corpus.store import Corpus, create_corpus
from solscope.errors import InputError
from solscope.readers.packed import Observations
from tests.unit.corpus.traces import write_trace
from tests.unit.diagnose.making import EAGER

RUN = EAGER.but(steps=30)


@pytest.fixture
def store(tmp_path: Path) -> Corpus:
    corpus = create_corpus(tmp_path / "store")
    paths = [write_trace(tmp_path / f"run{at}.json", gemm_us=20 + at / 10) for at in range(6)]
    corpus.append([extract(str(path)) for path in paths])
    return corpus


def observed(_path: str) -> Observations:
    return RUN.run()


def test_every_profile_gives_its_steps(store: Corpus) -> None:
    found = step_means(store)
    assert [Path(one.file).name for one in found] == [f"run{at}.json" for at in range(6)]
    means = [next(iter(one.phases.values()))[1] for one in found]
    assert means == sorted(means)


def test_only_the_most_typical_profile_is_opened(store: Corpus, tmp_path: Path) -> None:
    opened: list[str] = []

    def open_one(path: str) -> Observations:
        opened.append(Path(path).name)
        return RUN.run()

    path = tmp_path / "new.json"
    result = diagnose_with(str(tmp_path / "store"), str(path), open_one)
    assert opened in (["run2.json", "new.json"], ["run3.json", "new.json"])
    assert result.verdict == "no_change"
    assert result.baseline is not None
    assert result.baseline.runs == 6


def test_the_run_itself_is_no_part_of_the_baseline(store: Corpus, tmp_path: Path) -> None:
    result = diagnose_with(store.url, str(tmp_path / "run0.json"), observed)
    assert result.baseline is not None
    assert result.baseline.runs == 5


def test_profiles_that_are_gone_are_named(store: Corpus, tmp_path: Path) -> None:
    for path in tmp_path.glob("run*.json"):
        path.unlink()
    with pytest.raises(InputError, match="at its path any more"):
        diagnose_with(store.url, "new.json", observed)
