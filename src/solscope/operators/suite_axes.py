"""From a shape of the public suite to the axes of an operator: what several operators share.

Each operator of the suite says in its file how its axes are called there (`@in_suite`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Protocol


class SuiteSizes(Protocol):
    """What a shape of the suite states."""

    @property
    def init(self) -> Mapping[str, Any] | None:
        """Constants of the operator."""

    @property
    def input(self) -> Mapping[str, Any]:
        """Sizes of its inputs."""

    @property
    def W_flops(self) -> Mapping[str, int]:  # noqa: N802 - the suite's own name
        """Published FLOP by dtype."""

    @property
    def Q_write(self) -> int:  # noqa: N802 - the suite's own name
        """Published bytes written."""


SuiteAxes = Callable[[SuiteSizes], dict[str, Any]]
"""Computes the axes of one operator from a shape of the suite."""


def renamed(names: str) -> SuiteAxes:
    """Axes that only have another name in the suite: "ours=theirs", or one word where both agree.

    `renamed("tokens=token_count head_dim")` reads `token_count` and `head_dim` of a shape.
    """
    split = (name.partition("=") for name in names.split())
    pairs = [(ours, theirs or ours) for ours, _, theirs in split]

    def convert(shape: SuiteSizes) -> dict[str, Any]:
        sizes = {**(shape.init or {}), **shape.input}
        return {ours: sizes[theirs] for ours, theirs in pairs}

    return convert


ROW_SIZES = "tokens=token_count hidden=hidden_size"
"""Rows of activations, one per token."""

PAGED_HEADS = "q_heads=num_query_heads kv_heads=num_kv_heads head_dim=head_size"
"""Heads, as attention on a paged cache and rotary embeddings call them."""

DELTA_RULE = "sequences=batch_size tokens=token_count v_heads=num_v_heads key_dim value_dim"
"""Sizes that all forms of the gated delta rule have."""

expert_sizes = renamed(f"{ROW_SIZES} intermediate=intermediate_size experts=num_experts top_k")
"""Sizes of a layer of experts."""


def with_sequences(names: str) -> SuiteAxes:
    """The lengths of the sequences of a batch, and axes that have another name in the suite."""
    sizes = renamed(names)

    def convert(shape: SuiteSizes) -> dict[str, Any]:
        return {"sequences": equal_sequences(shape), **sizes(shape)}

    return convert


def with_context(sequences: str, names: str) -> SuiteAxes:
    """One length for all `sequences`, as the suite calls their number; and renamed axes."""
    sizes = renamed(names)

    def convert(shape: SuiteSizes) -> dict[str, Any]:
        return {"contexts": [[shape.input["ctx_len"], shape.input[sequences]]], **sizes(shape)}

    return convert


def equal_sequences(shape: SuiteSizes) -> list[list[int]]:
    """Sequences of equal length together; queries and keys are equally many in the suite."""
    lengths = Counter(expand(shape.input["seq_lens"]))
    return [[length, length, count] for length, count in lengths.items()]


def expand(value: Any) -> list[int]:
    """A list of the file, `{"repeat": [v, n]}` written out."""
    if isinstance(value, dict):
        item, count = value["repeat"]
        return [item] * count
    return list(value)
