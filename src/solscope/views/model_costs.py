"""Roles as calls: activities without recorded shapes, with axes from the model's config.

One role may be served by several kernels in a layer (helpers, norms written out). Its cost counts
once per layer and run through the model; its time is the sum of theirs. A role whose main kernel
has recorded shapes is left as it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import polars as pl

from solscope.attribution import Attributed
from solscope.attribution.inner_inputs import INPUTS
from solscope.operators.calls.lengths import stated_lengths
from solscope.operators.from_config import ROLE_RULES, Model, RoleCall, axes_of
from solscope.operators.recorded import OperatorAxes
from solscope.views.model_check import Doubt

_PRODUCTS = ("gemm", "moe")
MAIN = {
    **dict.fromkeys(("qkv", "q_a_kv_a", "q_b", "o_proj", "router", "lm_head"), _PRODUCTS),
    **dict.fromkeys(("up_gate", "down"), _PRODUCTS),
    "attention": ("attention",),
    "combine": ("moe", "comm"),
    "kv_b": _PRODUCTS,
    "shared_expert": _PRODUCTS,
    "all_reduce": ("comm",),
    "sampler": ("sampling", "softmax", "sort_scan", "reduce"),
    "conv": ("conv",),
}
"""Categories of the kernels that do the work of a role; any kernel for the roles not named."""
COMMUNICATES = ("all_reduce", "dispatch", "combine")
"""Roles whose communication has a cost."""


def model_calls(
    rows: pl.DataFrame,
    costed: set[int],
    attributed: Attributed,
    model: Model,
    doubts: Sequence[Doubt] = (),
) -> tuple[pl.DataFrame, list[OperatorAxes | str]]:
    """`rows` with role calls in place of calls without a cost, and the axes of each kind of them.

    `config` is an index into the second value; null for activities that keep their call. Roles that
    `doubts` are about have no axes, since the config does not describe them.
    """
    steps = {row["step"]: row for row in attributed.steps.iter_rows(named=True)}
    ranks = max(1, attributed.profile.metadata.world_size or 1)
    groups = _groups(rows)
    call, op = rows["call"].to_list(), rows["op"].to_list()
    ruled_out = _ruled_out(rows, doubts)
    number_of: dict[tuple[RoleCall, str | None], int] = {}
    calls: list[OperatorAxes | str] = []
    placed: list[int | None] = [None] * rows.height
    for parts in groups.values():
        free = [unit for unit in parts if unit["call"] not in costed]
        if not _is_whole(parts, free):
            continue
        role_call = _role_call(free, steps.get(free[0]["step"]), ranks)
        doubt = next((ruled_out[unit["at"]] for unit in free if unit["at"] in ruled_out), None)
        key = role_call, doubt
        if key not in number_of:
            number_of[key] = len(calls)
            calls.append(axes_of(role_call, model) if doubt is None else f"{model.name} {doubt}")
        for unit in free:
            row = unit["at"]
            call[row], op[row], placed[row] = (
                -1 - free[0]["at"],
                role_call.role,
                number_of[key],
            )
    moved = pl.Series("config", placed, dtype=pl.Int64)
    return rows.with_columns(
        pl.Series("call", call, dtype=pl.Int64),
        pl.Series("op", op, dtype=pl.String),
        *(pl.when(moved.is_null()).then(name).alias(name) for name in INPUTS),
        moved,
    ), calls


def _ruled_out(rows: pl.DataFrame, doubts: Sequence[Doubt]) -> dict[int, str]:
    """By activity: why its role is none that the config describes."""
    out: dict[int, str] = {}
    for doubt in doubts:
        for row in rows.select(doubt.about.fill_null(value=False).arg_true()).to_series():
            out.setdefault(row, doubt.text)
    return out


def _groups(rows: pl.DataFrame) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """Activities by place and role, where the role has a rule; communication by itself."""
    texts = ("role", "category", "layer_kind", "phase", "name", "kind")
    table = rows.with_row_index("at").select(
        *("at", "call", "rank", "device", "step", "pass", "layer"),
        *(pl.col(name).cast(pl.String) for name in texts),
    )
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    computes = pl.col("category") != "comm"
    ruled = pl.col("role").is_in(list(ROLE_RULES)) & (computes | pl.col("role").is_in(COMMUNICATES))
    for row in table.filter(ruled).iter_rows(named=True):
        names = ("rank", "device", "step", "pass", "layer", "role")
        place = (*(row[name] for name in names), row["category"] == "comm")
        groups[place].append(row)
    return groups


def _is_whole(parts: list[dict[str, Any]], free: list[dict[str, Any]]) -> bool:
    """Whether the kernels without a cost do the work of the role, and none of the others does."""
    main = MAIN.get(parts[0]["role"])
    free_rows = {kernel["at"] for kernel in free}
    left = [
        kernel for kernel in parts if kernel["at"] not in free_rows and kernel["kind"] == "kernel"
    ]
    if main is None:
        return bool(free) and not left
    works = any(kernel["category"] in main for kernel in free)
    return works and not any(kernel["category"] in main for kernel in left)


def _role_call(parts: list[dict[str, Any]], step: dict[str, Any] | None, ranks: int) -> RoleCall:
    first = parts[0]
    # Sizes of a step with several runs through the model are those of one of them.
    own = step is not None and step["phase"] is not None and step["phase"] == first["phase"]
    facts = step if own and step is not None else {}
    main = MAIN.get(first["role"], ())
    stated = stated_lengths(facts.get("name"))
    return RoleCall(
        role=first["role"],
        phase=first["phase"],
        layer=first["layer"],
        layer_kind=first["layer_kind"] or "",
        kernels=" ".join(sorted({kernel["name"] or "" for kernel in parts})),
        tokens=facts.get("tokens"),
        requests=facts.get("requests"),
        keys=None if stated.decoding is None else stated.decoding.k,
        ranks=ranks,
        comm=first["category"] == "comm",
        products=sum(kernel["category"] in main for kernel in parts),
        prefilling=stated.prefilling,
        decoding=stated.decoding,
    )
