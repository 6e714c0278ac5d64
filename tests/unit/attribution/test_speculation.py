from __future__ import annotations

from collections.abc import Sequence

import pytest

from solscope.attribution.phases import Query
from solscope.attribution.speculation import Pass, find_turns


def passes(
    text: str, *, queries: int | None = None, layers: tuple[int, int] = (4, 24)
) -> list[Pass]:
    """A pass for each letter: d a small model, V a large one, p a prompt of the large one."""
    small = None if queries is None else Query(8, 1)
    large = None if queries is None else Query(8, queries)
    made = {
        "d": Pass(0, "small", layers[0], 10, small, None),
        "V": Pass(0, "large", layers[1], 90, large, None),
        "p": Pass(0, "large", layers[1], 900, Query(8, 512), None),
    }
    return [made[letter]._replace(number=number) for number, letter in enumerate(text)]


def phases(given: Sequence[Pass]) -> str:
    """The phases that are claimed as letters, `-` for none."""
    found = find_turns(given).phases
    return "".join(found.get(own.number, "-")[0] for own in given)


@pytest.mark.parametrize(
    ("text", "queries", "layers"),
    [
        ("dddV", 4, (4, 24)),
        ("dVdV", 2, (4, 24)),
        ("ddVdddVdV", None, (1, 24)),
        ("dVdV", None, (1, 24)),
        ("dVdV", 9, (1, 24)),
    ],
    ids=["queries", "one draft", "head", "one draft of a head", "tree of drafts"],
)
def test_drafts_and_verification_are_claimed_where_earned(
    text: str, queries: int | None, layers: tuple[int, int]
) -> None:
    found = phases(passes(text, queries=queries, layers=layers))
    assert found == text.replace("V", "v")


@pytest.mark.parametrize(
    ("text", "queries", "layers"),
    [
        ("ddVddVddV", 1, (4, 24)),
        ("dVdVdVdV", None, (4, 24)),
        ("ddddddddV" * 5, None, (4, 24)),
        ("ddVdddVdV", None, (4, 24)),
        ("ddVddVddV", 7, (4, 24)),
        ("ddVVddVVddV", None, (1, 24)),
        ("dV", None, (1, 24)),
        ("dV", 2, (4, 24)),
        ("dddd", None, (1, 24)),
        ("", None, (1, 24)),
        ("ddVddVddV", None, (30, 24)),
        ("ddVddVddV", None, (24, 24)),
        ("dVdVdV", None, (1, 2)),
    ],
    ids=[
        "one query verifies nothing",
        "two models in turns",
        "codebooks of audio frames",
        "turns differ",
        "other queries",
        "target twice",
        "one turn of a head",
        "one turn of one draft",
        "one model",
        "nothing",
        "more layers in less time",
        "as many layers",
        "few layers",
    ],
)
def test_nothing_is_claimed_where_it_is_not_earned(
    text: str, queries: int | None, layers: tuple[int, int]
) -> None:
    assert phases(passes(text, queries=queries, layers=layers)) == "-" * len(text)


def test_a_prompt_is_no_part_of_a_turn() -> None:
    assert phases(passes("pdddVpdddVdd", queries=4)) == "-dddv-dddvdd"


def test_turns_begin_with_the_first_draft() -> None:
    assert find_turns(passes("VddVpddVdd", queries=3)).starts == [1, 4, 5, 8]


def test_what_a_name_states_is_not_overruled() -> None:
    given = [own._replace(phase="prefill") for own in passes("dddV", queries=4)]
    assert phases(given) == "----"


def test_a_pass_that_holds_more_than_one_spoils_the_claim() -> None:
    given = passes("dVdVdV", layers=(1, 24))
    assert phases(given) == "dvdvdv"
    assert phases([*given[:-1], given[-1]._replace(whole=False)]) == "------"
