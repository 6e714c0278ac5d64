"""What each kernel of a sequence does, as one letter; and runs of kernels that are one operation.

Layers and roles are found in the *order* of kernels, which is the same in an eager run and in the
replay of a graph, on NVIDIA and on AMD. So the letters come from the kernel's name alone, never
from operators or shapes. One dense decoder layer, and the roles that its letters get:

    N           G    R     K         A          G       N          G        S           G
    input_norm  qkv  rope  kv_write  attention  o_proj  post_norm  up_gate  activation  down

`Letter` names them all; code compares with its members and with the sets below, never with bare
characters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

import polars as pl

from solscope.attribution.chains import find_chains
from solscope.names import short_name
from solscope.patterns import lazy_pattern


class Letter(str, Enum):
    """What a kernel does; the value is its letter in a sequence.

    As `enum.StrEnum`, which Python 3.10 lacks: a member is formatted as its value.
    """

    def __str__(self) -> str:
        return str.__str__(self)

    def __format__(self, format_spec: str) -> str:
        return str.__format__(self, format_spec)

    GEMM = "G"
    GEMM_HELPER = "g"
    GROUPED_GEMM = "P"
    ATTENTION = "A"
    ATTENTION_HELPER = "a"
    LINEAR_ATTENTION = "L"
    CONVOLUTION = "V"
    NORM = "N"
    L2_NORM = "l"
    REDUCE_WITH_NORM = "Y"
    ACTIVATION = "S"
    GATE = "s"
    SOFTMAX = "X"
    MOE_TOPK = "O"
    MOE_DISPATCH = "D"
    MOE_COMBINE = "F"
    EXPERT_SEND = "d"
    EXPERT_RETURN = "b"
    COMMUNICATION = "C"
    ROPE = "R"
    KV_WRITE = "K"
    QUANT = "Q"
    GATHER = "E"
    SAMPLING = "T"
    TOPK = "k"
    SORT = "t"
    COPY = "c"
    CONCATENATION = "j"
    FILL = "m"
    INDICES = "n"
    ADD = "i"
    ADD_SCALAR = "I"
    MULTIPLY = "u"
    POWER = "p"
    MEAN = "M"
    RSQRT = "q"
    REDUCTION = "r"
    ELEMENTWISE = "e"
    UNKNOWN = "o"
    TRANSFER = "z"
    """A copy between host and device, which runs beside the model."""


def _set(*members: Letter) -> frozenset[str]:
    return frozenset(str(member) for member in members)


PRODUCTS = _set(Letter.GEMM, Letter.GROUPED_GEMM)
"""Products with weights."""
NORMS = _set(Letter.NORM, Letter.REDUCE_WITH_NORM)
"""Norms of the residual stream, or of queries and keys."""
MIXERS = _set(Letter.ATTENTION, Letter.LINEAR_ATTENTION, Letter.CONVOLUTION)
"""Kernels that mix tokens."""
HELPERS = _set(Letter.GEMM_HELPER, Letter.ATTENTION_HELPER, Letter.FILL)
"""Kernels whose number differs from call to call: split-K reductions, fills."""
EXPERT_KERNELS = _set(Letter.GROUPED_GEMM, Letter.MOE_TOPK, Letter.MOE_DISPATCH, Letter.EXPERT_SEND)
"""Kernels that only a mixture of experts has."""
CHOICES = _set(Letter.SOFTMAX, Letter.TOPK, Letter.SORT, Letter.MOE_TOPK)
"""Kernels that choose experts from the router's scores."""
FEED_FORWARD = _set(
    Letter.ACTIVATION,
    Letter.GROUPED_GEMM,
    Letter.MOE_COMBINE,
    Letter.MOE_TOPK,
    Letter.MOE_DISPATCH,
    Letter.EXPERT_RETURN,
)
"""Kernels that only the feed-forward part of a layer has, where they are seen at all."""

_BY_CATEGORY = {
    "gemm": Letter.GEMM,
    "attention": Letter.ATTENTION,
    "linear_attention": Letter.LINEAR_ATTENTION,
    "comm": Letter.COMMUNICATION,
    "norm": Letter.NORM,
    "activation": Letter.ACTIVATION,
    "rope": Letter.ROPE,
    "kv_cache": Letter.KV_WRITE,
    "quant": Letter.QUANT,
    "sampling": Letter.SAMPLING,
    "softmax": Letter.SOFTMAX,
    "embedding": Letter.GATHER,
    "conv": Letter.CONVOLUTION,
    "sort_scan": Letter.SORT,
    "copy": Letter.COPY,
    "memcpy": Letter.COPY,
    "memset": Letter.FILL,
    "elementwise": Letter.ELEMENTWISE,
    "reduce": Letter.REDUCTION,
}
_ACROSS = lazy_pattern(r"HtoD|DtoH|HtoH|Host")
_GATES = lazy_pattern(r"sigmoid|softplus|tanh|threshold", re.IGNORECASE)
_FUNCTORS = (
    (lazy_pattern(r"rsqrt"), Letter.RSQRT),
    (lazy_pattern(r"pow_tensor"), Letter.POWER),
    (lazy_pattern(r"FillFunctor|fill"), Letter.FILL),
    (lazy_pattern(r"arange"), Letter.INDICES),
    (lazy_pattern(r"functoronself_add|functoronother_add", re.IGNORECASE), Letter.ADD_SCALAR),
    (
        lazy_pattern(r"functor_add|addfunctor|\badd\b|\[add|\[sub", re.IGNORECASE),
        Letter.ADD,
    ),
    (lazy_pattern(r"MulFunctor|DivFunctor|\[mul|\[div(?!_floor)"), Letter.MULTIPLY),
)
_MOE = (
    (lazy_pattern(r"topk|gating|fused_gate", re.IGNORECASE), Letter.MOE_TOPK),
    (
        lazy_pattern(r"finali[sz]e|combine[^d]|moe_sum|unpermute|scatter", re.IGNORECASE),
        Letter.MOE_COMBINE,
    ),
    (
        lazy_pattern(
            r"routing|align|sort|count|bitmatrix|permute|prepare|histogram|expand", re.IGNORECASE
        ),
        Letter.MOE_DISPATCH,
    ),
)
_AND_MULTIPLY = lazy_pattern(r"(?:silu|gelu|swiglu|act)_and_mul", re.IGNORECASE)
"""Activations that also multiply, mask or quantize for experts."""
_HELPERS = {"gemm": Letter.GEMM_HELPER, "attention": Letter.ATTENTION_HELPER}


class Unit(NamedTuple):
    """Consecutive kernels that are one operation."""

    letter: str
    start: int
    end: int
    """One past the last kernel."""


def letters(activities: pl.DataFrame, helpers: dict[str, str]) -> pl.Series:
    """A letter for each activity; `helpers` maps rule ids to `previous` or `next`."""
    keys = activities.select("category", "rule", "name")
    distinct = keys.unique()
    texts = distinct.select(pl.all().cast(pl.String)).iter_rows()
    distinct_letters = [str(_letter(c, r, n, helpers)) for c, r, n in texts]
    table = distinct.with_columns(pl.Series("letter", distinct_letters, dtype=pl.String))
    joined = keys.join(table, on=keys.columns, how="left", nulls_equal=True, maintain_order="left")
    return joined["letter"]


def _letter(category: str, rule: str | None, name: str | None, helpers: dict[str, str]) -> Letter:
    name = name or ""
    if rule in helpers and category in _HELPERS:
        return _HELPERS[category]
    if category in ("moe", "quant") and _AND_MULTIPLY.search(name[:400]):
        return Letter.ACTIVATION
    if category == "moe":
        matches = (letter for pattern, letter in _MOE if pattern.search(name[:400]))
        return next(matches, Letter.GROUPED_GEMM)
    if category == "comm":
        return _comm(name)
    if category == "memcpy" and _ACROSS.search(name):
        return Letter.TRANSFER
    if category in ("linear_attention", "conv"):
        return _mixing(category, name[:400])
    short = short_name(name)
    if category == "copy" and "CatArray" in short:
        return Letter.CONCATENATION
    if category == "activation" and _GATES.search(short):
        return Letter.GATE
    if category == "sort_scan" and "topk" in short.lower():
        return Letter.TOPK
    if category == "reduce" and "MeanOps" in short:
        return Letter.MEAN
    if category == "elementwise":
        matches = (letter for pattern, letter in _FUNCTORS if pattern.search(short))
        return next(matches, Letter.ELEMENTWISE)
    return _BY_CATEGORY.get(category, Letter.UNKNOWN)


def _mixing(category: str, name: str) -> Letter:
    if category == "conv":
        # Linear attention has a short depthwise convolution; vision models have all the others.
        short = re.search(r"depthwise|conv1d", name, re.IGNORECASE)
        return Letter.CONVOLUTION if short else Letter.UNKNOWN
    if "conv1d" in name:
        return Letter.CONVOLUTION
    return Letter.GATE if "gating" in name else Letter.LINEAR_ATTENTION


def _comm(name: str) -> Letter:
    lower = name[:400].lower()
    if "fusion" in lower and "reduce" in lower:
        return Letter.REDUCE_WITH_NORM
    if "dispatch" in lower:
        return Letter.EXPERT_SEND
    return Letter.EXPERT_RETURN if "combine" in lower else Letter.COMMUNICATION


def units(sequence: Sequence[str]) -> list[Unit]:
    """The sequence as units: written-out norms are joined, all else is a unit of its own."""
    text = "".join(sequence)
    out: list[Unit] = []
    position = 0
    for start, end, letter in find_chains(text):
        out += [Unit(text[i], i, i + 1) for i in range(position, start)]
        out.append(Unit(letter, start, end))
        position = end
    return out + [Unit(text[i], i, i + 1) for i in range(position, len(text))]
