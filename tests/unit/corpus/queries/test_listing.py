"""Lists of profiles: which, in what order, and how many at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from solscope.corpus.ingest.extract import extract
from solscope.corpus.queries.listing import page_of_profiles
from solscope.corpus.store import Corpus, create_corpus
from solscope.errors import UsageError

FACTS: list[dict[str, Any]] = [
    {"file": "a.json", "model": "Qwen3", "gpu": "H200", "recorded_ns": 3, "gpu_ns": 10},
    {"file": "b.json", "model": None, "gpu": "H200", "recorded_ns": None, "gpu_ns": 0},
    {"file": "C.json", "model": "llama", "gpu": "B200", "recorded_ns": 1, "gpu_ns": 20},
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    one = extract("tests/data/kineto_b200.json.gz")
    known = {"version": None, "tags": '{"team":"Größe"}', "decode_ns": 5}
    store = create_corpus(tmp_path_factory.mktemp("listed") / "store")
    store.append(
        [
            replace(one, profile={**one.profile, **known, **facts, "id": str(number) * 64})
            for number, facts in enumerate(FACTS)
        ]
    )
    return store


@pytest.mark.parametrize(
    ("sort", "files"),
    [
        ("", "C a b"),
        ("file-up", "a b C"),
        ("file-down", "C b a"),
        ("model-up", "C a b"),
        ("model-down", "a C b"),
        ("gpu-down", "a b C"),
        ("date-down", "a C b"),
        ("time-down", "C a b"),
        ("decode-up", "C a b"),
    ],
)
def test_what_is_not_known_is_last_both_ways(corpus: Corpus, sort: str, files: str) -> None:
    page = page_of_profiles(corpus, sort=sort)
    assert [row.file.removesuffix(".json") for row in page.profiles] == files.split()


@pytest.mark.parametrize("sort", ["file", "file-sideways", "nothing-up", "-up"])
def test_other_orders_are_refused(corpus: Corpus, sort: str) -> None:
    with pytest.raises(UsageError, match="sort must be one of file, model"):
        page_of_profiles(corpus, sort=sort)


@pytest.mark.parametrize(
    ("find", "found"),
    [("", 3), ("h200", 2), ("H200 qwen", 1), ("größe", 3), (".*", 0), ("111111", 1), ("vllm", 3)],
)
def test_words_are_looked_for_in_all_texts(corpus: Corpus, find: str, found: int) -> None:
    page = page_of_profiles(corpus, find=find)
    assert (page.chosen.height, page.found, len(page.profiles)) == (3, found, found)


def test_a_page_is_cut_from_what_was_found(corpus: Corpus) -> None:
    page = page_of_profiles(corpus, {"gpu": "H200"}, "json", "file-up", 1, 5)
    assert (page.chosen.height, page.found, [row.file for row in page.profiles]) == (
        2,
        2,
        ["b.json"],
    )
