"""Whether the suite itself is right, without a GPU: `solscope suite verify`.

For each operator, at small sizes: every shape's axes give inputs; equal seeds give equal inputs and
others do not; outputs have the stated dtypes and are large against their tolerance; the eager
solution, a formulation of its own, passes on every variant; sampled rows equal the full reference;
and answers that did not do the work fail, on each output alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import resources, util
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import msgspec

from solscope.bench.catalog import load_module
from solscope.errors import MissingToolError
from solscope.operators import operator
from solscope.operators.base import Axes
from solscope.operators.host_warnings import ignore_host_warnings
from solscope.operators.task import Draw, Inputs, Output, Outputs, Task, Variant
from solscope.operators.tasks.judge import judge
from solscope.suite.files import SuiteFile
from solscope.suite.scale import scale_down

if TYPE_CHECKING:
    import torch

VARIANTS: tuple[Variant, ...] = get_args(Variant)
_SIGNAL = 10
"""Least RMS of a reference in units of its absolute tolerance."""


class Verification(msgspec.Struct, frozen=True):
    """What was found for one operator."""

    operator: str
    shapes: int
    """Axes tried, at small sizes."""
    checks: int
    """Single findings that were tested."""
    failures: list[str]
    """What is wrong; empty when nothing is."""
    max_error: float
    """Largest error of the eager solution."""


def verify_suite(
    suite: SuiteFile,
    names: Sequence[str] = (),
    *,
    progress: Callable[[str], None] = lambda _name: None,
) -> list[Verification]:
    """Check the operators `names` of a suite, or all, each on its shapes made small."""
    if util.find_spec("torch") is None:
        raise MissingToolError("verify needs torch: pip install 'solscope[bench]'")
    import torch

    chosen = [suite.operator(name) for name in names] if names else suite.by_importance
    threads, verifications = torch.get_num_threads(), []
    torch.set_num_threads(1)  # tensors this small only lose time in threads
    try:
        for listed in chosen:
            progress(listed.operator)
            axes = [scale_down(shape.axes) for shape in listed.shapes]
            verifications.append(verify(listed.operator, axes))
    finally:
        torch.set_num_threads(threads)
    return verifications


@ignore_host_warnings()
def verify(
    name: str,
    shapes: Sequence[Axes],
    *,
    variants: Sequence[Variant] = VARIANTS,
    seed: int = 1,
    device: str = "cpu",
) -> Verification:
    """Check one operator on these axes, which should be small, with these variants of inputs."""
    task = operator(name).task
    if task is None:
        return Verification(name, 0, 0, ["it has no executable half"], 0.0)
    run = eager_solution(name)
    failures: list[str] = []
    checks, worst = 0, 0.0
    distinct = list({msgspec.json.encode(dict(axes)): axes for axes in shapes}.values())
    for axes, draw in draws(distinct, variants, seed, device):
        for problem, error in _findings(task, run, axes, draw):
            checks, worst = checks + 1, max(worst, error)
            if problem:
                failures.append(f"{problem} ({draw.variant}, {_said(axes)})")
    return Verification(name, len(distinct), checks, failures, worst)


def draws(
    shapes: Sequence[Axes],
    variants: Sequence[Variant] = VARIANTS,
    seed: int = 1,
    device: str = "cpu",
) -> Iterator[tuple[Axes, Draw]]:
    """Every variant of the first axes, one of the others in turn."""
    for place, axes in enumerate(shapes):
        for variant in variants if place == 0 else (variants[place % len(variants)],):
            yield axes, Draw(seed=seed + place, device=device, variant=variant)


def eager_solution(name: str) -> Callable[..., Any]:
    """`run` of the plain torch solution that ships."""
    file = resources.files("solscope") / "bench" / "solutions" / "torch_eager" / f"{name}.py"
    return load_run(Path(str(file)))


def load_run(path: Path) -> Callable[..., Any]:
    """`run` of a solution file."""
    return cast("Callable[..., Any]", load_module(path).run)


def outputs_of(task: Task, run: Callable[..., Any], inputs: Inputs) -> Outputs:
    """All outputs by name, mutated inputs too; `inputs` themselves stay as they are."""
    own = {name: _copy(value) for name, value in inputs.items()}
    returned = run(**own)
    fresh = [name for name in task.outputs if name not in task.mutates]
    if isinstance(returned, dict):
        values = dict(returned)
    else:
        several = returned if isinstance(returned, tuple | list) else (returned,)
        values = dict(zip(fresh, several, strict=False))
    return {**values, **{name: own[name] for name in task.mutates}}


def wrong_outputs(task: Task, got: Outputs, wanted: Outputs, inputs: Inputs) -> list[str]:
    """A reason for each output that is not right."""
    reasons = []
    for name, output in task.outputs.items():
        verdict = judge(output, got[name], wanted[name], inputs, got)
        if not verdict.ok:
            reasons.append(f"{name}: {verdict.reason}")
    return reasons


def trivial_answers(task: Task, wanted: Outputs, inputs: Inputs) -> Iterator[tuple[str, Outputs]]:
    """Answers without the work, each wrong in one output only."""
    right = {
        name: wanted[name].to(output.torch_dtype(inputs)) for name, output in task.outputs.items()
    }
    for name in task.outputs:
        if wanted[name].numel() == 0:
            continue
        stale = _stale(name, right[name], task, inputs)
        yield f"zeros in {name}", {**right, name: stale.new_zeros(stale.shape)}
        yield f"{name} copied from an input", {**right, name: _copied(right[name], name, inputs)}
        skipped = _skipped(right[name], stale)
        if skipped is not None:
            yield f"rows of {name} skipped", {**right, name: skipped}
    coarse = _coarse(inputs)
    if coarse is not None:
        less = task.reference(**coarse)
        rounded = {name: less[name].to(right[name].dtype) for name in right}
        yield "inputs rounded to 4 bits", rounded


def _findings(
    task: Task, run: Callable[..., Any], axes: Axes, draw: Draw
) -> Iterator[tuple[str, float]]:
    """(what is wrong or "", the error) of each check on one draw."""
    inputs = task.inputs(axes, draw)
    yield ("" if _same(inputs, task.inputs(axes, draw)) else "equal seeds, other inputs"), 0.0
    other = task.inputs(axes, Draw(draw.seed + 1, draw.device, draw.variant, draw.fp8))
    yield ("inputs do not depend on the seed" if _same(inputs, other) else ""), 0.0
    before = {name: _copy(value) for name, value in inputs.items()}
    wanted = task.reference(**inputs)
    yield ("" if _same(inputs, before) else "the reference changes its inputs"), 0.0
    yield _names(task, wanted), 0.0
    got = outputs_of(task, run, inputs)
    for name, output in task.outputs.items():
        yield _signal(name, output, wanted[name]), 0.0
        yield _solved(name, output, got, wanted, inputs)
    if task.sampled is not None:
        yield _sampled(task, inputs, wanted), 0.0
    for label, answer in trivial_answers(task, wanted, inputs):
        yield ("" if wrong_outputs(task, answer, wanted, inputs) else f"{label} pass"), 0.0


def _names(task: Task, wanted: Outputs) -> str:
    returned, stated = list(wanted), list(task.outputs)
    return "" if sorted(returned) == sorted(stated) else f"outputs {returned} instead of {stated}"


def _signal(name: str, output: Output, wanted: torch.Tensor) -> str:
    if output.tolerance.kind != "close" or not output.tolerance.atol or not wanted.numel():
        return ""
    rms = float(wanted.double().nan_to_num(neginf=0.0).square().mean().sqrt())
    least = _SIGNAL * output.tolerance.atol
    return "" if rms >= least else f"{name} has an RMS of {rms:.2g}, under {least:.2g}"


def _solved(
    name: str, output: Output, got: Outputs, wanted: Outputs, inputs: Inputs
) -> tuple[str, float]:
    if name not in got:
        return f"the eager solution does not return {name}", 0.0
    if got[name].dtype != output.torch_dtype(inputs):
        return f"{name} is {got[name].dtype}, not {output.dtype}", 0.0
    verdict = judge(output, got[name], wanted[name], inputs, got)
    return ("" if verdict.ok else f"eager {name}: {verdict.reason}"), verdict.max_error


def _sampled(task: Task, inputs: Inputs, wanted: Outputs) -> str:
    import torch

    assert task.sampled is not None
    count = task.rows(inputs) if task.rows else next(_tensors(inputs)).shape[0]
    if not count:
        return ""
    rows = torch.tensor(sorted({0, count // 2, count - 1}), device=next(_tensors(inputs)).device)
    sampled = task.sampled(inputs, rows)
    if {*sampled, *task.unsampled} != set(task.outputs):
        return f"sampled gives {list(sampled)}, but {list(task.unsampled)} should be left out"
    for name, chosen in sampled.items():
        whole = wanted[name][rows]
        if chosen.shape != whole.shape:
            return f"sampled {name} has shape {list(chosen.shape)}"
        near = torch.isclose(chosen.double(), whole.double(), rtol=1e-4, atol=1e-5, equal_nan=True)
        if not bool(near.all()):
            return f"sampled {name} is not what the full reference has"
    return ""


def _tensors(inputs: Inputs) -> Iterator[torch.Tensor]:
    import torch

    return (value for value in inputs.values() if isinstance(value, torch.Tensor))


def _copy(value: Any) -> Any:
    return value.clone() if hasattr(value, "clone") else value


def _same(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Bit by bit: NaN in unused cache slots equals itself."""
    import torch

    def equal(first: Any, second: Any) -> bool:
        if not isinstance(first, torch.Tensor):
            return bool(first == second)
        flat = [value.contiguous().view(-1).view(torch.uint8) for value in (first, second)]
        return first.shape == second.shape and first.dtype == second.dtype and torch.equal(*flat)

    return first.keys() == second.keys() and all(equal(first[name], second[name]) for name in first)


def _stale(name: str, right: torch.Tensor, task: Task, inputs: Inputs) -> torch.Tensor:
    """Contents of an output before anything is written."""
    return inputs[name] if name in task.mutates else right.new_zeros(right.shape)


def _copied(right: torch.Tensor, name: str, inputs: Inputs) -> torch.Tensor:
    """An input's values in the shape and dtype of the output: its own, or the most alike."""
    if name in inputs:
        return cast("torch.Tensor", inputs[name])
    alike = sorted(_tensors(inputs), key=lambda value: value.numel() != right.numel())
    flat = alike[0].reshape(-1).float()
    times = -(-right.numel() // max(1, flat.numel()))
    return flat.repeat(times)[: right.numel()].view(right.shape).to(right.dtype)


def _skipped(right: torch.Tensor, stale: torch.Tensor) -> torch.Tensor | None:
    """The first quarter of the rows that change, not written; null when nothing changes."""
    if not right.ndim:
        return None
    differs = (right.double() != stale.double()) & ~(
        right.double().isnan() & stale.double().isnan()
    )
    changed = differs.reshape(len(right), -1).any(-1).nonzero().view(-1)
    if not len(changed):
        return None
    rows = changed[: max(1, len(changed) // 4)]
    answer = right.clone()
    answer[rows] = stale[rows]
    return answer


def _coarse(inputs: Inputs) -> Inputs | None:
    """Inputs with 4 bits of significand, as 8-bit floats have them; null without any float."""
    import torch

    coarse, any_float = dict(inputs), False
    for name, value in inputs.items():
        wide = isinstance(value, torch.Tensor) and value.is_floating_point()
        if wide and value.element_size() > 1:
            significand, exponent = torch.frexp(value.float())
            rounded = torch.ldexp((significand * 16).round() / 16, exponent)
            coarse[name] = torch.where(value.isfinite(), rounded.to(value.dtype), value)
            any_float = True
    return coarse if any_float else None


def _said(axes: Axes) -> str:
    return ", ".join(f"{name}={value}" for name, value in axes.items())
