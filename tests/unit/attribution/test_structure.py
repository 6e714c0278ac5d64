"""Recordings without layers, and the reason that is given."""

from __future__ import annotations

import pytest

from solscope.attribution.structure import why_unplaced
from tests.making import attributed, event
from tests.models import MODEL, kernels

TABLES = "void split_embedding_codegen_forward_unweighted_kernel<float>"
BACKWARD = "void at::native::tanh_backward_kernel_cuda"


@pytest.mark.parametrize(
    ("names", "training", "word"),
    [
        (["nvjet_tst_128x8", BACKWARD], True, "a model"),
        (["nvjet_tst_128x8", TABLES, BACKWARD], True, "recommendation"),
        (["nvjet_tst_128x8", TABLES], False, "recommendation"),
        (["nvjet_tst_128x8", "acme_unknown"], None, ""),
        ([TABLES, "flash_fwd_kernel"], None, ""),
    ],
    ids=["training", "training of tables", "tables", "products", "tables and attention"],
)
def test_the_reason(names: list[str], training: bool | None, word: str) -> None:
    made = attributed(*(event("kernel", name, 10 * i, 10) for i, name in enumerate(names)))
    found = why_unplaced(made.activities)
    assert (None if found is None else found.training) == training
    assert found is None or word in found.reason


def test_a_model_with_layers_needs_no_reason() -> None:
    assert why_unplaced(attributed(*kernels(MODEL)).activities) is None


def test_nothing_is_claimed_about_training() -> None:
    made = attributed(*kernels(MODEL), event("kernel", BACKWARD, 900, 10)).activities
    for column in ("layer", "role", "layer_kind", "phase"):
        assert made[column].null_count() == made.height
