from __future__ import annotations

from solscope.pages.words import WORDS, about
from solscope.readers.metric_kinds import ABOUT, METRICS, OTHER_METRICS, PROGRAM_METRICS


def test_every_metric_is_explained() -> None:
    assert ABOUT.keys() == METRICS.keys() | PROGRAM_METRICS.keys() | OTHER_METRICS.keys()


def test_the_longest_entry_explains_a_word() -> None:
    assert about("tensor.bf16") == WORDS["tensor."]
    assert about("idle.host:decode") == WORDS["idle.host:"] != about("idle.host")
    assert about("nonsense") is None
