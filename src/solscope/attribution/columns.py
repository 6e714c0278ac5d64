"""Columns that attribution adds to those of the event table."""

from __future__ import annotations

INPUTS = {
    "dims": "input_dims",
    "types": "input_types",
    "strides": "input_strides",
    "concrete": "concrete_inputs",
}
"""What is borrowed beside the operator, and its column in the event table."""
LENT = ("op", *INPUTS)
BORROWED = tuple(f"{name}_borrowed" for name in LENT)
COLUMNS = {
    "link": ("row", "launch_row", "op_row", "op_link", "op"),
    "classify": ("category", "rule", "detail", "generic", "operator"),
    "owners": ("owner_row",),
    "places": (
        *("step", "pass", "phase", "place", "layer", "layer_kind", "group", "role", "confidence"),
        *("layer_confidence", "role_confidence", "kind_confidence"),
        *("layer_evidence", "role_evidence", "kind_evidence", "found_by", "model", "module"),
    ),
    "borrow": (*BORROWED, "borrowed_by", "borrowed_call"),
}
"""Columns that each stage adds."""
