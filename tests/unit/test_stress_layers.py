"""The changes that `scripts/stress_layers.py` makes to passes carry the truth along."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
ROLES = {
    "N": ("input_norm", "post_norm"),
    "G": ("qkv", "o_proj", "up_gate", "down"),
    "R": ("rope",),
    "K": ("kv_write",),
    "A": ("attention",),
    "S": ("activation",),
    "i": ("residual", "residual"),
}
LAYER = "NGRKAGiNGSGi"


@pytest.fixture
def stress(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import stress_layers  # type: ignore[import-not-found]

    yield stress_layers
    for name in ("stress_layers", "architecture_passes", "architecture_truth"):
        sys.modules.pop(name, None)


def recorded(stress, layers: int):  # type: ignore[no-untyped-def]
    """A pass of equal dense layers with its truth."""
    kernel = stress.Kernel
    kernels = [kernel("E", None, 1, False, None, "prologue", frozenset(("embedding",)))]
    for number in range(layers):
        seen: dict[str, int] = {}
        for letter in LAYER:
            role = ROLES[letter][seen.get(letter, 0)]
            seen[letter] = seen.get(letter, 0) + 1
            kernels.append(kernel(letter, None, 10, False, number, "layer", frozenset((role,))))
    for letter, role in (("N", "final_norm"), ("G", "lm_head"), ("T", "sampler")):
        kernels.append(kernel(letter, None, 1, False, None, "epilogue", frozenset((role,))))
    kinds = dict.fromkeys(range(layers), ("attention", "dense"))
    return stress.RecordedPass(tuple(kernels), True, kinds)


def test_the_unchanged_pass_is_sure_and_right(stress) -> None:  # type: ignore[no-untyped-def]
    sure, wrong = stress.sure_and_wrong(recorded(stress, 4))
    assert wrong == 0
    assert sure > 0.9


@pytest.mark.parametrize(
    ("change", "layer"),
    [
        ("norm before down", "NGRKAGiNGSNGi"),
        ("two attentions per layer", "NGRKAGiNGRKAGiNGSGi"),
        ("attention beside feed-forward", "NGRKAGGSGii"),
        ("qkv split", "NGGGRKAGiNGSGi"),
        ("input norm missing", "GRKAGiNGSGi"),
        ("encoder", "NGRAGiNGSGi"),
    ],
)
def test_a_change_is_made_in_every_layer(stress, change: str, layer: str) -> None:  # type: ignore[no-untyped-def]
    made = stress.CHANGES[change](recorded(stress, 4))
    text = "".join(k.letter for k in made.kernels if k.layer is not None)
    assert text == 4 * layer
    assert [k.layer for k in made.kernels if k.letter == "S"] == [0, 1, 2, 3]


def test_halves_share_a_layer_and_are_not_sure(stress) -> None:  # type: ignore[no-untyped-def]
    made = stress.CHANGES["two halves per layer"](recorded(stress, 4))
    assert sorted({k.layer for k in made.kernels if k.layer is not None}) == [0, 1]
    assert stress.sure_and_wrong(made)[1] == 0


@pytest.mark.parametrize("seed", range(3))
def test_no_change_is_wrong_where_sure(stress, seed: int) -> None:  # type: ignore[no-untyped-def]
    """Interpretations of a changed dense model are right, or not sure."""
    given = recorded(stress, 3 + seed)
    wrong = {name: stress.sure_and_wrong(p)[1] for name, p in stress.stressed([given])}
    assert len(wrong) > 25
    assert {name: share for name, share in wrong.items() if share > 0.05} == {}
