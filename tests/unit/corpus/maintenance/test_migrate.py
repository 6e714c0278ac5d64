"""A store of every released schema opens after a migration, with the same contents."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from solscope.cli import run
from solscope.corpus.ingest.extract import extract
from solscope.corpus.maintenance.migrate import migrate
from solscope.corpus.maintenance.verify import verify
from solscope.corpus.queries.importance import importance
from solscope.corpus.schema import BATCHES, SCHEMA_VERSION
from solscope.corpus.store import create_corpus, open_corpus
from solscope.errors import InputError
from tests.unit.corpus.traces import write_trace

STORES = Path(__file__).parents[3] / "data" / "stores"
EARLIER = [1]
"""Schemas that were released before this one."""


def test_there_is_a_store_of_every_released_schema() -> None:
    assert [*EARLIER, SCHEMA_VERSION] == list(range(1, SCHEMA_VERSION + 1))
    names = {f"schema-{version}.tar.gz" for version in EARLIER}
    assert {path.name for path in STORES.glob("*.tar.gz")} == names


@pytest.fixture(params=EARLIER)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    with tarfile.open(STORES / f"schema-{request.param}.tar.gz") as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(tmp_path, filter="data")
        else:  # Python before 3.11.4.
            archive.extractall(tmp_path)
    return str(tmp_path / "store")


def test_an_old_store_says_how_it_is_migrated(old: str) -> None:
    with pytest.raises(InputError, match="solscope corpus migrate"):
        open_corpus(old)


def test_a_migrated_store_has_what_it_had(
    old: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["corpus", "migrate", old]) == 0
    assert f"to {SCHEMA_VERSION}, 3 profiles" in " ".join(capsys.readouterr().out.split())
    corpus = open_corpus(old)
    checked = verify(corpus)
    assert (checked.problems, checked.profiles, checked.unrecorded_batches) == ([], 3, 0)
    assert corpus.table("events").collect().height == 16

    new = create_corpus(tmp_path / "new")
    paths = [write_trace(tmp_path / f"trace{at}.json", gemm_us=20 + at, day=at) for at in range(3)]
    new.append([extract(str(path)) for path in paths])
    assert set(corpus.known()) == set(new.known())
    assert importance(corpus) == importance(new)


def test_a_migrated_store_is_written_like_a_new_one(old: str, tmp_path: Path) -> None:
    migrate(old)
    corpus = open_corpus(old)
    corpus.append([extract(str(write_trace(tmp_path / "more.json", gemm_us=99)))])
    corpus.remove([corpus.profiles().filter(file="trace0.json")["id"][0]])
    assert corpus.profiles()["batch"].null_count() == 2
    assert corpus.raw(BATCHES).collect()["profiles"].sum() == 3
    assert verify(corpus).ok


def test_migrating_again_changes_nothing(old: str) -> None:
    migrate(old)
    before = open_corpus(old).version()
    assert migrate(old).before == SCHEMA_VERSION
    assert open_corpus(old).version() == before
