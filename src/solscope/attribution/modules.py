"""Layer numbers from module names, where the profile has Python stacks or ranges that name them.

`nn.Module: LlamaDecoderLayer_7` in a Python stack, or `model.layers.7` in an annotation, says
outright which layer a launch was made for. Such names confirm, and where they differ overrule, what
the order of kernels says.
"""

from __future__ import annotations

import re

import polars as pl

from solscope.attribution.link import enclosing

_MODULE = re.compile(
    r"^nn\.Module: \w*(?:DecoderLayer|EncoderLayer|TransformerLayer|Block)\w*?_(\d+)$"
)
_RANGE = re.compile(
    r"(?:^|[.\s/])(?:layers?|blocks?|h)[._\[ ](\d+)\]?(?:$|[.\s:,/])", re.IGNORECASE
)


def module_layers(events: pl.DataFrame, activities: pl.DataFrame) -> pl.Series:
    """For each activity the number of the layer whose module was open at its launch, or null."""
    layer = pl.Series("layer", [None], dtype=pl.Int32).new_from_index(0, activities.height)
    for kind, pattern in (("python", _MODULE), ("annotation", _RANGE)):
        known = _numbers(events, kind, pattern)
        if not known:
            continue
        rows = enclosing(events, activities, kind, set(known))
        names = events["name"].gather(rows).cast(pl.String)
        found = names.replace_strict(known, default=None, return_dtype=pl.Int32)
        layer = layer.zip_with(layer.is_not_null(), found)
    return layer


def _numbers(events: pl.DataFrame, kind: str, pattern: re.Pattern[str]) -> dict[str, int]:
    """Layer number of each name that states one."""
    names = events.lazy().filter(pl.col("kind") == kind).select(pl.col("name").unique()).collect()
    found = {}
    for name in names["name"].drop_nulls():
        match = pattern.search(name[:400])
        if match is not None and len(match.group(1)) < 6:
            found[name] = int(match.group(1))
    return found
