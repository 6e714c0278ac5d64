"""Shapes of the suite made small enough for a CPU, their ratios and divisors kept."""

from __future__ import annotations

from typing import Any

from solscope.operators.base import Axes

_MOST = {
    "tokens": 24,
    "rows": 24,
    "m": 24,
    "n": 384,
    "k": 384,
    "hidden": 1280,
    "intermediate": 256,
    "out": 192,
    "dim": 192,
    "experts": 16,
    "top_k": 4,
    "vocabulary": 4096,
    "pool": 5,
    "q_heads": 8,
    "v_heads": 4,
}
"""Largest size by axis."""

_MOST_SEQUENCES = 3
_MOST_LENGTH = 70
"""Tokens of a sequence at most."""
_MOST_MOE_HIDDEN = 384
"""Each expert has matrices of this width."""


def scale_down(axes: Axes) -> dict[str, Any]:
    """The same kind of shape, small: what a draw decides is left out, heads keep their ratio."""
    small: dict[str, Any] = {}
    for name, value in axes.items():
        if name in ("active_experts", "drawn_pairs", "padded_slots", "valid_tokens"):
            continue
        if isinstance(value, list):
            small[name] = [_short(group) for group in value[:2]]
        elif isinstance(value, int) and name in _MOST:
            small[name] = min(value, _MOST[name])
        else:
            small[name] = value
    for many, few in (("q_heads", "kv_heads"), ("v_heads", "q_heads"), ("v_heads", "k_heads")):
        if many in axes and few in axes:
            ratio = max(1, axes[many] // axes[few])
            small[few] = max(1, small[many] // ratio)
            small[many] = small[few] * ratio
    if "experts" in axes and "hidden" in small:
        small["hidden"] = min(small["hidden"], _MOST_MOE_HIDDEN)
    if "sequences" in axes and isinstance(axes["sequences"], int):
        small["sequences"] = min(axes["sequences"], _MOST_SEQUENCES)
    return small


def _short(group: list[int]) -> list[int]:
    """[q, kv, count] or [context, count] with short lengths: queries stay at most the keys."""
    *lengths, count = group
    return [*(min(length, _MOST_LENGTH) for length in lengths), min(count, _MOST_SEQUENCES)]
