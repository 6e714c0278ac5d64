"""Limits and special cases of attribution, each at its edge.

Every test here fails when the rule that it names is taken out (`make mutate`).
"""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from solscope.attribution import attribute
from solscope.attribution.confidence import (
    AGREED,
    DOUBTED,
    confidence,
    confidences,
    lookup,
    measured,
)
from solscope.attribution.layers import find_layers
from solscope.attribution.mixers import find_mixers
from solscope.attribution.phases import Query, phase_by_shapes
from solscope.attribution.products import Product
from solscope.attribution.roles import layer_roles
from solscope.attribution.sequence import units
from solscope.attribution.twins import find_twins
from tests.making import attributed, event, profile
from tests.models import LAYER, MODEL, kernels, replayed

# --- Layers


def layers_of(text: str) -> list[str]:
    """The layers as pieces of `text`, which has no written-out norms."""
    return [text[layer.start : layer.end] for layer in find_layers(units(list(text)))]


def test_more_layers_than_any_model_has_are_none() -> None:
    assert len(layers_of(f"E{LAYER * 200}NGT")) == 200
    assert layers_of(f"E{LAYER * 201}NGT") == []


def test_layers_without_any_norm_are_not_plausible() -> None:
    found = find_layers(units(list("EGAGGSGGAGGSG")))
    assert [layer.plausible for layer in found] == [False, False]


def test_layers_say_whether_landmarks_give_the_same_bounds() -> None:
    plain = find_layers(units(list(MODEL)))
    assert [layer.agreed for layer in plain] == [True, True]
    # The norm behind the feed-forward part looks like the first one of the next layer.
    layer = "GNGNGRKAGNiGSGNi"
    behind = find_layers(units(list(f"E{layer}{layer}{layer}NGT")))
    assert [layer.aligned for layer in behind] == [True] * 3
    assert not any(layer.agreed for layer in behind)


def test_the_lm_head_does_not_end_the_last_layer() -> None:
    # Layers and lm_head end with a product and an addition; the last layer is built otherwise.
    layer, last, head = "NGRKAGiNGSGi", "NGRKAGNGuSG", "NGiT"
    assert layers_of(f"E{layer}{layer}{last}{head}")[-1] == last


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("NGXG", 1),
        ("NG" + "e" * 9 + "X" + "e" * 9 + "G", 1),
        ("NG" + "e" * 10 + "XG", 0),
        ("NGX" + "e" * 10 + "G", 0),
        ("NGXtG", 0),
        ("NGXkG", 0),
    ],
    ids=["plain", "within reach", "too far before", "too far after", "sort", "top-k"],
)
def test_softmax_between_products_is_attention_unless_it_chooses_experts(
    text: str, count: int
) -> None:
    assert len(find_mixers(text)) == count


# --- Roles


def roles(layer: str, shapes: list[Product | None] | None = None) -> list[str]:
    """Roles of the first of two such layers."""
    text = f"E{layer}{layer}NGT"
    known: list[Product | None] = [None] * len(text)
    if shapes is not None:
        known[1 : 1 + len(shapes)] = shapes
    return [named.role for named in layer_roles(text, find_layers(units(list(text)))[0], known)]


@pytest.mark.parametrize("step", ["i", "I"], ids=["tensor", "scalar"])
def test_advancing_the_position_after_a_cache_write_belongs_to_it(step: str) -> None:
    assert roles(f"NGRK{step}eAGNGSG")[3:6] == ["kv_write", "kv_write", "attention"]


def test_a_join_before_the_last_product_of_the_rotation_writes_no_cache() -> None:
    assert roles("NGuijuAGNGSG")[2:7] == ["rope"] * 4 + ["attention"]


def test_gates_before_norms_of_queries_and_keys_are_no_part_of_the_delta_rule() -> None:
    found = roles("NGVeslluGiNGSGi")
    assert found[2:8] == ["conv", "gating", "gating", "delta_rule", "delta_rule", "delta_rule"]


@pytest.mark.parametrize("head", ["GNGN", "GGNGN", "GNGNG"])
def test_norms_of_queries_and_keys_do_not_make_a_latent(head: str) -> None:
    expected = ["qkv" if letter == "G" else "qk_norm" for letter in head]
    assert roles(f"N{head}RKAGNGSG")[1 : 1 + len(head)] == expected


@pytest.mark.parametrize(
    ("outer", "expected"), [(2047, ["q_a_kv_a", "q_b"]), (2048, ["qkv", "qkv"])]
)
def test_a_latent_is_narrower_than_the_hidden_size(outer: int, expected: list[str]) -> None:
    shapes = [None, Product(1, 2048, outer), None, Product(1, 1024, 4096)]
    found = roles("NGeGRKAGNGSG", shapes)
    assert [found[1], found[3]] == expected


# --- Owners and places


def test_the_owner_of_a_helper_is_at_most_four_kernels_away() -> None:
    product = "nvjet_tst_128x8_64x12_4x1_v_bz_splitK_TNT"
    norm = "void flashinfer::norm::FusedAddRMSNormKernel<8, float>(int)"
    helper = "void cublasLt::splitKreduce_kernel<32, 16>(int)"

    def owner(between: int) -> int | None:
        names = [product, *[norm] * between, helper]
        made = attributed(*(event("kernel", name, 100 * i, 50) for i, name in enumerate(names)))
        rows: list[int | None] = made.activities["owner_row"].to_list()
        return rows[-1]

    assert owner(3) == 0
    assert owner(4) is None


def test_work_around_the_layers_is_theirs_up_to_as_much_as_the_layers() -> None:
    """Where no steps are found, more of it need not belong to the same run."""

    def outside(units: int) -> set[str | None]:
        text = "E" + LAYER * 2 + "N" + "o" * (units - 22)
        places = attributed(*kernels(text)).activities["place"].to_list()
        assert places.count("layer") == 20
        return set(places) - {"layer"}

    assert outside(39) == {"prologue", "epilogue"}
    assert outside(40) == {None}


@pytest.mark.parametrize(
    "name",
    [
        "void at::native::softmax_warp_backward<float>",
        "flash_bwd_kernel",
        "void multi_tensor_apply_kernel<FusedAdamFunctor>",
    ],
)
def test_kernels_of_training_leave_the_whole_profile_without_places(name: str) -> None:
    made = attributed(*kernels(MODEL), event("kernel", name, 10_000, 10))
    assert set(made.activities["place"].to_list()) == {None}


# --- Confidence


def test_evidence_that_was_never_measured_is_worth_a_coin_toss() -> None:
    seen = pl.Series(["no such evidence", None])
    assert lookup(seen, "role").to_list() == [0.5, None]


def test_one_more_architecture_is_thought_to_be_half_right() -> None:
    assert confidence(0.0, 0) == 0.5
    assert confidence(1.0, 1) == 0.75
    assert confidence(10.0, 10) == pytest.approx(0.9545, abs=1e-4)
    assert confidence(0.0, 9) == 0.05


def test_a_rare_role_is_as_sure_as_all_that_were_found_in_the_same_way() -> None:
    rows = {"any both order": (50.0, 50.0), "router both order": (3.0, 3.0), "rope new": (3.0, 3.0)}
    made = confidences(rows, "role")
    assert made["router both order"] == pytest.approx((3 + 50.5 / 51) / 4)
    assert made["rope new"] == confidence(3.0, 3)
    wrong = confidences({**rows, "any both order": (10.0, 50.0)}, "role")
    assert wrong["router both order"] < confidence(3.0, 3)


def test_layers_have_no_evidence_but_their_own() -> None:
    rows = {"inside both": (3.0, 3.0), "any both": (50.0, 50.0)}
    assert confidences(rows, "layer")["inside both"] == confidence(3.0, 3)


@pytest.mark.parametrize("grade", ["doubtful", "widths", "new", "alternating", "new-encoder"])
def test_a_layer_that_something_speaks_against_is_never_sure(grade: str) -> None:
    """However many recordings were right: a model unlike all of them is no such recording."""
    rows = {f"inside {grade}": (500.0, 500.0), f"inside {grade}{AGREED}": (500.0, 500.0)}
    made = confidences(rows, "layer")
    assert made[f"inside {grade}"] == DOUBTED < 0.95
    assert made[f"inside {grade}{AGREED}"] > 0.99


def test_no_measured_evidence_against_a_layer_is_sure() -> None:
    against = {
        evidence: sure
        for evidence, sure in measured()["layer"].items()
        if evidence.split()[-1].removesuffix("-encoder") in ("doubtful", "widths", "new")
    }
    assert len(against) > 5
    assert max(against.values()) <= DOUBTED


# --- Phases


def test_one_query_per_request_is_decode_and_two_are_prefill() -> None:
    found = phase_by_shapes([Query(8, 1), Query(8, 2), Query(None, 1), None])
    assert found.to_list() == ["decode", "prefill", "decode", None]


def test_a_replay_of_a_few_kernels_is_no_decode_step() -> None:
    def phase(length: int) -> set[str | None]:
        text = (LAYER * 4)[: length - 1] + "T"
        made = attributed(*replayed(text, 0, 100, 1), *replayed(text, 50, 2000, 2))
        return set(made.activities["phase"].cast(str).to_list())

    assert phase(32) == {"decode"}
    assert phase(31) == {None}


# --- Borrowed inputs


def lost_and_lenders(*signatures: int) -> pl.DataFrame:
    """A kernel that lost its launch, and lenders in the same sequence with these signatures."""
    rows: list[dict[str, Any]] = []
    names = ["norm", "product", "activation"]
    for block, signature in enumerate([None, *signatures]):
        for at, name in enumerate(names):
            lender = signature is not None
            rows.append(
                {
                    "name": name,
                    "start_ns": 1_000_000 * block + 100 * at,
                    "launch_row": 1 if lender else None,
                    "op_row": 1 if lender else None,
                    "signature": signature,
                    "call_turn": 0 if lender else None,
                    "call_kernels": 1 if lender else None,
                }
            )
    known: dict[str, Any] = dict.fromkeys(("launch_row", "op_row", "signature"), pl.Int64)
    known |= dict.fromkeys(("call_turn", "call_kernels"), pl.Int64)
    return pl.DataFrame(rows, schema_overrides=known).with_columns(
        pl.col("name").cast(pl.Categorical),
        pl.lit("kernel").alias("kind"),
        pl.lit(None, pl.Int64).alias("graph_node"),
        pl.lit("8,1,1").cast(pl.Categorical).alias("grid"),
        *(pl.lit(0, pl.Int64).alias(name) for name in ("rank", "device")),
        pl.int_range(pl.len()).floordiv(3).alias("stream"),
    )


def test_twins_lend_only_what_all_of_them_agree_on() -> None:
    assert set(find_twins(lost_and_lenders(7, 7))) == {0, 1, 2}
    assert find_twins(lost_and_lenders(7, 8)) == {}


def test_a_replay_borrows_from_its_companion_from_eight_kernels_on() -> None:
    """Shorter sequences may occur in other places by chance."""
    names = [f"acme_kernel_{i}" for i in range(8)]
    eager = [
        made
        for i, name in enumerate(names, 1)
        for made in (
            event("cpu_op", f"op {i}", 100 * i, 90, external_id=i, input_dims=f"[[{i}]]"),
            event("runtime", "cudaLaunchKernel", 100 * i + 1, 5, correlation=i, external_id=i),
            event("kernel", name, 100_000 + 100 * i, 50, correlation=i),
        )
    ]

    def borrowed(length: int) -> int:
        call = event("runtime", "cudaGraphLaunch", 5, 5, correlation=1)
        ran = [
            event("kernel", name, 100 + 10 * i, 5, correlation=1)
            for i, name in enumerate(names[:length])
        ]
        made = attribute(profile(call, *ran), companion=profile(*eager)).activities
        return int(made["dims_borrowed"].count())

    assert borrowed(8) == 8
    assert borrowed(7) == 0
