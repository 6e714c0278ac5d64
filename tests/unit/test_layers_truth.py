"""Steps, layers and roles of the real profiles, against annotations, module names and twins."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec
import polars as pl
import pytest

import solscope
from solscope.attribution import Attributed
from solscope.attribution.stacks import enclosing
from solscope.report.json import render_json
from solscope.report.results.layers import markdown_layers
from solscope.views.layers import LayerTable, Row, layers
from tests.recordings import attributed_recording, recording

GRAPH, EAGER = "h200/graph/normal.trace.json.gz", "h200/graph/no_cuda_graph.trace.json.gz"
H100, MI300 = "traces/h100_qwen1.5-0.5b.json.gz", "traces/mi300_qwen1.5-0.5b.json.gz"
STACK = "h200/models/llama8l-stack.trace.json.gz"


@cache
def opened(file: str) -> Attributed:
    return attributed_recording(recording(file))


@cache
def table(*files: str, phase: str | None = None) -> LayerTable:
    return layers([opened(file) for file in files], files, phase=phase)


def layer_rows(result: LayerTable) -> list[Row]:
    return [row for kind in result.layer_kinds for group in kind.groups for row in group.rows]


def passes(file: str) -> list[pl.DataFrame]:
    """The decode passes of a profile, each in the order in which its kernels ran."""
    decode = opened(file).activities.filter(pl.col("phase") == "decode")
    return decode.sort("start_ns").partition_by("pass", maintain_order=True)


def forward(file: str) -> pl.DataFrame:
    """What was launched inside a `decode` annotation: the forward, without the sampler."""
    made = opened(file)
    rows = enclosing(made.profile.events, made.activities, "annotation", {"decode"})
    kernels = made.activities.with_columns(rows.alias("mark")).filter(pl.col("kind") == "kernel")
    return kernels.filter(pl.col("mark").is_not_null())


# --- A graph replay and its eager twin


def test_graph_replay_has_12_layers_and_nearly_all_time_has_place_and_role() -> None:
    result = table(GRAPH, phase="decode")
    assert [(kind.kind, kind.layers) for kind in result.layer_kinds] == [("attention+dense", [12])]
    assert result.passes == [39]  # one of 40 steps is an outlier, which every view leaves out
    assert result.coverage.layer_pct[0] >= 97
    assert result.coverage.role_pct[0] >= 97


def test_roles_of_the_replay_take_as_long_as_in_the_eager_twin() -> None:
    result = table(GRAPH, EAGER, phase="decode")
    first = passes(EAGER)[0].filter(pl.col("layer") == 0)
    # Residual additions stand in two groups; each row has one of the two kernels.
    counts = {**dict(first.group_by("role").len().iter_rows()), "residual": 1}
    rows = layer_rows(result)
    assert len(rows) == 12
    for row in rows:
        graph, eager = row.time_us
        assert graph is not None
        assert eager is not None
        assert abs(graph - eager) <= max(0.05 * eager, 0.4 * counts[row.role]), row.role


def test_the_forward_of_the_replay_takes_as_long_as_in_the_eager_twin() -> None:
    means = []
    for file in (GRAPH, EAGER):
        per_pass = forward(file).group_by("mark").agg(pl.len(), pl.col("dur_ns").sum())
        assert per_pass["len"].unique().to_list() == [451]
        means.append(int(per_pass["dur_ns"].sum()) / per_pass.height)
    assert means[0] == pytest.approx(means[1], rel=0.02)


def aligned() -> tuple[pl.DataFrame, pl.DataFrame]:
    """A replayed and an eager forward, kernel by kernel."""
    first, second = (
        forward(file).sort("start_ns").partition_by("mark", maintain_order=True)[-1]
        for file in (GRAPH, EAGER)
    )
    assert first.height == second.height == 451
    return first, second


@pytest.mark.parametrize("column", ["category", "operator", "role", "layer"])
def test_kernel_by_kernel_the_replay_is_seen_as_its_eager_twin(column: str) -> None:
    replay, eager = (part[column].cast(pl.String) for part in aligned())
    assert replay.eq_missing(eager).mean() >= 0.99  # type: ignore[operator]


def test_confident_roles_are_right() -> None:
    # Both run the same kernels in the same order, and roles come from names and order alone: this
    # holds by construction. The tests against operators and module names are the independent ones.
    replay, eager = aligned()
    sure = replay["confidence"] >= 0.9
    assert sure.sum() > 400
    right = (replay["role"].cast(pl.String) == eager["role"].cast(pl.String)).filter(sure)
    assert right.sum() >= 0.99 * right.len()


# Operators that launched the kernels of one layer of the eager twin.
CATEGORY_OF_OP = {
    "aten::mm": "gemm",
    "aten::_cudnn_attention_forward": "attention",
    "aten::_fused_rms_norm": "norm",
    "aten::_index_put_impl_": "kv_cache",
    "aten::silu": "activation",
    "aten::_softmax": "softmax",
    "aten::cat": "copy",
    "aten::copy_": "copy",
    "aten::index": "embedding",
    "aten::index_select": "embedding",
    "aten::multinomial": "sampling",
    "aten::exponential_": "sampling",
    "aten::argmax": "sampling",
    **dict.fromkeys(("aten::min", "aten::max", "aten::sum", "aten::any"), "reduce"),
}
"""What the operators of the program are; every other one of it is elementwise."""


def test_replayed_kernels_are_what_the_linked_operators_of_the_twin_say() -> None:
    """The replay is judged by names alone; the twin's operators are a record of their own."""
    same = total = 0
    for replay, twin in zip(passes(GRAPH)[:20], passes(EAGER)[:20], strict=True):
        kernels = pl.col("kind") == "kernel"
        seen = replay.filter(kernels)["category"].cast(pl.String).to_list()
        ops = twin.filter(kernels)["op"].cast(pl.String).to_list()
        assert len(seen) == len(ops)
        expected = [CATEGORY_OF_OP.get(op, "elementwise") for op in ops]
        same += sum(a == b for a, b in zip(seen, expected, strict=True))
        total += len(seen)
    assert total > 5000
    assert same / total >= 0.99


OPERATORS = {
    "input_norm": {"aten::_fused_rms_norm"},
    "qkv": {"aten::mm"},
    "rope": {"aten::index", "aten::mul", "aten::add", "aten::sub", "aten::cat"},
    "kv_write": {"aten::_index_put_impl_", "aten::arange"},
    "attention": {"aten::_cudnn_attention_forward", "aten::where", "aten::fill_"},
    "o_proj": {"aten::mm"},
    "residual": {"aten::add"},
    "post_norm": {"aten::_fused_rms_norm"},
    "up_gate": {"aten::mm"},
    "activation": {"aten::silu", "aten::mul"},
    "down": {"aten::mm"},
}


def test_roles_of_the_eager_twin_agree_with_the_operators_that_launched_them() -> None:
    # Roles come from the order of kernel names; the operators were not asked.
    _, eager = aligned()
    inside = eager.filter(pl.col("layer").is_not_null())
    found = inside.group_by(pl.col("role").cast(pl.String)).agg(pl.col("op").cast(pl.String))
    assert {role: set(ops) for role, ops in found.iter_rows()} == OPERATORS


# --- Graph replay on MI300X, from one file


@pytest.mark.parametrize(
    ("file", "kind", "count"),
    [
        ("traces/vllm_decode_full_exec.json.gz", "attention+moe", 24),
        ("traces/mi300_sglang_qwen3-8b_decode.json.gz", "attention+dense", 36),
    ],
)
def test_hip_graphs(file: str, kind: str, count: int) -> None:
    result = table(file)
    assert result.phase == "decode"
    assert [(k.kind, k.layers) for k in result.layer_kinds] == [(kind, [count])]
    assert result.coverage.layer_pct[0] >= 95
    assert result.coverage.role_pct[0] >= 95


# --- Models


MODELS = {
    "llama8l": {"attention+dense": 8},
    "llama8l-stack": {"attention+dense": 8},
    "llama8l-compiled-cudagraph": {"attention+dense": 8},
    "qwen3moe4l": {"attention+moe": 4},
    "deepseekv3-4l": {"attention+dense": 1, "attention+moe": 3},
    "qwen3next4l": {"linear_attention+moe": 3, "attention+moe": 1},
}
PHASES = {"prefill": "prefill", "decode_step": "decode"}


@pytest.mark.parametrize("name", MODELS)
def test_every_pass_of_a_model_has_its_layers(name: str) -> None:
    placed = opened(f"h200/models/{name}.trace.json.gz").activities
    inside = placed.filter(pl.col("place") == "layer")
    for part in inside.partition_by("pass"):
        kinds = part.select("layer", pl.col("layer_kind").cast(pl.String)).unique()
        counts = dict(kinds.group_by("layer_kind").len().iter_rows())
        assert counts == MODELS[name]
        assert kinds.height == kinds["layer"].n_unique()


@pytest.mark.parametrize("name", MODELS)
def test_phases_are_those_of_the_annotations(name: str) -> None:
    made = opened(f"h200/models/{name}.trace.json.gz")
    rows = enclosing(made.profile.events, made.activities, "annotation", set(PHASES))
    marks = made.profile.events["name"].gather(rows).cast(pl.String)
    expected = marks.replace_strict(PHASES, default=None, return_dtype=pl.String)
    known = expected.is_not_null()
    assert known.mean() > 0.9  # type: ignore[operator]
    found = made.activities["phase"].cast(pl.String)
    assert found.filter(known).to_list() == expected.filter(known).to_list()


def test_dense_and_moe_layers_stand_where_the_models_have_them() -> None:
    for name, order in {
        "deepseekv3-4l": ["attention+dense"] + ["attention+moe"] * 3,
        "qwen3next4l": ["linear_attention+moe"] * 3 + ["attention+moe"],
    }.items():
        placed = opened(f"h200/models/{name}.trace.json.gz").activities
        kinds = (
            placed.filter(pl.col("layer").is_not_null())
            .group_by("layer")
            .agg(pl.col("layer_kind").cast(pl.String).unique())
        )
        assert kinds.sort("layer")["layer_kind"].list.join("").to_list() == order


# Module names decide layers where a profile has them, so the order of kernels is checked against
# them in a copy of the profile without Python frames.


@cache
def without_stacks() -> pl.DataFrame:
    profile = solscope.open(recording(STACK))
    return solscope.attribute(
        replace(profile, events=profile.events.filter(pl.col("kind") != "python"))
    ).activities


def modules(pattern: str) -> pl.Series:
    """Name of the innermost module that matches, around the launch of each activity."""
    made = opened(STACK)
    events = made.profile.events
    frames = events.filter(pl.col("kind") == "python")["name"].cast(pl.String).unique()
    names = set(frames.filter(frames.str.contains(pattern)).to_list())
    rows = enclosing(events, made.activities, "python", names)
    return events["name"].gather(rows).cast(pl.String)


def test_layers_by_order_are_those_of_the_module_names() -> None:
    truth = modules("LlamaDecoderLayer_").str.extract(r"_(\d+)$").cast(pl.Int32)
    assert truth.n_unique() == 9
    assert set(without_stacks()["found_by"]) == {"sequence"}
    assert without_stacks()["layer"].to_list() == truth.to_list()


def test_module_names_confirm_the_layers_where_there_are_stacks() -> None:
    placed = opened(STACK).activities.filter(pl.col("layer").is_not_null())
    assert set(placed["found_by"]) == {"both"}


@pytest.mark.parametrize(
    ("module", "roles"),
    [
        ("LlamaMLP_", {"up_gate", "activation", "down"}),
        ("SiLUActivation_", {"activation"}),
        ("LlamaRMSNorm_", {"input_norm", "post_norm", "final_norm"}),
        (
            "LlamaAttention_",
            {"qkv", "rope", "kv_write", "attention", "attention_combine", "o_proj"},
        ),
    ],
)
def test_roles_are_those_of_the_module_names(module: str, roles: set[str]) -> None:
    inside = modules(module).is_not_null()
    assert set(without_stacks()["role"].filter(inside).to_list()) == roles


def test_confident_roles_of_products_are_those_of_their_linear_modules() -> None:
    # Linear_0 .. Linear_6 are q, k, v, o, gate, up, down of layer 0, and so on.
    order = ["qkv", "qkv", "qkv", "o_proj", "up_gate", "up_gate", "down"]
    number = modules("nn.Module: Linear_").str.extract(r"_(\d+)$").cast(pl.Int32)
    found = without_stacks().with_columns(number.alias("number"))
    sure = found.filter(pl.col("number").is_not_null() & (pl.col("confidence") >= 0.9))
    # Linear_56 is the lm_head, once in each of five passes.
    assert sure.height == 360 + 5
    assert sure["role"].to_list() == [
        "lm_head" if at == 56 else order[at % 7] for at in sure["number"]
    ]


# --- Two vendors side by side


def test_h100_and_mi300_align_by_role() -> None:
    result = table(H100, MI300)
    assert (result.phase, result.passes) == ("prefill", [1, 1])
    assert [(kind.kind, kind.layers) for kind in result.layer_kinds] == [
        ("attention+dense", [24, 24])
    ]
    outside = [row for group in result.outside for row in group.rows]
    for side in (0, 1):
        both = total = 0.0
        for times, count in ((layer_rows(result), 24), (outside, 1)):
            for row in times:
                total += count * (row.time_us[side] or 0)
                both += count * (row.time_us[side] or 0) if None not in row.time_us else 0
        assert both >= 0.9 * total


@pytest.mark.parametrize("file", [H100, MI300])
def test_the_cut_first_step_is_marked(file: str) -> None:
    assert opened(file).steps["cut"].to_list() == [True, False]


@pytest.mark.parametrize(
    "files", [(GRAPH,), (GRAPH, EAGER), (H100, MI300), ("traces/b200_eager.json.gz",)]
)
def test_sums_close(files: tuple[str, ...]) -> None:
    result = table(*files)
    for i, end_to_end in enumerate(result.end_to_end_us):
        outside = sum(group.sum_us[i] or 0 for group in result.outside)
        parts = result.layers_us[i] + outside + result.unattributed_us[i] + result.idle_us[i]
        assert parts - result.overlapped_us[i] == pytest.approx(end_to_end, abs=1e-6)


# --- Profiles that have no layers, or not those of a decoder


def test_a_profile_of_training_has_no_places() -> None:
    made = opened("traces/a100_hta_tracediff_control.json.gz")
    assert made.activities["place"].null_count() == made.activities.height


# --- Contract for machines


def test_json_of_layers_is_as_agreed() -> None:
    found = msgspec.json.decode(render_json(table(H100, MI300)))
    agreed = {
        "profiles", "phase", "end_to_end_us", "layers_us", "unattributed_us", "idle_us",
        "overlapped_us", "outside", "coverage", "layer_kinds",
    }  # fmt: skip
    assert agreed <= set(found)
    assert set(found) - agreed == {"basis", "overlaps", "per", "stat", "passes", "warnings"}
    assert set(found["coverage"]) == {"layer_pct", "role_pct", "sure_pct"}
    assert [set(group) for group in found["outside"]] == [{"group", "sum_us", "rows"}] * 2
    assert [group["group"] for group in found["outside"]] == ["prologue", "epilogue"]
    (kind,) = found["layer_kinds"]
    assert set(kind) == {"kind", "layers", "sum_us", "groups"}
    group = kind["groups"][0]
    assert set(group) == {"group", "sum_us", "rows"}
    keys = {"role", "operator", "modules", "kernels", "time_us", "kernel_times"}
    assert set(group["rows"][0]) == keys
    assert all(len(group["rows"][0][key]) == 2 for key in ("kernels", "time_us"))


def test_json_of_show_has_steps_and_coverage() -> None:
    found = msgspec.json.decode(render_json(solscope.summarize(opened(EAGER))))
    assert found["steps"]["count"] == 20
    phases = {phase["phase"]: phase for phase in found["steps"]["phases"]}
    assert {name: phase["count"] for name, phase in phases.items()} == {"decode": 16, "mixed": 3}
    assert {"phase", "count", "p50_ms", "p90_ms", "p99_ms"} <= set(phases["decode"])
    assert {"layer_pct", "role_pct", "operator_pct"} <= set(found["coverage"])


def test_the_table_in_the_docs_is_what_is_printed() -> None:
    page = Path(__file__).parents[2] / "docs" / "explain" / "layers.md"
    body = page.read_text(encoding="utf-8").partition("--markdown\n")[2].partition("| column |")[0]
    shown = [line for line in body.splitlines() if line.startswith("|")]
    labels = [Path(file).name.removesuffix(".json.gz") for file in (H100, MI300)]
    printed = markdown_layers(layers([opened(H100), opened(MI300)], labels)).splitlines()
    assert len(shown) > 40
    assert [line for line in shown if line not in printed] == []
