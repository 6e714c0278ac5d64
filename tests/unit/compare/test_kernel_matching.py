"""Kernels matched as the same work."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from solscope.compare.kernel_alignment import MAX_KERNELS, SCORES, align, numbered
from solscope.compare.kernel_matching import Context, Item, Match, match_items


def item(side: Literal[0, 1], name: str, **facts: Any) -> Item:
    plain: dict[str, Any] = {
        "kind": "kernel",
        "group": None,
        "role": None,
        "category": "other",
        "operator": None,
        "launched_by": None,
        "launch": None,
        "calls": 4,
        "calls_per_step": 1.0,
        "total_ns": 100,
    }
    return Item(side=side, name=name, **(plain | facts))


def matched(
    items: list[Item],
    places: dict[str, tuple[str | None, str | None]] | None = None,
    aligned: dict[tuple[Item, Item], int] | None = None,
) -> dict[tuple[tuple[str, ...], tuple[str, ...]], str | None]:
    """Names before and after, with what matched them; `places` names the neighbors of a kernel."""

    def contexts(rows: dict[Item, int]) -> dict[Item, Context]:
        row_of = {item.name: row for item, row in rows.items()}
        return {
            item: tuple(None if n is None else row_of.get(n) for n in (places or {})[item.name])  # type: ignore[misc]
            for item in items
            if item.name in (places or {})
        }

    def names(side: list[Item]) -> tuple[str, ...]:
        return tuple(sorted(item.name for item in side))

    found: list[Match] = match_items(items, contexts, aligned or {})
    assert sorted(i.name for m in found for i in m.items) == sorted(i.name for i in items)
    return {(names(m.before), names(m.after)): m.matched_by for m in found}


MLP = {"group": "mlp", "role": "up_gate"}


def test_the_same_name_in_another_role_is_other_work() -> None:
    before = [item(0, "gemm", group="attention", role="qkv")]
    after = [item(1, "gemm", group="attention", role="o_proj")]
    assert matched(before + after) == {(("gemm",), ()): None, ((), ("gemm",)): None}


def test_the_same_name_matches_when_one_side_has_no_roles() -> None:
    before = [item(0, "gemm", **MLP), item(0, "gemm", group="mlp", role="down")]
    assert matched([*before, item(1, "gemm")]) == {(("gemm", "gemm"), ("gemm",)): "name"}


@pytest.mark.parametrize(
    ("old", "new"),
    [("triton_poi_fused_add_3", "triton_poi_fused_add_17"), ("gemm_64x64_ab12cd34", "gemm_8x8_0")],
)
def test_numbers_and_hashes_do_not_count(old: str, new: str) -> None:
    assert matched([item(0, old, **MLP), item(1, new, **MLP)]) == {((old,), (new,)): "family"}


def test_a_role_matches_by_category_first() -> None:
    sides = [
        item(0, "a_gemm", category="gemm", **MLP),
        item(0, "a_copy", category="copy", **MLP),
        item(1, "b_gemm", category="gemm", **MLP),
        item(1, "b_copy", category="copy", **MLP),
    ]
    assert matched(sides) == {
        (("a_gemm",), ("b_gemm",)): "role",
        (("a_copy",), ("b_copy",)): "role",
    }


def test_an_operator_with_the_same_shapes_matches() -> None:
    op = {"launched_by": ("aten::mm", "[[1, 2], [2, 3]]")}
    other = {"launched_by": ("aten::mm", "[[9, 9], [9, 9]]")}
    found = matched([item(0, "x", **op), item(1, "y", **op), item(1, "z", **other)])
    assert found == {(("x",), ("y",)): "operator", ((), ("z",)): None}


def test_the_same_launch_matches_only_without_roles() -> None:
    launch = {"launch": ("64,1,1", "128,1,1")}
    assert matched([item(0, "x", **launch), item(1, "y", **launch)]) == {(("x",), ("y",)): "launch"}
    other = [item(0, "x", **launch, **MLP), item(1, "y", **launch, group="mlp", role="down")]
    assert matched(other) == {(("x",), ()): None, ((), ("y",)): None}


def test_a_kernel_between_the_same_neighbors_is_the_same() -> None:
    around = [item(side, name) for side in (0, 1) for name in ("first", "last")]
    found = matched(
        [*around, item(0, "alpha"), item(1, "omega")],
        {"alpha": ("first", "last"), "omega": ("first", "last")},
    )
    assert found[("alpha",), ("omega",)] == "position"


def test_a_copy_is_no_kernel_and_several_in_one_gap_are_not_matched() -> None:
    around = [item(side, name) for side in (0, 1) for name in ("first", "last")]
    gap = ("first", "last")
    copy = matched(
        [*around, item(0, "copy", kind="memcpy"), item(1, "gemm")], {"copy": gap, "gemm": gap}
    )
    assert copy[("copy",), ()] is None
    several = [item(0, "alpha"), item(0, "beta"), item(1, "gamma"), item(1, "delta")]
    found = matched([*around, *several], dict.fromkeys(("alpha", "beta", "gamma", "delta"), gap))
    assert found[("alpha",), ()] is None


def test_a_kernel_whose_word_the_new_neighbor_has_was_fused_into_it() -> None:
    gemms = [item(0, "old_gemm", category="gemm", **MLP), item(1, "gemm_silu", **MLP)]
    silu = item(0, "silu_mul", group="mlp", role="activation")
    fused = matched([*gemms, silu], {"silu_mul": ("old_gemm", None)})
    assert fused == {(("old_gemm", "silu_mul"), ("gemm_silu",)): "role"}
    norm = item(0, "rms_norm", group="mlp", role="post_norm")
    apart = matched([*gemms, norm], {"rms_norm": ("old_gemm", None)})
    assert apart[("rms_norm",), ()] is None


def test_nothing_is_fused_into_a_kernel_that_did_not_change() -> None:
    gemms = [item(side, "gemm_silu", **MLP) for side in (0, 1)]
    silu = item(0, "silu_mul", group="mlp", role="activation")
    found = matched([*gemms, silu], {"silu_mul": ("gemm_silu", None)})
    assert found[("silu_mul",), ()] is None


def test_all_that_share_a_place_are_one_match() -> None:
    qkv, out = (item(0, "x", group="attention", role=role) for role in ("qkv", "o_proj"))
    opaque = item(1, "k")
    found = matched([qkv, out, opaque], aligned={(qkv, opaque): 5, (out, opaque): 5})
    assert found == {(("x", "x"), ("k",)): "order"}


def test_a_place_shared_by_chance_is_none() -> None:
    x, y, k, m = item(0, "x"), item(0, "y"), item(1, "k"), item(1, "m")
    found = matched([x, y, k, m], aligned={(x, k): 9, (y, m): 9, (x, m): 1})
    assert found == {(("x",), ("k",)): "order", (("y",), ("m",)): "order"}


def sequence(names: str, *others: str) -> list[dict[str, Any]]:
    """Sequences in which letters are names, and upper and lower case are of one family."""
    texts = (names, *others)
    columns: dict[str, list[Any]] = {
        "kind": [["k"] * len(text) for text in texts],
        "name": [list(text) for text in texts],
        "family": [list(text.lower()) for text in texts],
    }
    unknown = {key: [[None] * len(text) for text in texts] for key in SCORES if key not in columns}
    numbers = {key: numbered(values) for key, values in (columns | unknown).items()}
    return [{key: arrays[at] for key, arrays in numbers.items()} for at in range(len(texts))]


@pytest.mark.parametrize(
    ("before", "after", "pairs"),
    [
        ("abcd", "abcd", "aa bb cc dd"),
        ("abcd", "abXd", "aa bb cX dd"),
        ("abscd", "abcd", "aa bb cc dd"),
        ("ad", "abcd", "aa dd"),
        ("abcabc", "aBcaBc", "aa bB cc aa bB cc"),
        ("abc", "xyz", "ax by cz"),
    ],
)
def test_alignment(before: str, after: str, pairs: str) -> None:
    found = align(*sequence(before, after))
    assert found is not None
    positions = zip(found.first, found.second, strict=True)
    assert " ".join(before[i] + after[j] for i, j in positions) == pairs


def test_one_for_one_between_sure_pairs_only() -> None:
    found = align(*sequence("abcdef", "aXcYZQf"))
    assert found is not None
    trusted = {"abcdef"[i] for i, even in zip(found.first, found.one_for_one, strict=True) if even}
    assert "b" in trusted
    assert not trusted & {"d", "e"}


def test_kernels_and_copies_are_never_paired() -> None:
    first, second = sequence("ab", "ax")
    second["kind"] = np.array([second["kind"][0], 99])
    found = align(first, second)
    assert found is not None
    assert found.first.tolist() == [0]


def test_empty_and_long_steps_are_not_aligned() -> None:
    assert align(*sequence("", "a")) is None
    assert align(*sequence("a" * (MAX_KERNELS + 1), "a")) is None
    assert align(*sequence("a" * MAX_KERNELS, "a")) is not None
