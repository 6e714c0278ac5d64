"""What each kernel of a sequence does, as one letter; and runs of kernels that are one operation.

Layers and roles are found in the *order* of kernels, which is the same in an eager run and in the
replay of a graph, on NVIDIA and on AMD. So the letters come from the kernel's name alone, never
from operators or shapes.

    G gemm             g helper of a gemm       P grouped gemm of a MoE
    A attention        a helper of attention    L linear attention      V its convolution
    N norm             l l2 norm                S activation            s gate (sigmoid, ...)
    O MoE top-k        D MoE dispatch           F MoE combine           X softmax
    C communication    d expert dispatch        b expert combine        Y all-reduce with norm
    R rope             K kv-cache write         Q quantization          E gather, embedding
    T sampling         t sort, scan, top-k      c copy                  j concatenation
    m fill             i add                    u multiply              p pow
    M mean             q rsqrt                  r other reduction       e other elementwise
    o anything else    z copy between host and device
"""

from __future__ import annotations

import re
from typing import NamedTuple

import polars as pl

from solscope.names import short_name

_BY_CATEGORY = {
    "gemm": "G",
    "attention": "A",
    "linear_attention": "L",
    "comm": "C",
    "norm": "N",
    "activation": "S",
    "rope": "R",
    "kv_cache": "K",
    "quant": "Q",
    "sampling": "T",
    "softmax": "X",
    "embedding": "E",
    "conv": "V",
    "sort_scan": "t",
    "copy": "c",
    "memcpy": "c",
    "memset": "m",
    "elementwise": "e",
    "reduce": "r",
}
TRANSFER = "z"
"""Letter of a copy between host and device, which runs beside the model."""
_ACROSS = re.compile(r"HtoD|DtoH|HtoH|Host")
_GATES = re.compile(r"sigmoid|softplus|tanh|threshold", re.IGNORECASE)
_FUNCTORS = (
    (re.compile(r"rsqrt"), "q"),
    (re.compile(r"pow_tensor"), "p"),
    (re.compile(r"FillFunctor|fill"), "m"),
    (
        re.compile(r"functor(?:onself|onother)?_add|addfunctor|\badd\b|\[add|\[sub", re.IGNORECASE),
        "i",
    ),
    (re.compile(r"MulFunctor|DivFunctor|\[mul|\[div(?!_floor)"), "u"),
)
_MOE = (
    (re.compile(r"topk|gating", re.IGNORECASE), "O"),
    (re.compile(r"finali[sz]e|combine[^d]|moe_sum|unpermute|scatter", re.IGNORECASE), "F"),
    (
        re.compile(
            r"routing|align|sort|count|bitmatrix|permute|prepare|histogram|expand", re.IGNORECASE
        ),
        "D",
    ),
)
_HELPERS = {"gemm": "g", "attention": "a"}

# A norm written out in single kernels: cast, square, mean, add epsilon, rsqrt, scale, cast, weight.
_NORM_CHAIN = re.compile(r"c?pMi?qu(?:ciuc|cu|iuc|u)?")
_L2_CHAIN = re.compile(r"uriqu")


class Unit(NamedTuple):
    """Consecutive kernels that are one operation."""

    letter: str
    start: int
    end: int
    """One past the last kernel."""


def letters(activities: pl.DataFrame, helpers: dict[str, str]) -> list[str]:
    """A letter for each activity; `helpers` maps rule ids to `previous` or `next`."""
    keys = activities.select(
        pl.col("category").cast(pl.String),
        pl.col("rule").cast(pl.String),
        pl.col("name").cast(pl.String),
    )
    distinct = keys.unique()
    known = {(c, r, n): _letter(c, r, n, helpers) for c, r, n in distinct.iter_rows()}
    return [known[row] for row in keys.iter_rows()]


def _letter(category: str, rule: str | None, name: str | None, helpers: dict[str, str]) -> str:
    name = name or ""
    if rule in helpers and category in _HELPERS:
        return _HELPERS[category]
    if category == "moe":
        return next((letter for pattern, letter in _MOE if pattern.search(name[:400])), "P")
    if category == "comm":
        return _comm(name)
    if category == "memcpy" and _ACROSS.search(name):
        return TRANSFER
    short = short_name(name)
    if category == "copy" and "CatArray" in short:
        return "j"
    if category == "activation" and _GATES.search(short):
        return "s"
    if category == "linear_attention":
        return "V" if "conv1d" in name[:400] else "s" if "gating" in name[:400] else "L"
    if category == "conv":
        # Linear attention has a short depthwise convolution; vision models have all the others.
        return "V" if re.search(r"depthwise|conv1d", name[:400], re.IGNORECASE) else "o"
    if category == "reduce" and "MeanOps" in short:
        return "M"
    if category == "elementwise":
        return next((letter for pattern, letter in _FUNCTORS if pattern.search(short)), "e")
    return _BY_CATEGORY.get(category, "o")


def _comm(name: str) -> str:
    lower = name[:400].lower()
    if "fusion" in lower and "reduce" in lower:
        return "Y"
    if "dispatch" in lower:
        return "d"
    return "b" if "combine" in lower else "C"


def units(sequence: list[str]) -> list[Unit]:
    """The sequence as units: written-out norms are joined, all else is a unit of its own."""
    text = "".join(sequence)
    chains = sorted(
        [(m.start(), m.end(), "N") for m in _NORM_CHAIN.finditer(text)]
        + [(m.start(), m.end(), "l") for m in _L2_CHAIN.finditer(text)]
    )
    out: list[Unit] = []
    at = 0
    for start, end, letter in chains:
        if start < at:
            continue
        out += [Unit(text[i], i, i + 1) for i in range(at, start)]
        out.append(Unit(letter, start, end))
        at = end
    return out + [Unit(text[i], i, i + 1) for i in range(at, len(text))]
