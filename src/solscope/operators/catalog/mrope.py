"""Rotary embedding with three position axes (time, height, width), in place.

Each of the R/2 frequencies takes its angle from one of the three axes.

    vector   3 T (Hq + Hk) R               two products and a sum per value
    bytes    q and k in and out, one cosine and one sine (fp32) per frequency and token

Published: the tables of all three axes are read, 1.10 times the bytes needed.

Solutions: run(q [T, Hq D], k [T, Hk D], cos [3, T, R/2] fp32, sin, mrope_section, head_dim), in
place. The first mrope_section[0] frequencies take the time axis, the next the height, the last the
width: 16, 24, 24 of 64. Pairs are (i, i + R/2); values behind R are compared bit by bit.
"""

# Also: kernels in attribution/rules.toml.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from solscope.operators.base import Operator, cost_model, in_suite
from solscope.operators.cost import Axes, Cost, Published
from solscope.operators.suite_axes import PAGED_HEADS
from solscope.operators.task import Draw, Inputs, Judgement, Output, Outputs, Task
from solscope.operators.tasks.draws import activations, torch_dtype
from solscope.operators.tasks.judge import both, exactly
from solscope.operators.tasks.rotation import rotated, rotation_cost, rotation_judgement

if TYPE_CHECKING:
    import torch


@cost_model("tokens q_heads kv_heads head_dim rotary_dim", optional="dtype")
def cost(axes: Axes) -> Cost:
    """Per frequency one axis is needed, so a third of the tables."""
    return rotation_cost(axes, index_bytes=4 * axes["tokens"] * axes["rotary_dim"])


@in_suite(
    "atrex_023",
    f"tokens=token_count {PAGED_HEADS} rotary_dim",
)
def published(axes: Axes) -> Published:
    """As published: three axes of two tables."""
    tokens, rotary = axes["tokens"], axes["rotary_dim"]
    heads = axes["q_heads"] + axes["kv_heads"]
    moved = 2 * tokens * heads * axes["head_dim"]
    return Published(
        flops={"bf16": 3 * tokens * heads * rotary},
        read_bytes=moved + 24 * tokens * (rotary // 2),
        write_bytes=moved,
    )


def usual_sections(half: int) -> list[int]:
    """Frequencies of time, height and width in Qwen2-VL: 16, 24, 24 of 64."""
    first = half // 4
    middle = (half - first) // 2
    return [first, middle, half - first - middle]


def _other_sections(generator: torch.Generator, half: int) -> list[int]:
    """Both borders among fast frequencies, where another axis is another angle."""
    first, middle = (1 + count for count in _below(generator, max(1, half // 8), max(1, half // 8)))
    return [first, middle, half - first - middle]


def _below(generator: torch.Generator, *limits: int) -> list[int]:
    """Random numbers below these limits."""
    import torch

    return [
        int(torch.randint(limit, (), generator=generator, device=generator.device))
        for limit in limits
    ]


def inputs(axes: Axes, draw: Draw) -> Inputs:
    """Runs of text, where the three positions are equal, between images, where they are not.

    `varied` has other sections, and begins within an image, as a chunk of a prompt may.
    """
    import torch

    generator, dtype = draw.generator(), torch_dtype(axes.get("dtype", "bf16"))
    tokens, dim, rotary = axes["tokens"], axes["head_dim"], axes["rotary_dim"]
    device, half = generator.device, axes["rotary_dim"] // 2
    start = int(torch.randint(1, 4096, (1,), generator=generator, device=device))
    width = 24
    index = torch.arange(tokens, device=device)
    sections = usual_sections(half)
    if draw.variant == "varied":
        sections = _other_sections(generator, half)
        row, column = _below(generator, 11, 12)
        index += width * (1 + row) + 12 + column  # where time, row and column are three numbers
    run = index // 512
    inside = index % 512
    image = run % 2 == 0
    first = start + run * 512
    positions = torch.stack(
        [
            torch.where(image, first, start + index),
            torch.where(image, first + inside // width, start + index),
            torch.where(image, first + inside % width, start + index),
        ]
    )
    power = torch.arange(0, rotary, 2, device=device, dtype=torch.float64) / rotary
    angle = positions[..., None].double() * 1e6**-power

    def heads(count: int) -> torch.Tensor:
        rows = activations(generator, tokens * count, dim, dtype, draw.variant, edge_rows=False)
        return rows.view(tokens, count * dim)

    return {
        "q": heads(axes["q_heads"]),
        "k": heads(axes["kv_heads"]),
        "cos": angle.cos().float(),
        "sin": angle.sin().float(),
        "mrope_section": sections,
        "head_dim": dim,
    }


def _table(values: torch.Tensor, sections: Sequence[int]) -> torch.Tensor:
    """The row of each frequency's own axis, [T, 1, R/2] in fp64."""
    import torch

    by_axis = torch.split(values.double(), list(sections), -1)
    return torch.cat([section[axis] for axis, section in enumerate(by_axis)], -1)[:, None]


def reference(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    mrope_section: Sequence[int],
    head_dim: int,
) -> Outputs:
    """In fp64, the result in fp32."""
    import torch

    cosine, sine = _table(cos, mrope_section), _table(sin, mrope_section)
    half = cosine.shape[-1]

    def turned(flat: torch.Tensor) -> torch.Tensor:
        heads = flat.view(flat.shape[0], -1, head_dim).double()
        x, y, rest = torch.split(heads, [half, half, head_dim - 2 * half], -1)
        parts = [x * cosine - y * sine, y * cosine + x * sine, rest]
        return torch.cat(parts, -1).float().flatten(-2)

    return {"q": turned(q), "k": turned(k)}


def sampled(inputs: Inputs, rows: torch.Tensor) -> Outputs:
    """The tokens `rows`."""
    picked = {name: inputs[name][rows] for name in ("q", "k")}
    tables = {name: inputs[name][:, rows] for name in ("cos", "sin")}
    return reference(**{**inputs, **picked, **tables})


def compare(
    got: torch.Tensor, wanted: torch.Tensor, inputs: Mapping[str, Any], _outputs: Mapping[str, Any]
) -> Judgement:
    """Rotated values by head, those behind them bit by bit."""
    rotary, dtype = 2 * inputs["cos"].shape[-1], str(got.dtype).removeprefix("torch.")
    sides = [side.view(side.shape[0], -1, inputs["head_dim"]) for side in (got, wanted)]
    heads = rotation_judgement(dtype, *(side[..., :rotary] for side in sides))
    return both(heads, exactly(*(side[..., rotary:] for side in sides)))


OUTPUTS = {
    "q": Output("q", rotated("bfloat16"), compare),
    "k": Output("k", rotated("bfloat16"), compare),
}
TASK = Task(inputs, reference, OUTPUTS, sampled=sampled, mutates=("q", "k"), vary=("tokens",))

TITLE = "Rotary embedding with three position axes"
OPERATOR = Operator("mrope", TITLE, "rope", cost, published, TASK)
