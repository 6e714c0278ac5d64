"""Costs from a model's config, on real profiles."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import msgspec
import polars as pl
import pytest
from click.testing import CliRunner

import solscope
from solscope.attribution import Attributed
from solscope.cli import app
from solscope.operators.from_config import Config, Model, load_model
from solscope.views.hotspots import hotspots
from solscope.views.operators import OperatorTable, operator_table
from tests.recordings import attributed_recording, recording
from tests.sampling import some_rows

SMALL = Path(__file__).parents[2] / "data" / "kineto_b200.json.gz"


def table(profile: str, config: str, batch: int | None, context: int | None) -> OperatorTable:
    model = load_model(recording(f"configs/{config}"), batch, context)
    attributed = attributed_recording(recording(profile))
    result = operator_table(attributed, model=model)
    ranked = hotspots(attributed, model=model)
    assert all((h.efficiency_pct or 0) <= 100 for h in ranked.hotspots)
    assert result.total_us == pytest.approx(operator_table(attributed).total_us)
    return result


@pytest.mark.parametrize(
    ("profile", "config", "batch", "context", "least"),
    some_rows(
        [
            ("h200/graph/normal.trace.json.gz", "h200-graph-12l.json", 32, 1024, 99),
            ("traces/vllm_decode_full_exec.json.gz", "gpt-oss-20b.json", None, None, 99),
            (
                "h200/models/llama8l-compiled-cudagraph.trace.json.gz",
                "h200-llama8l.json",
                8,
                None,
                93,
            ),
            ("traces/b200_eager.json.gz", "gpt-oss-120b.json", None, None, 99),
            (
                "traces/vllm_prefilldecode_piecewise_exec.json.gz",
                "gpt-oss-20b.json",
                None,
                None,
                99,
            ),
            ("traces/mi300_sglang_qwen3-8b_decode.json.gz", "qwen3-8b.json", None, None, 97),
        ],
        2,
    ),
)
def test_coverage_and_bounds(
    profile: str, config: str, batch: int | None, context: int | None, least: float
) -> None:
    result = table(profile, config, batch, context)
    assert (result.cost_pct or 0) >= least
    assert all((row.best_pct or 0) <= 100 for row in result.operators)
    shares = sum(r.pct for r in result.operators) + sum(r.pct for r in result.no_cost)
    assert shares == pytest.approx(100)


def test_a_role_counts_once_per_layer_and_step() -> None:
    """Two products and their time are one call of `up_gate`; 8 layers, 10 steps."""
    profile = "h200/models/llama8l-compiled-cudagraph.trace.json.gz"
    result = table(profile, "h200-llama8l.json", 8, None)
    row = next(r for r in result.operators if r.op == "up_gate")
    assert (row.calls, row.flop) == (80, 2 * 8 * 28672 * 4096)
    assert row.source == "from config h200-llama8l.json"
    reasons = {r.op: r.reason for r in result.no_cost}
    assert reasons["attention"] == "the context is not known: give --context"


@pytest.mark.parametrize(
    ("window", "kinds", "pairs"),
    [
        # 9 requests prefill 906 tokens each and 37 decode, with at least 4 keys each in a window.
        (128, ["sliding_attention"] * 24, {9 * (128 * 129 // 2 + 778 * 128) + 37 * 4: 24}),
        (None, None, {7671310 - (7475785 - 8155) // 2 + 34489: 24}),
    ],
)
def test_a_window_that_the_config_states_limits_the_lengths_of_the_step(
    window: int | None, kinds: list[str] | None, pairs: dict[int, int]
) -> None:
    stated = load_model(recording("configs/gpt-oss-20b.json"))
    config = msgspec.structs.replace(stated.config, sliding_window=window, layer_types=kinds)
    file = recording("traces/vllm_prefilldecode_piecewise_exec.json.gz")
    result = operator_table(attributed_recording(file), model=replace(stated, config=config))
    calls: Counter[int] = Counter()
    for row in result.operators:
        if row.operator == "unified_attention" and row.axes is not None:
            calls[row.axes["pairs"]] += row.calls
    assert calls == pairs


def test_ranks_are_said() -> None:
    result = table("traces/b200_eager.json.gz", "gpt-oss-120b.json", None, None)
    row = next(r for r in result.operators if r.op == "down")
    assert row.source == "from config gpt-oss-120b.json, layers shared by 8 ranks"
    assert row.axes is not None
    assert (row.axes["k"], row.axes["tokens"]) == (360, 888 * 4)


def test_command() -> None:
    args = ["--model", str(recording("configs/gpt-oss-20b.json"))]
    file = str(recording("traces/vllm_decode_full_exec.json.gz"))
    # Wide enough for the end of an operator's sizes.
    text = CliRunner().invoke(app, ["operators", *args, file], env={"COLUMNS": "160"}).output
    assert "config)" in text
    assert '"medium"' in CliRunner().invoke(app, ["hotspots", *args, file, "--json"]).output


def test_sizes_without_a_config_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    file.write_text('{"traceEvents": []}')
    found = CliRunner().invoke(app, ["operators", "--batch", "3", str(file)])
    assert found.exit_code != 0
    assert "--model" in found.output + str(found.exception)


def as_prefill(attributed: Attributed, tokens: int) -> Attributed:
    """The same with the step that its annotation would have told."""
    phase = pl.lit("prefill").cast(attributed.steps.schema["phase"]).alias("phase")
    sizes = {"tokens": pl.lit(tokens, pl.Int64), "requests": pl.lit(1, pl.Int64)}
    return replace(
        attributed,
        steps=attributed.steps.with_columns(phase, **sizes),
        activities=attributed.activities.with_columns(phase),
    )


def test_experts_of_one_operator_become_roles() -> None:
    """The operator that holds all of an MoE layer is taken apart; no time is lost or doubled."""
    config = Config(
        model_type="gpt_oss",
        hidden_size=2880,
        intermediate_size=2880,
        num_attention_heads=64,
        num_key_value_heads=8,
        head_dim=64,
        num_local_experts=128,
        num_experts_per_tok=4,
        torch_dtype="bfloat16",
        quantization_config={"quant_method": "mxfp4"},
    )
    model = Model(config, "config.json")
    unnamed = solscope.attribute(solscope.open(SMALL))
    before = operator_table(unnamed)
    reasons = {r.reason for r in operator_table(unnamed, model=model).no_cost if r.op == "down"}
    assert reasons == {"the tokens of the step are not known"}
    after = operator_table(as_prefill(unnamed, 888), model=model)
    assert after.total_us == pytest.approx(before.total_us)
    assert (after.cost_pct or 0) > (before.cost_pct or 0)
    up, down = (next(r for r in after.operators if r.op == op) for op in ("up_gate", "down"))
    assert up.calls == down.calls == 3
    ranks = unnamed.profile.metadata.world_size or 1
    assert down.flop == 2 * 888 * 4 * 2880 * 2880 / ranks
    assert up.flop == 2 * down.flop
    assert not any(r.source for r in before.operators)


def test_roles_that_the_config_rules_out_have_no_cost() -> None:
    """A dense config beside a profile with experts: no cost is made up for these."""
    dense = Config(
        model_type="llama",
        hidden_size=2880,
        intermediate_size=2880,
        num_attention_heads=64,
        num_key_value_heads=8,
        head_dim=64,
        torch_dtype="bfloat16",
    )
    made = as_prefill(solscope.attribute(solscope.open(SMALL)), 888)
    result = operator_table(made, model=Model(dense, "config.json"))
    reasons = {r.op: r.reason for r in result.no_cost}
    assert reasons["down"] == "config.json states no experts, but a router was found"
    assert not any(r.op in ("up_gate", "down", "combine") for r in result.operators)
    assert result.total_us == pytest.approx(operator_table(made).total_us)
