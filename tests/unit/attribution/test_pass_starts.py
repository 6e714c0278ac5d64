from __future__ import annotations

import sys

import pytest

from solscope.attribution.pass_starts import pass_starts
from tests.making import attributed, event
from tests.models import LAYER, launched

SMALL = f"E{LAYER * 2}NGT"
LARGE = f"E{LAYER * 5}NGT"
HEAD = f"E{LAYER}NGT"


def starts(*passes: str) -> list[int]:
    """Where each of these passes begins when they run one after another."""
    return [len("".join(passes[:number])) for number in range(len(passes))]


@pytest.mark.parametrize(
    "passes",
    [
        (SMALL, SMALL, LARGE),
        (LARGE, SMALL, SMALL),
        (HEAD, HEAD, HEAD, LARGE),
        (LARGE, LARGE),
        (SMALL.replace("T", "Xk"), LARGE),
        (SMALL.replace("EN", "EEiN"), LARGE),
    ],
    ids=["drafts", "drafts behind", "heads", "tokens", "largest few", "positions added"],
)
def test_a_chosen_token_that_is_embedded_begins_a_pass(passes: tuple[str, ...]) -> None:
    assert list(pass_starts("".join(passes))) == starts(*passes)


EXPERTS = "NGRKAGiNGTEGeGi"
"""A layer that chooses one expert, under names that say nothing of experts."""


@pytest.mark.parametrize(
    "text",
    [
        LARGE,
        f"E{EXPERTS * 4}NGT",
        f"E{(LAYER + EXPERTS) * 2}NGT",
        f"E{'NGAGNGTEGSG' * 4}NGT",
        f"o{'NGAGNGSG' * 3}NncTE{'NGAGNGSG' * 3}NG",
        f"E{'NGAGNGSG' * 3}N{'NGAGNGAGNGSG' * 3}NGT",
        LAYER * 6,
        "NGVG" * 3 + "GNGSG" * 3,
        HEAD * 4,
        "",
    ],
    ids=[
        "one pass",
        "experts",
        "experts in every second layer",
        "experts with an activation",
        "largest element of a tower",
        "encoder and decoder",
        "layers alone",
        "no pass",
        "single layers",
        "nothing",
    ],
)
def test_what_is_one_pass_stays_one(text: str) -> None:
    assert pass_starts(text) == (0,)


TOWERS = f"oE{'NGAGNGSG' * 3}NEE{'NGAGNGSG' * 2}NTEGG"
"""Two towers, as one encoder has them."""


def test_an_encoder_that_was_called_several_times_has_a_pass_for_each() -> None:
    assert list(pass_starts(TOWERS * 4)) == starts(*[TOWERS] * 4)


def layers_by_pass(text: str) -> list[tuple[int, ...]]:
    """Numbers of the layers of each pass of a step with these kernels."""
    made = attributed(event("annotation", "engine_step", 0, 1000), *launched(text, 10, 2000, 1))
    passes = made.activities.partition_by("pass", maintain_order=True)
    return [tuple(own["layer"].unique().drop_nulls().sort()) for own in passes]


def test_each_pass_has_layers_of_its_own() -> None:
    assert layers_by_pass(SMALL * 2 + LARGE) == [(0, 1), (0, 1), (0, 1, 2, 3, 4)]


def test_a_head_that_drafts_is_one_layer() -> None:
    assert layers_by_pass(HEAD * 2 + LARGE) == [(0,), (0,), (0, 1, 2, 3, 4)]


def test_layers_whose_norms_are_not_recognized_are_no_head() -> None:
    assert layers_by_pass(f"E{'GRKAGGSG' * 4}NGT") == [()]


def test_towers_of_every_call_are_numbered_alike() -> None:
    assert layers_by_pass(TOWERS * 2) == [(0, 1, 2, 3, 4)] * 2


def module(name: str, start: int, dur: int) -> dict[str, object]:
    return event("python", f"nn.Module: {name}", start, dur)


def test_each_call_of_a_model_in_a_stack_is_a_pass() -> None:
    """Its kernels say nothing: no two layers look alike."""
    rows = [event("annotation", "ProfilerStep#1", 0, 5000)]
    for call, text in enumerate(("GAGSG", "GGAGGoG")):
        at = 1000 * call
        rows += [module("Model_0", at + 10, 800), module("Layer_0", at + 20, 300)]
        rows += [module("Norm_0", at + 30, 5), module("Layer_1", at + 400, 300)]
        rows += [module("Norm_1", at + 410, 5)]
        rows += launched(text, at + 50, 9000 + at, 100 * call + 1)
        rows += launched(text, at + 450, 9400 + at, 100 * call + 51)
    made = attributed(*rows)
    assert made.activities["pass"].to_list() == [1] * 10 + [2] * 14


def work_on(sequence: str) -> int:
    """Python calls that it takes to find the passes, a measure of time that no load changes."""
    calls = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        pass_starts(sequence)
    finally:
        sys.setprofile(None)
    return calls


def test_many_choices_between_two_layers_take_time_in_proportion() -> None:
    """A search over beams, say; each choice was looked at with all that follows."""
    few, many = (work_on("NGAGNG" + "kE" * count + "AGNGA") for count in (200, 800))
    assert many < 6 * few
