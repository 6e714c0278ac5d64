"""From a shape of the public suite to the axes of an operator: what several operators share.

Each operator of the suite says in its file how its axes are called there (`suite_axes=`).
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


def renamed(**names: str) -> SuiteAxes:
    """Axes that only have another name in the suite: ours = theirs."""

    def convert(shape: SuiteSizes) -> dict[str, Any]:
        sizes = {**(shape.init or {}), **shape.input}
        return {ours: sizes[theirs] for ours, theirs in names.items()}

    return convert


token_rows = renamed(tokens="token_count", hidden="hidden_size")
"""Rows of activations, one per token."""

delta_rule = {
    "sequences": "batch_size",
    "tokens": "token_count",
    "v_heads": "num_v_heads",
    "key_dim": "key_dim",
    "value_dim": "value_dim",
}
"""Names of the sizes that all forms of the gated delta rule have."""

experts = renamed(
    tokens="token_count",
    hidden="hidden_size",
    intermediate="intermediate_size",
    experts="num_experts",
    top_k="top_k",
)
"""Sizes of a layer of experts."""


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
