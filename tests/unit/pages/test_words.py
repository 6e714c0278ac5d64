"""Every word of a closed list that a page shows is explained where one points at it."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from solscope import hardware
from solscope.attribution.rules import CATEGORIES
from solscope.bench.base import METHODS
from solscope.diagnose.changes.counters import CounterChange, Part
from solscope.diagnose.changes.decompose import FAMILIES
from solscope.diagnose.compared import Comparability
from solscope.diagnose.statistics.two_samples import State
from solscope.operators.cost import Cost
from solscope.pages.words import TERMS, WORDS, about
from solscope.readers.metric_kinds import ABOUT, METRICS, OTHER_METRICS, PROGRAM_METRICS
from solscope.roofline.bound import bound
from solscope.views.idle import CAUSES

FRONTEND = Path(__file__).parents[3] / "frontend" / "src"


def limiters() -> set[str]:
    """All terms of a bound, on every GPU: of calls that need everything, little or much of it."""
    found = set()
    for name in hardware.names():
        card = hardware.find(name)
        pipes = [*card.peaks, "sfu"]
        kinds = [{pipe: 1e9} for pipe in pipes] + [
            dict.fromkeys(pair, 1e9) for pair in pairwise(pipes)
        ]
        for flops in kinds:
            for size in (1.0, 1e8, 1e12):
                cost = Cost(flops, {"weights": size}, {"activations": size}, size, size, 3)
                for published in (False, True):
                    least = bound(cost, card, published=published)
                    found |= {*least.terms_us, *least.missing}
    return found


def components() -> set[str]:
    of_gpu = {"compute": "gemm", "comm": "all_reduce", "memcpy": "HtoD"}
    idle = {f"idle.{name}" for name in (*FAMILIES.keys() - of_gpu, "between_steps", "launch_call")}
    return {f"{kind}.{name}" for kind, name in of_gpu.items()} | idle | {"idle.host:decode"}


def of_field(struct: type, field: str) -> set[str]:
    return set(get_args(get_type_hints(struct)[field]))


def relations() -> set[str]:
    """What the page calls the ways in which kernels match."""
    page = (FRONTEND / "pages" / "comparison.tsx").read_text(encoding="utf-8")
    listed = re.search(r"const RELATION: [^=]*= \{([^}]*)\}", page)
    assert listed is not None
    return set(re.findall(r': "([^"]+)"', listed[1]))


LISTS: dict[str, set[str]] = {
    "categories": set(CATEGORIES),
    "limiters": limiters(),
    "components": components(),
    "methods": set(METHODS.values()),
    "states": {state.replace("_", " ") for state in get_args(State)},
    "states of sensors": {state.replace("_", " ") for state in of_field(CounterChange, "state")},
    "parts of sensors": set(get_args(Part)),
    "levels": of_field(Comparability, "level") - {"refuse"} | {"not comparable"},
    "relations": relations(),
    "sensors": {*METRICS, *PROGRAM_METRICS, *OTHER_METRICS},
}


@pytest.mark.parametrize("name", LISTS)
def test_every_word_of_a_list_is_explained(name: str) -> None:
    assert LISTS[name]
    assert {word for word in LISTS[name] if about(word) is None} == set()


def test_no_word_is_explained_that_nothing_has() -> None:
    every = set().union(*LISTS.values())
    whole = {word for word in WORDS if word[-1] not in ".:"}
    assert whole - every == set()
    assert ABOUT.keys() == LISTS["sensors"]


def test_causes_of_idle_time_are_explained_beside_them() -> None:
    assert all(CAUSES.values())


def labels() -> list[str]:
    """Titles of columns without an explanation of their own, and names of facts, of all pages."""
    found = []
    for path in sorted((FRONTEND / "pages").glob("*.tsx")):
        page = path.read_text(encoding="utf-8")
        found += [
            title
            for title, rest in re.findall(r'\btitle: ["`]([^"`]+)["`]([^\n]*)', page)
            if not re.match(r"[^{}]*\bhelp: ", rest)
        ]
        found += re.findall(r'^\s*(?:\.\.\.[^\n]*)?\["([A-Z][^"]*)", ', page, flags=re.MULTILINE)
    return found


ABBREVIATION = re.compile(r"\b(?:p\d+|[A-Z]{2,}|[a-z]+_[a-z_]+|T_\w+)\b")
"""What nobody can know: quantiles, capitals, names of variables."""
KNOWN = {"GPU", "GPUs", "CPU", "FLOP", "TFLOP", "TB", "KV", "JSON", "CSV", "XPU", "ID"}
"""Abbreviations that whoever reads a profile knows, and units."""


def test_every_abbreviation_in_a_label_is_explained() -> None:
    asked = {
        (label, short)
        for label in labels()
        for short in ABBREVIATION.findall(re.sub(r"\$\{.*?\}", "", label))
        if short not in KNOWN
    }
    assert len(labels()) > 100
    assert {pair for pair in asked if pair[1] not in TERMS} == set()


def test_the_longest_entry_explains_a_word() -> None:
    assert about("tensor.bf16") == WORDS["tensor."] != about("tensor")
    assert about("idle.host:decode") == WORDS["idle.host:"] != about("idle.host")
    assert about("nonsense") is None
