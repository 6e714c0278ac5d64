"""The gated delta rule, token by token: a state of K x V values per head, kept in fp32.

    h <- e^γ h;  d = β (v - hᵀ k);  h <- h + k dᵀ;  o = scale hᵀ q        per token and v head

    one token per sequence      vector   7 K V: decay, hᵀk, k dᵀ, hᵀq
    more tokens                 tensor   6 K V per token, the chunked form of the same recurrence,
                                whose work inside a chunk is left out; vector K V per chunk of 64
    sfu      4 per token and v head         exp, softplus, sigmoid, normalization
    bytes    q, k, v, a, b, out; A_log (fp32) and dt_bias; indices; touched state rows in and out

More than one token can be chunked onto the matrix pipe, so fp32 vector work is no bound there.
`states` is the number of distinct rows touched (default: one per sequence), `state_bytes` the size
of a value of the state in memory (default 4).
Published: all rows of the pool count, touched or not: up to 1.99 times the bytes.

In: A_log [Hv] fp32, dt_bias [Hv], a and b [B, T, Hv], q and k [B, T, Hq, K], v [B, T, Hv, V], state
[pool, Hv, K, V] fp32, state_indices [B] int32, distinct, scale. Out: out [B, T, Hv, V]; rows
state_indices of state are replaced in place, the others stay as they are.

γ = -e^A_log softplus(a + dt_bias) with softplus the identity above 20, β = sigmoid(b), and q and k
are divided by their norms; the quotients may be rounded to the dtype of q and k. A sequence whose
index is -1 is padding: its state stays, its output is 0. A v head uses the q and k head
h // (Hv / Hq). o comes from the state after the update.
"""

# Also: kernels in attribution/rules.toml, roles in operators/from_config/attention.py.

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.cost import Axes, Cost, Published, blocks, element
from solscope.operators.suite_axes import DELTA_RULE
from solscope.operators.task import (
    Draw,
    Inputs,
    Judgement,
    Output,
    Outputs,
    Task,
    Tolerance,
)
from solscope.operators.tasks.delta_rule import Gates, draw_gates, log_decay, unit_rows
from solscope.operators.tasks.draws import normal, query_scale
from solscope.operators.tasks.judge import close_in_parts, within
from solscope.operators.tasks.remembered import remembered

if TYPE_CHECKING:
    import torch

CHUNK = 64
"""Tokens per chunk in every deployed chunked kernel."""


def _flops(axes: Axes) -> dict[str, float]:
    batch, tokens, heads = axes["sequences"], axes["tokens"], axes["v_heads"]
    state = axes["key_dim"] * axes["value_dim"]
    sfu = 4 * batch * tokens * heads
    if tokens == 1:
        return {"vector.fp32": 7 * batch * heads * state, "sfu": sfu}
    return {
        "tensor.bf16": 6 * batch * tokens * heads * state,
        "vector.fp32": batch * heads * state * blocks(tokens, CHUNK),
        "sfu": sfu,
    }


@cost_model(
    "sequences tokens q_heads v_heads key_dim value_dim", optional="states state_bytes pool dtype"
)
def cost(axes: Axes) -> Cost:
    """Touched state rows only; the chunked form where a sequence has several tokens."""
    batch, heads, size = axes["sequences"], axes["v_heads"], element(axes)
    rows = batch * axes["tokens"]
    queries = 2 * size * rows * axes["q_heads"] * axes["key_dim"]
    values = size * rows * heads * axes["value_dim"]
    values_kept = axes.get("states", batch) * heads * axes["key_dim"] * axes["value_dim"]
    state = axes.get("state_bytes", 4) * values_kept
    return Cost(
        flops=_flops(axes),
        read_bytes={
            "weights": (4 + size) * heads,
            "activations": queries + values + 2 * size * rows * heads,
            "index": 4 * batch,
            "state": state,
        },
        write_bytes={"activations": values, "state": state},
        serial_steps=blocks(axes["tokens"], CHUNK),
    )


@in_suite("atrex_013", f"{DELTA_RULE} q_heads=num_q_heads pool=state_count")
def published(axes: Axes) -> Published:
    """As published: the whole pool of states in and out."""
    batch, heads = axes["sequences"], axes["v_heads"]
    rows, key, value = batch * axes["tokens"], axes["key_dim"], axes["value_dim"]
    pool = 4 * heads * key * value * axes["pool"]
    inputs = 4 * rows * axes["q_heads"] * key + 2 * rows * heads * value + 4 * rows * heads
    return Published(
        flops={"bf16": rows * heads * (7 * key * value + 3 * key + 2)},
        read_bytes=inputs + 6 * heads + 4 * batch + pool,
        write_bytes=2 * rows * heads * value + pool,
    )


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """Heads of all memory lengths, a pool with more rows than are touched."""
    import torch

    generator, dtype = draw.generator(), torch.bfloat16
    batch, tokens, heads = axes["sequences"], axes["tokens"], axes["v_heads"]
    key, value = axes["key_dim"], axes["value_dim"]
    pool = max(axes.get("pool", 0), batch + max(1, batch // 8))
    gates = draw_gates(generator, batch, tokens, heads, draw.variant)
    q, k = (normal(generator, batch, tokens, axes["q_heads"], key, dtype=dtype) for _ in range(2))
    rows = torch.randperm(pool, generator=generator, device=draw.device)[:batch]
    return {
        "A_log": gates.a_log,
        "dt_bias": gates.dt_bias,
        "a": gates.a,
        "b": gates.b,
        "q": q,
        "k": k,
        "v": normal(generator, batch, tokens, heads, value, dtype=dtype, std=2.0),
        "state": normal(generator, pool, heads, key, value, dtype=torch.float32),
        "state_indices": rows.to(torch.int32),
        "scale": query_scale(generator, draw.variant, key**-0.5),
    }


def reference(**inputs: Any) -> Outputs:
    """The recurrence token by token in fp64, some sequences at a time."""
    q, k = (unit_rows(inputs[name].double()) for name in "qk")
    states = inputs["state"].clone()
    return {"out": _recurrence(inputs, q, k, states, inputs["state_indices"]), "state": states}


@dataclass(frozen=True)
class _Step:
    """One token of some sequences, after it was written."""

    some: torch.Tensor
    """Sequences."""
    token: int
    decay: torch.Tensor
    written: torch.Tensor
    """[sequences, v heads, 1, V]."""
    state: torch.Tensor
    """[sequences, v heads, K, V]."""


def _steps(inputs: Inputs, k: torch.Tensor) -> Iterator[_Step]:
    """The rule on normalized keys; nothing happens to padding, whose index is below 0."""
    import torch

    all_gates = Gates(*(inputs[name] for name in ("A_log", "dt_bias", "a", "b")))
    v, state, state_indices = (inputs[name] for name in ("v", "state", "state_indices"))
    present = (state_indices >= 0).nonzero()[:, 0]
    a, b = all_gates.a, all_gates.b
    for some in torch.split(present, _together(v, state)):
        gates = Gates(all_gates.a_log, all_gates.dt_bias, a[some], b[some])
        decay = log_decay(gates, torch.float64).exp()[..., None, None]
        strength = b[some].double().sigmoid()[..., None, None]
        keys, values = _by_v_head(k[some], v), v[some].double()[..., None, :]
        h = state[state_indices[some].long()].double()
        for t in range(v.shape[1]):
            h = h * decay[:, t]
            written = (values[:, t] - (h * keys[:, t]).sum(-2, keepdim=True)) * strength[:, t]
            h = h + keys[:, t] * written
            yield _Step(some, t, decay[:, t], written, h)


def _by_v_head(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """q or k [.., Hq, K] for every v head, as columns: [.., Hv, K, 1]."""
    return x.double().repeat_interleave(v.shape[2] // x.shape[2], 2)[..., None]


def _recurrence(
    inputs: Inputs, q: torch.Tensor, k: torch.Tensor, states: torch.Tensor, places: torch.Tensor
) -> torch.Tensor:
    """Outputs of the rule on normalized q and k; the last state of a sequence goes to its place."""
    import torch

    v = inputs["v"]
    out = torch.zeros(v.shape, device=v.device)
    for step in _steps(inputs, k):
        query = _by_v_head(q[step.some, step.token][:, None], v)[:, 0]
        out[step.some, step.token] = (inputs["scale"] * (step.state * query).sum(-2)).float()
        if step.token == v.shape[1] - 1:
            states[places[step.some].long()] = step.state.float()
    return out


def _together(v: torch.Tensor, state: torch.Tensor) -> int:
    """Sequences whose states, and whose tokens, fit in fp64."""
    return max(1, _STATE_VALUES // max(state[0].numel(), v[0].numel()))


_STATE_VALUES = 1 << 26
"""Values of states, and of tokens, held in fp64 at a time: 512 MiB."""


def sampled(inputs: Inputs, rows: torch.Tensor) -> Outputs:
    """The outputs of some sequences; not the state, whose rows are the pool's."""
    return {"out": reference(**_of_sequences(inputs, rows))["out"]}


def _of_sequences(inputs: Mapping[str, Any], rows: torch.Tensor) -> Inputs:
    """The inputs of some sequences; the pool and what all share stay whole."""
    names = ("a", "b", "q", "k", "v", "state_indices")
    return {**inputs, **{name: inputs[name][rows] for name in names}}


NORM_ERROR = 2**-19
"""Of a quotient in fp32, relative; far more than sums of squares in any usual order are off by."""


DEVIATIONS = 2.0
"""How many times what ties are expected to change is no error."""


def to_the_other_side(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """How far a value moves when rounded to the other side; 0 where it is not beside a tie.

    Beside a tie, the other side lies as far beyond the exact value as the nearest one before it.
    """
    import torch

    nearest = exact.to(dtype).double()
    other = (2 * exact - nearest).to(dtype).double()
    beside = ((nearest + other) / 2 - exact).abs() <= NORM_ERROR * exact.abs()
    return torch.where(beside, (other - nearest).abs(), 0.0)


@dataclass(frozen=True)
class _Rounded:
    """The rule with the normalized q and k rounded to their dtype, as a separate norm leaves them.

    fla's chunked path and every server that normalizes in a kernel of its own have these. A
    quotient beside a tie is rounded to either side, by how the norm was summed: `moved` is how far
    that may move what is computed.
    """

    out: torch.Tensor
    out_moved: torch.Tensor
    rows: torch.Tensor
    """Of the pool, those that are written; the others stay as they are."""
    states: torch.Tensor
    """[rows, Hv, K, V]."""
    states_moved: torch.Tensor
    """The norm of every column, [rows, Hv, 1, V]."""


@remembered
def on_rounded_keys(inputs: Mapping[str, Any]) -> _Rounded:
    """Both outputs, by one recurrence on rounded q and k and one for ties; of the rows given."""
    import torch

    own = {key: value for key, value in inputs.items() if key != "rows"}
    if "rows" in inputs:
        own = _of_sequences(own, inputs["rows"])
    present = own["state_indices"] >= 0
    rows, places = own["state_indices"][present].long(), present.cumsum(0) - 1
    q, k = (unit_rows(own[name].double()).to(own[name].dtype) for name in "qk")
    states = own["state"][rows]
    out = _recurrence(own, q, k, states, places)
    moved = torch.zeros_like(states[..., :1, :], dtype=torch.float64)
    out_moved = _moved_by_ties(own, moved, places)
    return _Rounded(out, out_moved, rows, states, moved)


def _moved_by_ties(inputs: Inputs, states: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """How far outputs may move where q or k are rounded to other sides; and norms of `states`.

    What a moved key writes has the norm of the move times d. A later token takes (2 β - β²) / K of
    its square away, as unit keys of any direction do on average, and the decay its share. Ties know
    nothing of each other: squares add. A unit query of any direction sees 1 / K of a square.
    """
    import torch

    units = {name: unit_rows(inputs[name].double()) for name in "qk"}
    ties = {name: to_the_other_side(x, inputs[name].dtype) for name, x in units.items()}
    v, key_dim = inputs["v"], inputs["state"].shape[-2]
    share = v.shape[2] // units["k"].shape[2]
    written = ties["k"].square().sum(-1).repeat_interleave(share, 2)[..., None, None]
    strength = inputs["b"].double().sigmoid()
    kept = (1 - strength * (2 - strength) / key_dim)[..., None, None]
    out = torch.zeros_like(v, dtype=torch.float64)
    squares = torch.zeros((), device=v.device)
    for step in _steps(inputs, units["k"]):
        at = step.some, step.token
        before = squares * step.decay.square() * kept[at] if step.token else 0.0
        squares = before + written[at] * step.written.square()
        q_ties = _by_v_head(ties["q"][at][:, None], v)[:, 0]
        seen = squares[..., 0, :] / key_dim
        out[at] = seen + (step.state * q_ties).square().sum(-2)
        if step.token == v.shape[1] - 1:
            states[places[step.some]] = DEVIATIONS * squares.sqrt()
    return out.sqrt_().mul_(DEVIATIONS * inputs["scale"])


def _compare_out(
    got: torch.Tensor, wanted: torch.Tensor, inputs: Mapping[str, Any], _outputs: Mapping[str, Any]
) -> Judgement:

    def on_rounded(rule: _Rounded) -> Judgement:
        return within(_OUT, _closer(got, rule.out, rule.out_moved), rule.out)

    return _either(within(_OUT, got, wanted), on_rounded, inputs)


def _compare_state(
    got: torch.Tensor, wanted: torch.Tensor, inputs: Mapping[str, Any], _outputs: Mapping[str, Any]
) -> Judgement:
    """As outputs, but some rows of the pool at a time: it may be most of the memory."""

    def on_rounded(rule: _Rounded) -> Judgement:
        return close_in_parts(_STATE, _parts_of_pool(got, wanted, rule), wanted.shape)

    return _either(within(_STATE, got, wanted), on_rounded, inputs)


def _either(
    judgement: Judgement, on_rounded: Callable[[_Rounded], Judgement], inputs: Mapping[str, Any]
) -> Judgement:
    """Against the rule itself; where that does not fit, against the one on rounded q and k."""
    if judgement.ok:
        return judgement
    other = on_rounded(on_rounded_keys(inputs))
    return other if other.ok else judgement


def _parts_of_pool(
    got: torch.Tensor, wanted: torch.Tensor, rounded: _Rounded
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Got, without what ties may change, and wanted on rounded keys."""
    import torch

    places = torch.full((len(wanted),), -1, device=wanted.device)
    places[rounded.rows] = torch.arange(len(rounded.rows), device=wanted.device)
    step = max(1, POOL_VALUES // wanted[:1].numel())
    slices = (torch.split(x, step) for x in (places, got, wanted))
    for mine, ours, right in zip(*slices, strict=True):
        written, own = mine >= 0, right.clone()
        moved = rounded.states_moved.new_zeros(right[..., :1, :].shape)
        own[written], moved[written] = (
            x[mine[written]] for x in (rounded.states, rounded.states_moved)
        )
        yield _closer(ours, own, moved), own


POOL_VALUES = 1 << 24
"""Values of the pool judged at a time."""


def _closer(got: torch.Tensor, wanted: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    """`got` moved towards `wanted`: every value by `by` at most, or every column in its norm."""
    error = got.float() - wanted.float()
    of_columns = by.shape != error.shape
    size = error.norm(dim=-2, keepdim=True) if of_columns else error.abs()
    left = (size - by.float()).clamp_min(0.0) / size.clamp_min(1e-30)
    return wanted.float() + error * left


_OUT_WHY = "fp32 inside, one rounding to bf16 (1.7e-3); room for tf32 products in a chunked kernel"
_OUT = Tolerance("close", atol=1e-3, rtol=2**-7, rms=2.5e-3, row_rms=5e-3, why=_OUT_WHY)
_STATE_WHY = (
    "deployed kernels keep it in fp32 (1e-6), as its error lives on for thousands "
    "of steps; room for tf32 products, none for a state in bf16 (1.7e-3)"
)
_STATE = Tolerance("close", atol=1e-3, rtol=5e-3, rms=7e-4, row_rms=1e-3, why=_STATE_WHY)
OUTPUTS = {
    "out": Output("bfloat16", _OUT, _compare_out),
    "state": Output("float32", _STATE, _compare_state),
}
TASK = Task(
    inputs,
    reference,
    OUTPUTS,
    sampled=sampled,
    unsampled=("state",),
    rows=lambda inputs: len(inputs["v"]),
    mutates=("state",),
    vary=("sequences", "tokens"),
    weights=("A_log", "dt_bias"),
)

TITLE = "Gated delta rule, recurrent form (decode)"
OPERATOR = Operator("gated_delta_rule_update", TITLE, "linear_attention", cost, published, TASK)
