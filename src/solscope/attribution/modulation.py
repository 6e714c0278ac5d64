"""Adaptive norms: scaled and shifted by a condition, such as the time step of a diffusion model.

A product makes scales, shifts and gates from the condition at the start of a block. Behind each
norm follow one plus the scale, the product with it, and the addition of the shift:

    S G                N           I u i       G
    modulation         input_norm  modulation  qkv

Some scale without a shift. Norms with weights of their own are one kernel, or a chain that
`chains.py` joins.
"""

from __future__ import annotations

from collections.abc import Sequence

from solscope.attribution.sequence import NORMS, PRODUCTS, Letter

SCALE = f"{Letter.ADD_SCALAR}{Letter.MULTIPLY}"
SCALE_AND_SHIFT = f"{SCALE}{Letter.ADD}"


def modulation_end(head: str) -> int:
    """One past the kernels that make scales and shifts; 0 where the first norm has none.

    Some models scale without a shift.
    """
    norm = next((position for position, letter in enumerate(head) if letter in NORMS), -1)
    made = norm > 0 and any(letter in PRODUCTS for letter in head[:norm])
    return norm if made and head.startswith(SCALE, norm + 1) else 0


def is_modulated(head: str, norm: int) -> bool:
    """A norm is scaled and shifted by what was made before the layer."""
    return norm >= 0 and head.startswith(SCALE_AND_SHIFT, norm + 1)


def with_modulation(text: str, names: Sequence[str]) -> list[str]:
    """`names` with the role of what scales and shifts a norm."""
    out = list(names)
    for position, letter in enumerate(text):
        if letter in NORMS and text.startswith(SCALE, position + 1):
            end = (
                position
                + 1
                + len(SCALE_AND_SHIFT if text.startswith(SCALE_AND_SHIFT, position + 1) else SCALE)
            )
            out[position + 1 : end] = ["modulation"] * (end - position - 1)
    return out
