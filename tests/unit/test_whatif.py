"""Predictions of steps: what stays, what scales, and how far real ones are off."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace as replace_struct

from solscope.attribution import Attributed
from solscope.attribution.opening import open_attributed
from solscope.cli import run
from solscope.cli.commands.whatif import Numbers
from solscope.errors import InputError, UsageError
from solscope.hardware.base import Figure, Hardware
from solscope.profile import Device
from solscope.report.results.hotspots import hotspots_parts
from solscope.report.results.operators import operators_parts
from solscope.report.results.whatif import whatif_parts
from solscope.roofline import Bound
from solscope.views.hotspots import hotspots
from solscope.views.operators import named_hardware, operator_table
from solscope.whatif.call_work import work_us
from solscope.whatif.predict import predict, predict_many
from solscope.whatif.ranks import (
    added_collectives,
    check_ranks,
    collectives_us,
    communication_note,
    communication_share,
)
from solscope.whatif.recorded_step import RecordedStep, recorded_step
from solscope.whatif.scaling import in_dtype, rescale, share_out
from solscope.whatif.scenario import Scenario
from solscope.whatif.timing import ATTAINABLE, carried_over
from tests.making import attributed, event
from tests.printing import printed
from tests.recordings import recording

H200 = named_hardware("H200")
MS = 1_000_000


def test_axes_of_rows_grow_with_the_batch_and_keys_with_the_context() -> None:
    product = rescale("dense_gemm", {"m": 4, "n": 64, "k": 32, "dtype": "bf16"}, 8, 2)
    assert product == {"m": 32, "n": 64, "k": 32, "dtype": "bf16"}
    attention = {"batch": 4, "queries": 1, "keys": 512, "q_heads": 8, "kv_heads": 2}
    assert rescale("dot_product_attention", attention, 2, 4) == {
        **attention,
        "batch": 8,
        "keys": 2048,
    }
    paged = rescale("unified_attention", {"sequences": [[1, 100, 4]], "q_heads": 8}, 2, 3)
    assert paged["sequences"] == [(1, 300, 8)]
    heads = rescale("batched_gemm", {"batch": 16, "m": 4, "n": 8, "k": 8}, 2, 1)
    assert (heads["batch"], heads["m"]) == (16, 8)


def test_another_dtype_changes_products_only() -> None:
    product = in_dtype("dense_gemm", {"m": 1, "n": 2, "k": 3, "dtype": "bf16"}, "fp8")
    assert (product["dtype"], product["out_dtype"]) == ("fp8", "bf16")
    assert in_dtype("rms_norm", {"tokens": 1, "dtype": "bf16"}, "fp8")["dtype"] == "bf16"


def test_ranks_share_weights_and_heads_but_not_the_router() -> None:
    axes = {"m": 4, "n": 64, "k": 32}
    assert share_out("dense_gemm", axes, "qkv", 4)["n"] == 16
    assert share_out("dense_gemm", axes, "router", 4)["n"] == 64
    for role in ("o_proj", "down"):  # ranks add up their outputs
        assert share_out("dense_gemm", axes, role, 4) == {"m": 4, "n": 64, "k": 8}
    written = {"value_bytes": 64, "index_bytes": 8, "write_bytes": 64}
    assert share_out("scatter", written, "kv_write", 4)["write_bytes"] == 16
    heads = share_out("dot_product_attention", {"q_heads": 8, "kv_heads": 2}, None, 4)
    assert heads == {"q_heads": 2, "kv_heads": 1}


def test_a_small_call_keeps_its_latency_and_a_large_one_its_efficiency() -> None:
    tiny = carried_over(2.0, 0.001, 0.01)
    assert tiny.middle == pytest.approx(2.0, abs=0.1)
    large = carried_over(2000.0, 1000.0, 2000.0)
    assert large.middle == pytest.approx(4000.0, rel=0.05)
    assert carried_over(5.0, 1.0, 1.0) == (5.0, 5.0, 5.0)
    near = carried_over(100.0, 90.0, 180.0)  # above what large kernels reach: in proportion
    assert ATTAINABLE * 100.0 < 90.0
    assert near.middle == pytest.approx(200.0)


@pytest.mark.parametrize(("before", "after"), [(5.0, 50.0), (40.0, 4.0), (0.1, 80.0)])
def test_the_interval_spans_lost_time_that_grows_and_lost_time_that_stays(
    before: float, after: float
) -> None:
    time = 60.0
    low, middle, high = carried_over(time, before, after)
    ends = sorted((time * after / before, time + (after - before) / ATTAINABLE))
    assert ends[0] <= low < middle < high <= ends[1]
    assert high - low > (ends[1] - ends[0]) / 4


def step_of(number: int) -> list[dict[str, Any]]:
    """One decode step: a product of 100 µs that waits for the host, every 10 ms."""
    at = 10 * MS * number
    shapes = {
        "input_dims": "[[8,4096],[4096,4096]]",
        "input_types": '["c10::BFloat16","c10::BFloat16"]',
    }
    return [
        event("annotation", "step[DECODE bs=8]", at, 9 * MS),
        event("cpu_op", "aten::mm", at + 1000, 60_000, external_id=number + 1, **shapes),
        event("runtime", "cudaLaunchKernel", at + 2000, 5000, correlation=number + 1),
        event("kernel", "nvjet_tst_128x8", at + 10_000, 100_000, correlation=number + 1),
    ]


def made() -> Attributed:
    events = [e for number in range(6) for e in step_of(number)]
    return attributed(*events, devices=(Device(0, name="NVIDIA H200"),))


def test_nothing_changes_nothing() -> None:
    step = recorded_step(made(), None, None)
    found = predict(step, Scenario())
    assert found.predicted_ms == found.low_ms == found.high_ms == step.wall_us / 1e3
    assert (found.waterfall, found.batch) == ([], 8)


def test_a_host_bound_step_gains_nothing_from_a_faster_gpu() -> None:
    step = recorded_step(made(), None, None)
    faster = predict(step, Scenario(gpu=named_hardware("B200")))
    assert faster.predicted_ms == pytest.approx(step.wall_us / 1e3, rel=1e-3)
    assert faster.limited_by == "host"
    assert faster.gpu_ms < step.busy_us / 1e3


def test_the_waterfall_ends_at_the_prediction() -> None:
    changes = Scenario(graphs=True, gpu=named_hardware("B200"), batch=64)
    found = predict(recorded_step(made(), None, None), changes)
    assert [stage.change for stage in found.waterfall] == ["graphs", "B200", "batch 64"]
    assert found.waterfall[-1].step_ms == pytest.approx(found.predicted_ms)
    saved = sum(stage.saved_ms for stage in found.waterfall)
    assert found.recorded_ms - saved == pytest.approx(found.predicted_ms)


def test_an_operator_that_reaches_its_bound() -> None:
    step = recorded_step(made(), None, None)
    found = predict(step, Scenario(reach={"dense_gemm": 0.8}))
    (row,) = (row for row in found.operators if row.operator == "dense_gemm")
    least = 1e6 * (4096 * 4096 + 8 * 4096) * 2 / (H200.value("hbm.bandwidth") or 0)
    assert row.predicted_us == pytest.approx(least / 0.8, rel=0.01)


def test_a_dtype_without_a_known_peak_is_refused() -> None:
    step = recorded_step(made(), None, None)
    with pytest.raises(UsageError, match="H200 has no peak for fp4"):
        predict(step, Scenario(dtype="fp4"))
    a100 = named_hardware("A100-80")
    with pytest.raises(UsageError, match="A100-80 has no peak for fp8"):
        predict(step, Scenario(gpu=a100, dtype="fp8"))
    (line,) = step.lines
    kind = msgspec.structs.replace(line.kind, axes={**line.kind.axes, "dtype": "fp8"})
    narrow = replace(step, lines=[replace(line, kind=kind)])
    with pytest.raises(UsageError, match="fp8, which dense_gemm was recorded in; give --dtype"):
        predict(narrow, Scenario(gpu=a100))
    assert predict(narrow, Scenario(gpu=a100, dtype="bf16")).predicted_ms > 0


def test_a_unit_that_one_gpu_has_no_figure_for_counts_on_neither() -> None:
    known = Bound(9.0, "sfu", {"sfu": 9.0, "hbm": 2.0, "launch": 3.0}, [])
    unknown = Bound(4.0, "hbm", {"hbm": 4.0, "launch": 3.0}, ["sfu"])
    assert work_us(known, unknown) == (2.0, 4.0)
    assert work_us(known, Bound(1.0, "hbm", {"hbm": 1.0}, ["tensor.fp8"])) is None


def test_a_share_of_a_gpu_is_told_from_an_unknown_one() -> None:
    events = [e for number in range(6) for e in step_of(number)]
    for name in ("NVIDIA H200", "NVIDIA H200 MIG 1g.18gb"):
        share = attributed(*events, devices=(Device(0, name=name, compute_units=32),))
        with pytest.raises(InputError, match=r"a share of an H200 \(32 of its 132 multi"):
            recorded_step(share, None, None)
        for text in (
            printed(operators_parts, operator_table(share), top=1, width=140, color=False),
            printed(hotspots_parts, hotspots(share), top=1, width=140, color=False),
        ):
            assert "\nno bounds: the GPU is a share of an H200 (32 of its 132" in text
    unknown = attributed(*events, devices=(Device(0, name="XPU", compute_units=32),))
    with pytest.raises(InputError, match="the GPU is not known; name it"):
        recorded_step(unknown, None, None)


def shared(**changes: Any) -> RecordedStep:
    """The made step, its product as the last of each of two layers."""
    step = recorded_step(made(), None, None)
    lines = [replace(line, role="o_proj") for line in step.lines]
    return replace(step, **{"lines": lines, "layers": 2.0, **changes})


def test_all_reduces_move_the_rows_of_the_products() -> None:
    rate = H200.value("interconnect.bandwidth") or 0
    for batch, rows in ((None, 8), (8192, 8192)):
        moved = 2 * 3 / 4 * rows * 4096 * 2
        found = collectives_us(shared(), Scenario(tp=4, batch=batch))
        for time, latency in zip(found, (5, 10, 20), strict=True):
            assert time == pytest.approx(2 * 2 * (latency + 1e6 * moved / (rate / 2)))
    said = " ".join(predict(shared(), Scenario(tp=4)).assumptions)
    assert "4 all-reduces of 8 x 4,096 16-bit values take 10 µs (5 to 20) each" in said


@pytest.mark.parametrize(("gpu", "pct"), [(None, 8), (H200, 25)])
def test_what_the_interval_adds_is_said(gpu: Hardware | None, pct: int) -> None:
    said = predict(shared(), Scenario(batch=16, gpu=gpu)).assumptions
    assert any(f"adds {pct} % on either side to those of its operators" in text for text in said)
    assert "adds" not in " ".join(predict(shared(), Scenario()).assumptions)


def test_the_latency_of_collectives_is_that_of_the_hardware_file() -> None:
    floor = Figure(7e-6, "s", "measured", "2026-11-16")
    links = replace_struct(H200.chip["interconnect.bandwidth"], value=1e30)
    chip = {**H200.chip, "reduce.floor": floor, "interconnect.bandwidth": links}
    step = shared(card=replace_struct(H200, chip=chip))
    assert collectives_us(step, Scenario(tp=2)) == pytest.approx((28.0, 28.0, 28.0))


def test_logits_are_gathered_and_the_host_launches_what_is_added() -> None:
    (line,) = shared().lines
    host = {"host_us": 1000.0, "wall_us": 1000.0, "between_us": 0.0, "kernels": 50.0}
    step = shared(lines=[line, replace(line, role="lm_head")], **host)
    names = [(c.name, c.passes) for c in added_collectives(step, Scenario(tp=2))]
    assert names == [("all-reduces", 2.0), ("gathers of logits", 1.0)]
    added = sum(c.calls for c in added_collectives(step, Scenario(tp=2)))
    found = predict(step, Scenario(tp=2))
    assert found.predicted_ms == pytest.approx(1.0 + added / step.kernels)


def test_recorded_communication_keeps_its_latency() -> None:
    (line,) = shared().lines
    axes: dict[str, Any] = {"bytes": 65536}
    kind = msgspec.structs.replace(line.kind, operator="all_reduce", category="comm", axes=axes)
    reduce = replace(line, kind=kind)
    step = shared(lines=[line, replace(reduce, time_us=40.0)], ranks=2)
    assert added_collectives(step, Scenario(tp=4)) == []
    share = communication_share(step.lines[1], step, Scenario(tp=4))
    assert share == pytest.approx((1.0, (10 + 30 * 1.5) / 40, 1.5))
    assert communication_share(line, step, Scenario(tp=4)) == (1.0, 1.0, 1.0)
    assert communication_share(step.lines[1], step, Scenario(tp=2)) == (1.0, 1.0, 1.0)
    assert "recorded communication keep" in communication_note(step, Scenario(tp=4))
    with pytest.raises(UsageError, match="only more ranks than the 2 recorded are predicted"):
        predict(step, Scenario(tp=1))
    with pytest.raises(InputError, match="does not say of how many ranks"):
        check_ranks(replace(step, ranks=1), Scenario(tp=2))
    exchange = replace(reduce, kind=msgspec.structs.replace(reduce.kind, operator="all_to_all"))
    with pytest.raises(InputError, match="this recording also has all_to_all"):
        check_ranks(replace(step, lines=[line, exchange]), Scenario(tp=4))


def test_ranks_that_cannot_be_predicted_are_refused() -> None:
    with pytest.raises(UsageError, match="3 ranks cannot share the 4096 inputs"):
        predict(shared(), Scenario(tp=3))
    with pytest.raises(UsageError, match="L40S's links is not known"):
        predict(shared(), Scenario(tp=2, gpu=named_hardware("L40S")))
    with pytest.raises(InputError, match="layers that they follow from are not known"):
        predict(shared(layers=0.0), Scenario(tp=2))
    with pytest.raises(InputError, match="size of the o_proj or down products"):
        predict(shared(lines=recorded_step(made(), None, None).lines), Scenario(tp=2))
    (line,) = shared().lines
    kind = msgspec.structs.replace(line.kind, axes={"q_heads": 16})
    with pytest.raises(UsageError, match="3 ranks cannot share 16 heads"):
        check_ranks(shared(lines=[replace(line, kind=kind)]), Scenario(tp=3))


def test_what_was_not_measured_is_said() -> None:
    step = recorded_step(made(), None, None)

    def said(step: RecordedStep, scenario: Scenario) -> bool:
        return "not measured" in " ".join(predict(step, scenario).assumptions)

    prefill = replace(step, phase="prefill")
    assert said(prefill, Scenario(batch=16))
    assert not said(step, Scenario(batch=16))
    assert said(step, Scenario(gpu=named_hardware("B200"), dtype="fp4"))
    assert not said(step, Scenario(dtype="fp8"))
    assert said(shared(), Scenario(tp=8))
    assert not said(shared(), Scenario(tp=4))


def test_only_the_launching_thread_waits_for_the_gpu() -> None:
    events = [e for number in range(6) for e in step_of(number)]
    for number in range(6):
        at = 10 * MS * number + 200_000
        events += [
            event("runtime", "cudaStreamSynchronize", at, 1 * MS),
            event("runtime", "cudaEventSynchronize", at + 1000, MS // 2),
            event("runtime", "cudaEventSynchronize", at, 8 * MS, tid=999),
        ]
    device = Device(0, name="NVIDIA H200")
    step = recorded_step(attributed(*events, devices=(device,)), None, None)
    plain = recorded_step(made(), None, None)
    waited = plain.host_us - step.host_us
    assert waited == pytest.approx(1000, rel=0.2)


def test_a_queue_that_never_runs_empty_does_not_wait_between_steps() -> None:
    step = recorded_step(made(), None, None)
    waiting = replace(step, replayed=True, host_us=0.0, between_us=step.wall_us - step.busy_us)
    graphs = predict(waiting, Scenario(graphs=True))
    assert graphs.limited_by == "host"
    assert graphs.predicted_ms == pytest.approx(step.wall_us / 1e3, rel=0.01)
    queued = predict(waiting, Scenario(no_host_gaps=True))
    assert queued.limited_by == "gpu"
    assert queued.predicted_ms == pytest.approx(step.busy_us / 1e3, rel=0.05)


def test_what_was_not_recorded_cannot_be_scaled() -> None:
    with pytest.raises(InputError, match="context was not recorded"):
        predict(recorded_step(made(), None, None), Scenario(context=100))
    with pytest.raises(InputError, match="no operator 'conv'"):
        predict(recorded_step(made(), None, None), Scenario(reach={"conv": 0.5}))
    with pytest.raises(UsageError, match="dtype must be one of"):
        Scenario(dtype="int3")
    with pytest.raises(UsageError, match="batch must be 1 to"):
        Scenario(batch=10**20)


def test_a_step_without_costs_is_not_predicted_for_other_sizes() -> None:
    step = recorded_step(open_attributed("demo:vllm-mi300x-graph"), None, None)
    with pytest.raises(InputError, match=r"only 3\.1 % of the GPU time is known"):
        predict(step, Scenario(batch=64))
    assert predict(step, Scenario(no_host_gaps=True)).predicted_ms > 0


def test_a_sweep_names_the_knee() -> None:
    batches = [Scenario(graphs=True, batch=1 << n) for n in range(20)]
    found = predict_many(made(), batches)
    assert found.knee is not None
    rates = {p.batch: p.tokens_per_s or 0.0 for p in found.predictions}
    assert rates[2 * found.knee] < 1.5 * rates[found.knee]
    assert predict_many(made(), batches[:3]).knee is None


@pytest.mark.parametrize(
    ("rates", "batches", "said"),
    [
        ((10.0, 19.0, 37.0), (1, 2, 4), "no knee up to batch 4"),
        ((None, None, None), (1, 2, 4), "the knee is not known: tokens/s are predicted for decode"),
        ((10.0, 37.0, 19.0), (1, 4, 2), ""),
    ],
)
def test_no_knee_is_claimed_where_none_was_looked_for(
    rates: tuple[float | None, ...], batches: tuple[int, ...], said: str
) -> None:
    found = predict_many(made(), [Scenario(graphs=True, batch=batch) for batch in batches])
    pairs = zip(found.predictions, rates, strict=True)
    known = [replace_struct(p, tokens_per_s=rate) for p, rate in pairs]
    shown = replace_struct(found, predictions=known, knee=None)
    text = printed(whatif_parts, shown, top=3, width=140, color=False)
    assert said in text
    assert ("knee" in text) is bool(said)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("8", (8,)), ("1,8", (1, 8)), ("1..8", (1, 2, 4, 8)), ("1..6", (1, 2, 4, 6)), ("5..5", (5,))],
)
def test_numbers_lists_and_sweeps(text: str, numbers: tuple[int, ...]) -> None:
    assert Numbers().convert(text, None, None) == numbers


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--batch", "8..1"],
        ["--batch", "x"],
        ["--reach", "dense_gemm=120%"],
        ["--dtype", "int3"],
        ["--gpu", "nothing"],
        ["--batch", "1..64", "--context", "1..1024"],
    ],
)
def test_bad_scenarios_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["whatif", "demo:qwen-h100", *arguments]) == 2
    assert capsys.readouterr().out == ""


def test_sizes_of_the_recording_need_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["whatif", "demo:qwen-h100", "--graphs", "--recorded-batch", "4"]) == 2
    assert "--recorded-batch and --recorded-context need --model" in capsys.readouterr().err


def test_eager_to_graph_on_a_real_loop() -> None:
    """`no_cuda_graph` is the same program as `normal`, launched eagerly."""
    plain = str(recording("h200/graph/no_cuda_graph.trace.json.gz"))
    graph = open_attributed(str(recording("h200/graph/normal.trace.json.gz")), companion=plain)
    true = recorded_step(graph, None, None).wall_us / 1e3
    found = predict(recorded_step(open_attributed(plain), None, None), Scenario(graphs=True))
    assert found.predicted_ms == pytest.approx(true, rel=0.15)
    assert found.low_ms <= true <= found.high_ms
    assert found.speedup > 4


def test_the_same_work_on_two_gpus() -> None:
    h100, mi300 = (
        recorded_step(
            open_attributed(str(recording(f"traces/{n}_qwen1.5-0.5b.json.gz"))), None, None
        )
        for n in ("h100", "mi300")
    )
    for a, b in ((h100, mi300), (mi300, h100)):
        found = predict(a, Scenario(gpu=named_hardware(b.card.name)))
        assert found.low_ms <= b.wall_us / 1e3 <= found.high_ms
        assert found.predicted_ms == pytest.approx(b.wall_us / 1e3, rel=0.25)


def test_scenarios_can_be_replaced() -> None:
    assert msgspec.structs.replace(Scenario(), batch=4).label == "batch 4"
