"""Passes that `scripts/score_joined.py` joins carry their truth along."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
MODULES = (
    *("score_joined", "calibrate_layers", "stress_layers", "reliability_curve"),
    *("architecture_passes", "architecture_truth", "architectures"),
)


@pytest.fixture
def score_joined(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import score_joined  # type: ignore[import-not-found]

    yield score_joined
    for name in MODULES:
        sys.modules.pop(name, None)


def test_layers_are_numbered_on_and_nothing_between_has_a_place(score_joined) -> None:  # type: ignore[no-untyped-def]
    def kernel(layer: int | None, place: str):  # type: ignore[no-untyped-def]
        role = None if layer is not None else frozenset(("other",))
        return score_joined.Kernel("G", None, 1, True, layer, place, role)

    recorded = score_joined.RecordedPass(
        (
            kernel(None, "prologue"),
            kernel(0, "layer"),
            kernel(1, "layer"),
            # What ends a prefill can begin the decode step behind it.
            kernel(None, "epilogue prologue"),
        ),
        cut=False,
        kinds={0: ("attention", "dense"), 1: ("attention", "moe")},
    )
    made = score_joined.joined((recorded, recorded))
    assert [k.layer for k in made.kernels] == [None, 0, 1, None, None, 2, 3, None]
    assert [k.place for k in made.kernels] == [
        *("prologue", "layer", "layer", "between"),
        *("between", "layer", "layer", "epilogue prologue"),
    ]
    assert made.kernels[3].role is None
    assert [made.kinds[n][1] for n in range(4)] == ["dense", "moe", "dense", "moe"]


def test_a_kernel_in_the_wrong_pass_has_a_layer_that_nothing_names(score_joined) -> None:  # type: ignore[no-untyped-def]
    def recorded(text: str):  # type: ignore[no-untyped-def]
        kernels = tuple(score_joined.Kernel(x, None, 1, True, 0, "layer", None) for x in text)
        return score_joined.RecordedPass(kernels, cut=False, kinds={0: ("attention", "dense")})

    layer = "NGRKAGNGSG"
    small, large = recorded(f"E{layer * 2}NGT"), recorded(f"E{layer * 4}NGT")
    found, exact = score_joined.cut([small, large])
    assert exact
    assert [len(given.kernels) for given in found] == [24, 44]

    unseen = recorded(f"{layer * 4}NGT")
    found, exact = score_joined.cut([small, unseen])
    assert not exact
    assert [k.layer for k in found[0].kernels] == [-1] * 24 + [0] * 43
