"""The gated delta rule by hand, by token and in chunks of any size; the convolution by FFT."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from solscope.bench.verify import eager_solution, wrong_outputs
from solscope.operators.catalog import gated_delta_rule_update
from solscope.operators.task import Inputs, Outputs, Variant
from solscope.operators.tasks.delta_rule import (
    Gates,
    chunk_factors,
    chunk_states,
    draw_gates,
    log_decay,
    running_sums,
    unit_rows,
)
from solscope.operators.tasks.judge import judge, within
from solscope.operators.tasks.remembered import forget
from tests.references import distance, drawn, in_fp8, task_of, wrong

HEADS = {"v_heads": 4, "key_dim": 16, "value_dim": 24}
UPDATE = {"sequences": 2, "tokens": 75, "q_heads": 2, **HEADS, "pool": 5}
STEP = {**UPDATE, "sequences": 6, "tokens": 1}
STATE = {"sequences": 2, "tokens": 150, "k_heads": 2, **HEADS, "pool": 5, "chunk_size": 64}
OUTPUT = {"sequences": 2, "tokens": 150, "q_heads": 2, **HEADS, "chunk_size": 64}


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def by_hand(inputs: Inputs, sequence: int, head: int) -> tuple[list[list[float]], Any]:
    """Outputs and last state of one sequence and v head, in plain floats."""
    q_head = head // (inputs["v"].shape[2] // inputs["q"].shape[2])
    state = inputs["state"][int(inputs["state_indices"][sequence]), head].double().tolist()
    keys, values = range(len(state)), range(len(state[0]))
    rate, bias = math.exp(float(inputs["A_log"][head])), float(inputs["dt_bias"][head])
    outputs = []
    for t in range(inputs["v"].shape[1]):
        x = float(inputs["a"][sequence, t, head]) + bias
        decay = math.exp(-rate * (x if x > 20 else math.log1p(math.exp(x))))
        strength = 1 / (1 + math.exp(-float(inputs["b"][sequence, t, head])))
        q, k = (inputs[name][sequence, t, q_head].double().tolist() for name in ("q", "k"))
        q_norm, k_norm = math.hypot(*q), math.hypot(*k)
        q, k = [v / q_norm for v in q], [v / k_norm for v in k]
        wanted = inputs["v"][sequence, t, head].double().tolist()
        state = [[decay * state[i][j] for j in values] for i in keys]
        held = [math.fsum(state[i][j] * k[i] for i in keys) for j in values]
        written = [strength * (wanted[j] - held[j]) for j in values]
        state = [[state[i][j] + k[i] * written[j] for j in values] for i in keys]
        scale = inputs["scale"]
        outputs.append([scale * math.fsum(state[i][j] * q[i] for i in keys) for j in values])
    return outputs, state


@pytest.mark.parametrize("variant", ["typical", "extreme"])
def test_update_by_hand(variant: Variant) -> None:
    axes = {**UPDATE, "tokens": 7, "key_dim": 5, "value_dim": 3}
    inputs, wanted = drawn("gated_delta_rule_update", axes, variant)
    for sequence in range(2):
        row = int(inputs["state_indices"][sequence])
        for head in range(4):
            outputs, state = by_hand(inputs, sequence, head)
            assert distance(torch.tensor(outputs), wanted["out"][sequence, :, head]) < 1e-6
            assert distance(torch.tensor(state), wanted["state"][row, head]) < 1e-6


@pytest.mark.parametrize("size", [1, 16, 64, 100])
@pytest.mark.parametrize("variant", ["typical", "extreme"])
def test_the_chunked_form_is_the_recurrence(size: int, variant: Variant) -> None:
    """w and u, then the state operator, then the output operator, against token by token."""
    inputs, wanted = drawn("gated_delta_rule_update", UPDATE, variant)
    names = ("A_log", "dt_bias", "a", "b")
    gates = Gates(*(inputs[name].double() for name in names))
    q, k = (unit_rows(inputs[name].double()) for name in ("q", "k"))
    g = running_sums(log_decay(gates, torch.float64), size)
    u, w = chunk_factors(k, inputs["v"].double(), gates.b.sigmoid(), g, size)
    states = task_of("chunk_gated_delta_rule_state").reference(
        k=k,
        w=w,
        u=u,
        g=g,
        state=inputs["state"],
        state_indices=inputs["state_indices"],
        chunk_size=size,
    )
    outputs = task_of("chunk_delta_rule_output").reference(
        q=q,
        k=k,
        v=states["v_new"],
        h=states["h"],
        g=g,
        scale=inputs["scale"],
        chunk_size=size,
    )
    assert distance(states["state"], wanted["state"]) < 1e-5
    assert distance(outputs["out"], wanted["out"]) < 1e-5


def test_gates_reach_from_forgetting_to_remembering() -> None:
    gates = draw_gates(torch.Generator().manual_seed(1), 1, 500, 32, "typical")
    decay = log_decay(gates, torch.float64).exp()
    assert float(decay.min()) < 0.3
    assert float(decay.max()) > 0.9999
    assert 0.5 < float(decay.median()) < 0.9999
    extreme = draw_gates(torch.Generator().manual_seed(1), 1, 500, 32, "extreme")
    linear = extreme.a.double() + extreme.dt_bias.double() > 20
    assert 0.01 < float(linear.double().mean()) < 0.2
    assert bool((log_decay(extreme, torch.float64) <= 0).all())


def test_sums_restart_with_every_chunk_and_fall() -> None:
    inputs, _ = drawn("chunk_gated_delta_rule_state", STATE)
    for start in (0, 64, 128):
        chunk = inputs["g"][:, start : start + 64]
        assert bool((chunk.diff(dim=1) <= 0).all())
    assert bool((inputs["g"][:, 64] > inputs["g"][:, 63]).all())
    lengths = inputs["k"].float().norm(dim=-1)
    assert torch.allclose(lengths, torch.ones_like(lengths), atol=0.01)


# --- The state operator


def test_states_start_with_the_given_one_and_others_stay() -> None:
    inputs, wanted = drawn("chunk_gated_delta_rule_state", STATE)
    rows = inputs["state_indices"].long()
    assert torch.equal(wanted["h"][:, 0], inputs["state"][rows])
    others = [row for row in range(5) if row not in rows.tolist()]
    assert torch.equal(wanted["state"][others], inputs["state"][others])
    assert wanted["h"].shape[1] == 3, "the last chunk is short"


def test_one_chunk_after_the_other_is_the_whole() -> None:
    """The state behind 128 tokens, as a new start for the last 22."""
    inputs, wanted = drawn("chunk_gated_delta_rule_state", STATE)
    k, w, u, g = (inputs[name] for name in ("k", "w", "u", "g"))
    start = inputs["state"][inputs["state_indices"].long()]
    some, rest, wide = slice(None, 128), slice(128, None), torch.float64
    _, x, middle = chunk_states(k[:, some], w[:, some], u[:, some], g[:, some], start, 64, wide)
    h, y, last = chunk_states(k[:, rest], w[:, rest], u[:, rest], g[:, rest], middle, 64, wide)
    assert distance(torch.cat([x, y], 1), wanted["v_new"]) < 1e-6
    assert distance(h[:, 0], wanted["h"][:, 2]) < 1e-6
    assert distance(last, wanted["state"][inputs["state_indices"].long()]) < 1e-6


def state_answer(**changed: Any) -> Callable[..., Any]:
    """The reference with some inputs replaced, as a solution."""

    def run(**given: Any) -> Any:
        other = {name: change(given) for name, change in changed.items()}
        found = task_of("chunk_gated_delta_rule_state").reference(**{**given, **other})
        given["state"].copy_(found["state"])
        return found["h"].bfloat16(), found["v_new"].bfloat16()

    return run


WRONG_STATES: dict[str, Callable[..., Any]] = {
    "no decay": state_answer(g=lambda given: given["g"] * 0),
    "the decay of the row above": state_answer(g=lambda given: given["g"].roll(1, 1)),
    "v_new is u": state_answer(w=lambda given: given["w"] * 0),
    "8-bit operands": state_answer(
        u=lambda given: in_fp8(given["u"]), w=lambda given: in_fp8(given["w"])
    ),
    "another row of the pool": state_answer(
        state_indices=lambda given: (given["state_indices"] + 1) % 5
    ),
    "the last token left out": state_answer(
        k=lambda given: torch.cat([given["k"][:, :-1], given["k"][:, -1:] * 0], 1)
    ),
}


@pytest.mark.parametrize("label", WRONG_STATES)
def test_wrong_states_do_not_pass(label: str) -> None:
    inputs, wanted = drawn("chunk_gated_delta_rule_state", STATE)
    assert wrong("chunk_gated_delta_rule_state", state_answer(), inputs, wanted) == []
    assert wrong("chunk_gated_delta_rule_state", WRONG_STATES[label], inputs, wanted)


# --- The output operator


def test_outputs_pair_by_pair() -> None:
    axes = {**OUTPUT, "sequences": 1, "tokens": 11, "chunk_size": 4}
    inputs, wanted = drawn("chunk_delta_rule_output", axes)
    q, k, v, h, g = (inputs[name].double()[0] for name in ("q", "k", "v", "h", "g"))
    out = torch.zeros(11, 4, 24, dtype=torch.float64)
    for i in range(11):
        for head in range(4):
            row = (g[i, head].exp() * h[i // 4, head]).T @ q[i, head // 2]
            for j in range(i // 4 * 4, i + 1):
                product = float(q[i, head // 2] @ k[j, head // 2])
                row = row + math.exp(g[i, head] - g[j, head]) * product * v[j, head]
            out[i, head] = inputs["scale"] * row
    assert distance(out, wanted["out"][0]) < 1e-6


@pytest.mark.parametrize("left_out", ["h", "v"])
def test_both_parts_of_the_output_count(left_out: str) -> None:
    inputs, wanted = drawn("chunk_delta_rule_output", OUTPUT)
    run = eager_solution("chunk_delta_rule_output")
    assert wrong("chunk_delta_rule_output", run, inputs, wanted) == []
    without = {**inputs, left_out: inputs[left_out] * 0}
    assert wrong("chunk_delta_rule_output", lambda **given: run(**without), inputs, wanted)
    alone = task_of("chunk_delta_rule_output").reference(**without)
    assert wrong("chunk_delta_rule_output", run, without, alone) == []


def test_8_bit_operands_do_not_pass_for_outputs() -> None:
    inputs, wanted = drawn("chunk_delta_rule_output", OUTPUT)
    run = eager_solution("chunk_delta_rule_output")
    coarse = {**inputs, **{name: in_fp8(inputs[name]) for name in ("q", "k", "v", "h")}}
    assert wrong("chunk_delta_rule_output", lambda **given: run(**coarse), inputs, wanted)


# --- The update


def variation(
    *, decay_last: bool = False, old_state: bool = False, norms: bool = True, swap: bool = False
) -> Callable[..., Any]:
    """One step of the recurrence with something done otherwise."""

    def run(**given: Any) -> torch.Tensor:
        gates = Gates(given["A_log"], given["dt_bias"], given["a"], given["b"])
        decay = log_decay(gates, torch.float32).exp()[:, 0, :, None, None]
        beta = given["b"].float().sigmoid()[:, 0, :, None]
        q, k = (given[name][:, 0].float() for name in ("q", "k"))
        if norms:
            q, k = unit_rows(q), unit_rows(k)
        if swap:
            q, k = (x.repeat(1, 2, 1)[..., None] for x in (q, k))
        else:
            q, k = (x.repeat_interleave(2, 1)[..., None] for x in (q, k))
        rows = given["state_indices"].long()
        old = given["state"][rows]
        h = old if decay_last else old * decay
        written = beta * (given["v"][:, 0].float() - (h * k).sum(-2))
        h = h + k * written[..., None, :]
        h = h * decay if decay_last else h
        given["state"][rows] = h
        read = old if old_state else h
        out: torch.Tensor = given["scale"] * (read * q).sum(-2)
        return out[:, None].bfloat16()

    return run


def test_order_of_the_update() -> None:
    inputs, wanted = drawn("gated_delta_rule_update", STEP)
    assert wrong("gated_delta_rule_update", variation(), inputs, wanted) == []
    for other in (
        variation(decay_last=True),
        variation(old_state=True),
        variation(norms=False),
        variation(swap=True),
    ):
        assert wrong("gated_delta_rule_update", other, inputs, wanted)


@pytest.mark.parametrize("axes", [STEP, UPDATE], ids=["step", "tokens"])
def test_a_state_in_bf16_does_not_pass(axes: dict[str, Any]) -> None:
    inputs, wanted = drawn("gated_delta_rule_update", {**axes, "pool": 40})
    run = eager_solution("gated_delta_rule_update")

    def narrow(**given: Any) -> Any:
        out = run(**given)
        rows = given["state_indices"].long()
        given["state"][rows] = given["state"][rows].bfloat16().float()
        return out

    assert wrong("gated_delta_rule_update", run, inputs, wanted) == []
    reasons = wrong("gated_delta_rule_update", narrow, inputs, wanted)
    assert reasons
    assert all(reason.startswith("state") for reason in reasons)


def test_one_wrong_row_in_a_large_pool_does_not_pass() -> None:
    inputs, wanted = drawn("gated_delta_rule_update", {**STEP, "sequences": 1, "pool": 400})

    def stale(**given: Any) -> Any:
        kept = given["state"].clone()
        out = eager_solution("gated_delta_rule_update")(**given)
        given["state"].copy_(kept)
        return out

    assert wrong("gated_delta_rule_update", stale, inputs, wanted)


# --- The convolution

CONV = {"tokens": 50, "dim": 24, "width": 4}


def by_fft(inputs: Inputs) -> Outputs:
    """Convolution as a product of spectra, then SiLU by tanh."""
    z = torch.cat([inputs["conv_state"][0], inputs["x"]], 1).double()
    taps = inputs["weight"].double().flip(1)
    length = z.shape[1] + taps.shape[1]
    spectrum = torch.fft.rfft(z, length) * torch.fft.rfft(taps, length)
    width = taps.shape[1]
    total = torch.fft.irfft(spectrum, length)[:, width - 1 : z.shape[1]]
    total = total + inputs["bias"].double()[:, None]
    return {
        "out": total * 0.5 * (1 + torch.tanh(total / 2)),
        "conv_state": z[None, :, -width + 1 :],
    }


@pytest.mark.parametrize("tokens", [1, 2, 3, 50])
@pytest.mark.parametrize("variant", ["typical", "extreme"])
def test_convolution_by_fft(tokens: int, variant: Variant) -> None:
    inputs, wanted = drawn("causal_conv1d", {**CONV, "tokens": tokens}, variant)
    found = by_fft(inputs)
    assert distance(found["out"], wanted["out"]) < 1e-6
    assert torch.equal(found["conv_state"], wanted["conv_state"].double())


def test_wrong_convolutions_do_not_pass() -> None:
    inputs, wanted = drawn("causal_conv1d", {**CONV, "tokens": 300})
    run = eager_solution("causal_conv1d")

    def changed(**other: torch.Tensor) -> Callable[..., Any]:
        def answer(**given: Any) -> Any:
            out = run(**{**given, **other})
            given["conv_state"].copy_(wanted["conv_state"])
            return out

        return answer

    assert wrong("causal_conv1d", changed(), inputs, wanted) == []
    for name, value in (
        ("x", inputs["x"] * 0),
        ("x", in_fp8(inputs["x"])),
        ("conv_state", inputs["conv_state"] * 0),
        ("conv_state", inputs["conv_state"].flip(-1)),
        ("weight", inputs["weight"].flip(-1)),
        ("bias", inputs["bias"] * 0),
    ):
        assert wrong("causal_conv1d", changed(**{name: value}), inputs, wanted), name

    def keeps_the_state(**given: Any) -> Any:
        return run(**{**given, "conv_state": given["conv_state"].clone()})

    reasons = wrong("causal_conv1d", keeps_the_state, inputs, wanted)
    assert [reason.partition(":")[0] for reason in reasons] == ["conv_state"]


def test_padding_has_no_state() -> None:
    task = task_of("gated_delta_rule_update")
    inputs, wanted = drawn("gated_delta_rule_update", STEP)
    indices = inputs["state_indices"].clone()
    indices[2] = -1
    found = task.reference(**{**inputs, "state_indices": indices})
    kept = int(inputs["state_indices"][2])
    assert torch.equal(found["state"][kept], inputs["state"][kept])
    assert torch.equal(found["state"][-1], wanted["state"][-1]) or kept == len(wanted["state"]) - 1
    assert not found["out"][2].any()
    others = [at for at in range(len(indices)) if at != 2]
    assert torch.equal(found["out"][others], wanted["out"][others])


def rounded_units(inputs: Inputs) -> list[torch.Tensor]:
    """q and k, normalized and rounded to their dtype."""
    return [unit_rows(inputs[name].double()).to(inputs[name].dtype) for name in "qk"]


def updated(inputs: Inputs, q: torch.Tensor, k: torch.Tensor) -> Outputs:
    """The rule on normalized q and k."""
    states = inputs["state"].clone()
    indices = inputs["state_indices"]
    out = gated_delta_rule_update._recurrence(inputs, q, k, states, indices)
    return {"out": out, "state": states}


def test_rounded_unit_keys_pass_and_a_rounded_state_does_not() -> None:
    inputs, wanted = drawn("gated_delta_rule_update", UPDATE)
    rounded = updated(inputs, *rounded_units(inputs))
    got = {"out": rounded["out"].bfloat16(), "state": rounded["state"]}
    assert not wrong_outputs(task_of("gated_delta_rule_update"), got, wanted, inputs)
    coarse = {**got, "state": rounded["state"].bfloat16().float()}
    assert wrong_outputs(task_of("gated_delta_rule_update"), coarse, wanted, inputs)


@pytest.mark.parametrize("name", ["q", "k"])
def test_what_was_rounded_to_the_other_side_of_a_tie_passes(name: str) -> None:
    """Also where later tokens leave little of what it wrote to compare the difference with."""
    task = task_of("gated_delta_rule_update")
    beside = 0
    for seed in range(6):
        inputs, wanted = drawn("gated_delta_rule_update", {**UPDATE, "sequences": 1}, seed=seed)
        moved = moved_to_the_other_side(inputs, name)
        beside += moved is not None
        if moved is not None:
            assert not wrong_outputs(task, moved, wanted, inputs)
    assert beside > 2


def moved_to_the_other_side(inputs: Inputs, name: str) -> Outputs | None:
    """The answer with the values of q or k that lie beside a tie rounded to their other side."""
    exact = {of: unit_rows(inputs[of].double()) for of in "qk"}
    rounded = {of: exact[of].to(inputs[of].dtype) for of in "qk"}
    by = gated_delta_rule_update.to_the_other_side(exact[name], inputs[name].dtype)
    if not bool(by.any()):
        return None
    away = torch.sign(exact[name] - rounded[name].double())
    rounded[name] = (rounded[name].double() + away * by).to(inputs[name].dtype)
    answer = updated(inputs, rounded["q"], rounded["k"])
    return {"out": answer["out"].bfloat16(), "state": answer["state"]}


def test_a_key_that_is_a_step_off_without_a_tie_is_wrong() -> None:
    inputs, _ = drawn("gated_delta_rule_update", {**UPDATE, "tokens": 1})
    inputs = {**inputs, "state": torch.zeros_like(inputs["state"])}
    wanted = gated_delta_rule_update.reference(**inputs)
    exact = unit_rows(inputs["k"].double())
    q, k = rounded_units(inputs)
    assert not gated_delta_rule_update.to_the_other_side(exact[0, 0, 0], k.dtype)[0]
    k.view(torch.int16)[0, 0, 0, 0] += 1  # One bf16 step.
    moved = updated(inputs, q, k)
    got = {"out": moved["out"].bfloat16(), "state": moved["state"]}
    assert wrong_outputs(task_of("gated_delta_rule_update"), got, wanted, inputs)


@pytest.mark.parametrize("name", ["out", "state"])
def test_ties_are_no_excuse_for_other_errors(name: str) -> None:
    """Of 256 tokens, many of whose keys lie beside a tie."""
    axes = {**UPDATE, "sequences": 1, "tokens": 256, "key_dim": 128, "value_dim": 32}
    task = task_of("gated_delta_rule_update")
    inputs, wanted = drawn("gated_delta_rule_update", axes)
    right = moved_to_the_other_side(inputs, "k")
    assert right is not None
    assert not wrong_outputs(task, right, wanted, inputs)
    # Errors are added before the one rounding.
    exact = updated(inputs, *rounded_units(inputs))[name]
    noise = torch.randn(exact.shape, generator=torch.Generator().manual_seed(1))
    for off in (exact * 1.003, exact * (1 + 3e-3 * noise)):
        assert wrong_outputs(task, {**right, name: off.to(right[name].dtype)}, wanted, inputs)


def test_both_outputs_are_judged_by_the_same_recurrences(monkeypatch: pytest.MonkeyPatch) -> None:
    """One on rounded keys and one for ties, until they are forgotten or inputs change."""
    inputs, wanted = drawn("gated_delta_rule_update", UPDATE)
    rounded = updated(inputs, *rounded_units(inputs))
    got = {"out": rounded["out"].bfloat16(), "state": rounded["state"]}
    runs = []
    steps = gated_delta_rule_update._steps

    def counted(*given: Any) -> Any:
        runs.append(1)
        return steps(*given)

    monkeypatch.setattr(gated_delta_rule_update, "_steps", counted)
    for _ in range(2):
        for name, output in gated_delta_rule_update.OUTPUTS.items():
            assert not within(output.tolerance, got[name], wanted[name]).ok
        assert not wrong_outputs(task_of("gated_delta_rule_update"), got, wanted, inputs)
    assert len(runs) == 2
    changed = {**inputs, "v": inputs["v"] * 2}
    assert wrong_outputs(task_of("gated_delta_rule_update"), got, wanted, changed)
    assert len(runs) == 4
    forget()
    assert wrong_outputs(task_of("gated_delta_rule_update"), got, wanted, changed)
    assert len(runs) == 6


@pytest.mark.parametrize("values", [1, 3 * 4 * 16 * 24, 1 << 24], ids=["rows", "some", "all"])
@pytest.mark.parametrize("off", ["nothing", "written", "other"])
def test_a_pool_is_judged_some_rows_at_a_time(
    values: int, off: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is said of it is the same; copies have the size of a part, and not of the pool."""
    inputs, wanted = drawn("gated_delta_rule_update", {**UPDATE, "pool": 11})
    state = updated(inputs, *rounded_units(inputs))["state"]
    written = inputs["state_indices"].tolist()
    row = written[0] if off == "written" else next(n for n in range(11) if n not in written)
    state[row, 2, :, 5] += 0.0 if off == "nothing" else 1.0
    monkeypatch.setattr(gated_delta_rule_update, "POOL_VALUES", values)
    parts: list[int] = []
    closer = gated_delta_rule_update._closer

    def sized(got: torch.Tensor, right: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
        parts.append(len(got))
        return closer(got, right, by)

    monkeypatch.setattr(gated_delta_rule_update, "_closer", sized)
    output = gated_delta_rule_update.OUTPUTS["state"]
    judged = judge(output, state, wanted["state"], inputs, {})
    assert judged.ok is (off == "nothing")
    assert parts == {1: [1] * 11, 1 << 24: [11]}.get(values, [3, 3, 3, 2])
    rounded = gated_delta_rule_update.on_rounded_keys(inputs)
    assert len(rounded.states) == len(rounded.states_moved) == len(written)
    whole = updated(inputs, *rounded_units(inputs))["state"]
    moved = torch.zeros_like(whole[..., :1, :], dtype=torch.float64)
    moved[rounded.rows] = rounded.states_moved
    expected = within(output.tolerance, closer(state, whole, moved), whole)
    assert expected.ok is judged.ok
    if judged.ok:
        assert judged.rms_error == pytest.approx(expected.rms_error, rel=1e-12)


def test_padding_is_no_row_that_is_written() -> None:
    inputs, _ = drawn("gated_delta_rule_update", STEP)
    indices = inputs["state_indices"].clone()
    indices[2] = -1
    inputs = {**inputs, "state_indices": indices}
    wanted = gated_delta_rule_update.reference(**inputs)
    rounded = updated({**inputs, "state_indices": indices}, *rounded_units(inputs))
    found = gated_delta_rule_update.on_rounded_keys(inputs)
    assert found.rows.tolist() == [n for n in indices.tolist() if n >= 0]
    assert torch.equal(found.states, rounded["state"][found.rows])
    got = {"out": rounded["out"].bfloat16(), "state": rounded["state"]}
    assert not wrong_outputs(task_of("gated_delta_rule_update"), got, wanted, inputs)


def test_the_other_side_of_a_tie() -> None:
    tie = 1 + 3 * 2**-8  # Between 1 + 2^-7 and 1 + 2^-6.
    exact = torch.tensor([tie * (1 + 2**-22), tie * (1 - 2**-22), tie * (1 + 2**-16), 1.0, 0.0])
    by = gated_delta_rule_update.to_the_other_side(exact.double(), torch.bfloat16)
    assert by.tolist() == [2**-7, 2**-7, 0.0, 0.0, 0.0]
