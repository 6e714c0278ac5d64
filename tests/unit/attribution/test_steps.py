from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from solscope.attribution import Attributed
from solscope.attribution.passes import _one_pass_per_step
from tests.making import attributed, event
from tests.models import LAYER, MODEL, kernels, launched, replayed

VLLM_DECODE = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)"
VLLM_MIXED = "execute_8192_context_9(sq8155sk8430sqsq7sqsk7)_generation_37(sq37sk34489sqsq3sqsk3)"
LONG = f"E{LAYER * 4}NGT"
"""More than 32 kernels, so that one replay of it is taken for a step."""


def annotation(name: str | None, start: int, dur: int, **more: Any) -> dict[str, Any]:
    return event("annotation", name or "", start, dur, **more) | {"name": name}


def column(made: Attributed, name: str) -> list[Any]:
    return made.steps[name].to_list()


def step_of_each(made: Attributed) -> list[int | None]:
    return made.activities["step"].to_list()


def facts(name: str) -> tuple[Any, ...]:
    """Phase, requests and tokens of a step of that name."""
    made = attributed(annotation(name, 0, 100), *launched("G", 10, 200, 1))
    (row,) = made.steps.select("phase", "requests", "tokens").iter_rows()
    return row


# --- What names tell


@pytest.mark.parametrize(
    ("name", "phase", "requests", "tokens"),
    [
        (VLLM_DECODE, "decode", 32, 32),
        (VLLM_MIXED, "mixed", 46, 8192),
        (
            "execute_128_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq128sk40960sqsq512sqsk163840)",
            *("verify", 32, 128),
        ),
        (
            "execute_131_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq131sk40960sqsq10031sqsk1)",
            *("decode", 32, 131),
        ),
        ("execute_context_1(888_788544)_generation_0(0)", "prefill", 1, 888),
        ("step[DECODE bs=32]", "decode", 32, 32),
        ("step[EXTEND bs=4 toks=2048]", "prefill", 4, 2048),
        ("step[MIXED bs=5 toks=600]", "mixed", 5, 600),
        ("step[TARGET_VERIFY bs=8 toks=32]", "verify", 8, 32),
        ("step[DRAFT_EXTEND bs=8]", "draft", 8, None),
        ("decode_step", "decode", None, None),
        ("prefill_and_decode", "mixed", None, None),
        ("ProfilerStep#6", None, None, None),
    ],
)
def test_the_name_of_a_step_tells_phase_requests_and_tokens(
    name: str, phase: str | None, requests: int | None, tokens: int | None
) -> None:
    assert facts(name) == (phase, requests, tokens)


# --- Where steps begin


def test_annotations_are_steps_and_a_launch_between_two_belongs_to_the_one_before() -> None:
    made = attributed(
        annotation("decode_step", 100, 50),
        annotation("decode_step", 200, 50),
        *launched("G", 110, 1000, 1),
        *launched("T", 170, 1100, 2),
        *launched("G", 210, 1200, 3),
    )
    assert step_of_each(made) == [0, 0, 1]
    assert column(made, "found_by") == ["annotation", "annotation"]
    assert column(made, "start_ns") == [1000, 1200]
    assert column(made, "end_ns") == [1110, 1210]


def test_a_launch_before_the_first_step_belongs_to_none() -> None:
    made = attributed(
        annotation("decode_step", 100, 50), *launched("G", 50, 60, 1), *launched("G", 110, 200, 2)
    )
    assert step_of_each(made) == [None, 0]


def test_the_outermost_annotation_is_the_step() -> None:
    made = attributed(
        annotation("engine_step", 0, 100),
        annotation("schedule", 10, 20),
        annotation("decode", 40, 50),
        *launched("G", 50, 200, 1),
    )
    assert column(made, "name") == ["engine_step"]


def test_one_wrapper_around_all_steps_is_opened() -> None:
    made = attributed(
        annotation("generate", 0, 1000),
        annotation("decode_step", 100, 50),
        annotation("decode_step", 200, 50),
        *launched("G", 110, 1000, 1),
        *launched("G", 210, 1100, 2),
    )
    assert column(made, "name") == ["decode_step", "decode_step"]


def test_annotations_that_launch_nothing_are_no_steps() -> None:
    made = attributed(annotation("decode_step", 500, 50), *launched("G", 10, 1000, 1))
    assert column(made, "found_by") == ["whole_profile"]


def test_nvtx_ranges_of_operators_are_no_steps() -> None:
    made = attributed(
        annotation("aten::mm, seq = 1", 0, 50),
        annotation("aten::mul, seq = 2", 60, 50),
        *launched("G", 10, 200, 1),
        *launched("S", 70, 300, 2),
    )
    assert column(made, "found_by") == ["whole_profile"]
    assert step_of_each(made) == [0, 0]


def test_an_annotation_without_a_name_is_passed_over() -> None:
    made = attributed(annotation(None, 0, 50), *launched("G", 10, 200, 1))
    assert column(made, "found_by") == ["whole_profile"]


def test_large_graphs_without_annotations_are_steps() -> None:
    made = attributed(*replayed(LONG, 0, 100, 1), *replayed(LONG, 50, 2000, 2))
    assert column(made, "found_by") == ["graph_launch", "graph_launch"]
    assert step_of_each(made) == [1] * len(LONG) + [2] * len(LONG)
    assert column(made, "cut") == [False, False]


def test_small_graphs_are_no_steps() -> None:
    made = attributed(*replayed("NGRKA", 0, 100, 1), *replayed("NGRKA", 50, 2000, 2))
    assert column(made, "found_by") == ["whole_profile"]


def test_a_kernel_at_regular_distances_marks_steps() -> None:
    made = attributed(*kernels(LONG * 3))
    assert column(made, "found_by") == ["kernel_period"] * 3
    assert column(made, "start_ns") == [0, 10 * len(LONG), 20 * len(LONG)]


def test_what_ran_before_the_first_mark_is_a_cut_step() -> None:
    made = attributed(*kernels(LONG[-5:] + LONG * 3))
    assert column(made, "cut") == [True, False, False, False]
    assert column(made, "name")[0] == "(before the first step)"


def test_a_kernel_at_irregular_distances_marks_nothing() -> None:
    made = attributed(*kernels(LONG + LONG + LONG * 2 + "NGA" * 40 + LONG))
    assert column(made, "found_by") == ["whole_profile"]


MOE_LAYER = "NGRKAGNGXkEDPSPF"
"""A layer of experts: the softmax and the gather of its router occur in every layer."""


@pytest.mark.parametrize("layers", [4, 3])
def test_kernels_of_experts_mark_no_steps(layers: int) -> None:
    model = f"E{MOE_LAYER * layers}NGT"
    made = attributed(*kernels(model * 3))
    assert column(made, "found_by") == ["kernel_period"] * 3
    assert column(made, "start_ns") == [0, 10 * len(model), 20 * len(model)]


def test_experts_in_every_second_layer_mark_no_steps() -> None:
    model = f"E{(LAYER + MOE_LAYER) * 3}NGT"
    made = attributed(*kernels(model * 3))
    assert column(made, "start_ns") == [0, 10 * len(model), 20 * len(model)]


@pytest.mark.parametrize("pair", [LAYER + MOE_LAYER, MOE_LAYER + LAYER])
@pytest.mark.parametrize("pairs", [2, 3])
def test_experts_in_every_second_layer_of_a_single_pass_mark_no_steps(
    pair: str, pairs: int
) -> None:
    made = attributed(*kernels(f"E{pair * pairs}NGT"))
    assert column(made, "found_by") == ["whole_profile"]


def test_passes_that_choose_no_token_are_marked_by_what_embeds() -> None:
    part = f"E{LAYER * 4}NG"
    made = attributed(*kernels(f"{part}{part}{part}T"))
    assert column(made, "start_ns") == [0, 10 * len(part), 20 * len(part)]


def test_the_sampler_ends_a_step() -> None:
    # Input preparation between the sampler and the next embedding belongs to the next step.
    model = f"o{LAYER * 4}NGT"
    made = attributed(*kernels(model * 3))
    assert column(made, "start_ns") == [0, 10 * len(model), 20 * len(model)]


@pytest.mark.parametrize("name", ["FlashAttnFunc, seq = 12", "LinearFunction, seq=3", "aten::mm"])
def test_ranges_of_autograd_functions_are_no_steps(name: str) -> None:
    ranges = [annotation(name, 100 * i, 50) for i in range(4)]
    work = [e for i in range(4) for e in launched("NGA", 100 * i + 10, 1000 + 100 * i, 1 + 10 * i)]
    assert column(attributed(*ranges, *work), "found_by") == ["whole_profile"]


def test_annotations_with_one_mixer_each_are_no_steps() -> None:
    ranges = [annotation(f"part {i}", 100 * i, 90) for i in range(6)]
    work = [e for i in range(6) for e in launched(LAYER, 100 * i + 1, 1000 + 200 * i, 1 + 20 * i)]
    assert column(attributed(*ranges, *work), "found_by") == ["whole_profile"]


# --- Phases of replays


def phases(made: Attributed) -> set[str | None]:
    return set(made.activities["phase"].cast(str).to_list())


def test_a_replay_of_a_whole_pass_is_decode() -> None:
    made = attributed(*replayed(LONG, 0, 100, 1), *replayed(LONG, 50, 2000, 2))
    assert phases(made) == {"decode"}


def test_a_replay_that_neither_samples_nor_writes_a_cache_has_no_phase() -> None:
    encoder = "NGAGNGSG" * 5
    made = attributed(*replayed(encoder, 0, 100, 1), *replayed(encoder, 50, 2000, 2))
    assert phases(made) == {None}


def test_a_replay_whose_attention_has_several_blocks_of_queries_has_no_phase() -> None:
    wide = [
        e | {"grid": "16,8,4"} if "flash" in e["name"] else e
        for e in (*replayed(LONG, 0, 100, 1), *replayed(LONG, 50, 2000, 2))
    ]
    assert phases(attributed(*wide)) == {None}


def test_eager_passes_without_shapes_have_no_phase() -> None:
    assert phases(attributed(*kernels(LONG * 3))) == {None}


def test_no_activities_no_steps() -> None:
    assert attributed(annotation("decode_step", 0, 50)).steps.is_empty()


# --- A cut head


def test_unlinked_activities_before_the_first_step_are_a_cut_step() -> None:
    made = attributed(
        *kernels("GG", 0), annotation("ProfilerStep#6", 100, 50), *launched("GG", 110, 200, 1)
    )
    assert step_of_each(made) == [0, 0, 1, 1]
    assert column(made, "cut") == [True, False]
    assert column(made, "name") == ["(before the first step)", "ProfilerStep#6"]


def test_unlinked_activities_later_on_join_the_step_they_ran_in() -> None:
    made = attributed(
        annotation("decode_step", 0, 50), *launched("G", 10, 200, 1), *kernels("G", 300)
    )
    assert step_of_each(made) == [0, 0]


# --- Passes and their phase


MIXED = [
    annotation("engine_step", 0, 1000),
    annotation("prefill", 100, 200),
    annotation("decode", 400, 200),
    *launched("GA", 110, 2000, 1),
    *launched("GA", 410, 3000, 11),
    *launched("T", 700, 4000, 21),
]


def test_a_step_with_prefill_and_decode_is_mixed_and_has_two_passes() -> None:
    made = attributed(*MIXED)
    assert column(made, "phase") == ["mixed"]
    assert made.activities["pass"].n_unique() == 2
    assert made.activities["phase"].to_list() == ["prefill"] * 2 + ["decode"] * 3


def test_a_step_whose_own_name_tells_its_phase_is_one_pass() -> None:
    made = attributed(
        annotation(VLLM_MIXED, 0, 1000),
        annotation("prefill", 100, 200),
        *launched("GA", 110, 20, 1),
    )
    assert made.activities["phase"].to_list() == ["mixed", "mixed"]


def attention(op: str, dims: str) -> list[dict[str, Any]]:
    return [
        annotation("ProfilerStep#1", 0, 1000),
        event("cpu_op", op, 100, 50, external_id=7, input_dims=dims),
        event("runtime", "cudaLaunchKernel", 110, 5, correlation=1, external_id=7),
        event("kernel", "flash_fwd_kernel", 2000, 10, correlation=1, external_id=7),
        *launched("G", 300, 2010, 2),
    ]


@pytest.mark.parametrize(
    ("op", "dims", "phase"),
    [
        ("aten::_flash_attention_forward", "[[8, 1, 16, 64], [8, 1024, 16, 64]]", "decode"),
        ("aten::_flash_attention_forward", "[[8, 512, 16, 64], [8, 512, 16, 64]]", "prefill"),
        ("aten::scaled_dot_product_attention", "[[8, 16, 1, 64], [8, 16, 99, 64]]", "decode"),
        ("aten::scaled_dot_product_attention", "[[8, 16, 512, 64]]", "prefill"),
        ("aten::scaled_dot_product_attention", "not json", None),
    ],
)
def test_the_query_length_of_attention_tells_the_phase(
    op: str, dims: str, phase: str | None
) -> None:
    made = attributed(*attention(op, dims))
    assert column(made, "phase") == [phase]
    assert made.activities["phase"].to_list() == [phase, phase]


@pytest.mark.parametrize(
    ("layer", "name", "phase"),
    [
        ("NGAGNGSG", "forward", None),
        ("NGRKAGNGSG", "forward", "prefill"),
        ("NGAGNGSG", "prefill", "prefill"),
    ],
    ids=["encoder", "decoder", "named"],
)
def test_a_model_that_does_not_generate_has_no_phase(
    layer: str, name: str, phase: str | None
) -> None:
    shapes = "[[4, 8, 256, 64], [4, 8, 256, 64], [4, 8, 256, 64]]"
    attention = "aten::scaled_dot_product_attention"
    made = attributed(
        event("annotation", name, 0, 100),
        event("cpu_op", attention, 5, 90, input_dims=shapes),
        *launched(f"E{layer * 3}N", 10, 200, 1),
    )
    assert made.steps["phase"].to_list() == [phase]
    assert made.activities["phase"].unique().to_list() == [phase]


def test_without_any_hint_the_phase_is_null() -> None:
    assert column(attributed(*kernels(MODEL)), "phase") == [None]


# --- Drafts and their verification

SMALL, LARGE, HEAD = (f"E{LAYER * layers}NGT" for layers in (2, 5, 1))


@pytest.mark.parametrize("turn", [HEAD * 2 + LARGE, HEAD + LARGE], ids=["two", "one"])
def test_turns_of_two_models_are_steps_that_draft_and_verify(turn: str) -> None:
    made = attributed(*kernels(turn * 3))
    assert column(made, "found_by") == ["turns"] * 3
    assert column(made, "phase") == ["decode"] * 3
    passes = made.activities.unique("pass", maintain_order=True).sort("start_ns")
    drafts = turn.count("T") - 1
    assert passes["phase"].to_list() == ([*["draft"] * drafts, "verify"]) * 3


@pytest.mark.parametrize("small", [1, 2])
def test_two_models_that_take_turns_otherwise_have_no_such_phase(small: int) -> None:
    made = attributed(*kernels((SMALL * small + LARGE) * 4))
    assert made.activities["pass"].n_unique() == 4 * (small + 1)
    assert made.activities["phase"].null_count() == made.activities.height


def test_a_step_with_a_name_can_hold_a_turn() -> None:
    turn = HEAD * 2 + LARGE
    made = attributed(
        *(annotation(VLLM_DECODE, 1000 * number, 900) for number in range(2)),
        *launched(turn, 10, 5000, 1),
        *launched(turn, 1010, 8000, 201),
    )
    assert column(made, "phase") == ["decode", "decode"]
    assert column(made, "found_by") == ["annotation"] * 2
    passes = made.activities.unique("pass", maintain_order=True).sort("start_ns")
    assert passes["phase"].to_list() == ["draft", "draft", "verify"] * 2


def test_drafts_that_are_marked_in_a_step_with_a_name_are_passes() -> None:
    made = attributed(
        annotation(VLLM_DECODE, 0, 1000),
        annotation("gpu_model_runner: draft", 400, 200),
        *launched("GA", 110, 2000, 1),
        *launched("GA", 410, 3000, 11),
        *launched("T", 700, 4000, 21),
    )
    phases = made.activities["phase"].to_list()
    assert phases == ["decode", "decode", "draft", "draft", "decode"]
    assert made.activities["pass"].n_unique() == 2


def test_a_recording_that_begins_within_a_turn_has_a_cut_step() -> None:
    made = attributed(*kernels(LARGE + (HEAD * 2 + LARGE) * 2))
    assert column(made, "cut") == [True, False, False]


def test_passes_without_marks_are_the_steps() -> None:
    """Numbers are those of the search by marks: activities without a step come first."""
    numbers, phases = _one_pass_per_step(pl.Series([3, None, 0, 3], dtype=pl.Int32))
    assert numbers.to_list() == [3, None, 2, 3]
    assert phases.to_list() == [None] * 4
    assert _one_pass_per_step(pl.Series([7, 4], dtype=pl.Int32))[0].to_list() == [2, 1]
