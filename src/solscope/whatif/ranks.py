"""Layers that more ranks share: whether they can, and the all-reduces that it adds."""

from __future__ import annotations

from solscope.errors import InputError, UsageError
from solscope.hardware import Hardware
from solscope.whatif.recorded_step import Line, RecordedStep
from solscope.whatif.scenario import Scenario

REDUCES_PER_LAYER = 2
"""All-reduces of a layer whose products are shared by ranks."""
REDUCE_US = 10.0
"""Time of an all-reduce besides moving its bytes."""
_LAST_PRODUCTS = ("o_proj", "down")
"""Roles whose outputs ranks add up: rows x hidden size."""


def check_ranks(step: RecordedStep, scenario: Scenario) -> None:
    """Refuse ranks that cannot share the layers, or whose all-reduces have no known size."""
    ranks = scenario.tp
    if ranks is None:
        return
    for line in step.lines:
        for axis, what in (("q_heads", "heads of attention"), ("heads", "heads")):
            count = line.kind.axes.get(axis)
            if isinstance(count, int) and count * step.ranks % ranks:
                raise UsageError(
                    f"--tp {ranks}: {ranks} ranks cannot share {count * step.ranks} {what} evenly"
                )
        inner = line.kind.axes.get("k")
        if line.role in _LAST_PRODUCTS and isinstance(inner, int) and inner * step.ranks % ranks:
            raise UsageError(
                f"--tp {ranks}: {ranks} ranks cannot share the {inner * step.ranks} inputs of the "
                f"{line.role} product evenly"
            )
    if not adds_reduces(step, scenario):
        return
    card = scenario.gpu or step.card
    if card.value("interconnect.bandwidth") is None:
        raise UsageError(f"--tp: the bandwidth of the {card.name}'s links is not known")
    if not step.layers or _reduced(step) is None:
        missing = "layers" if not step.layers else "size of the o_proj or down products"
        raise InputError(
            f"{step.profile}: --tp adds all-reduces, and the {missing} that they follow from "
            "are not known"
        )


def adds_reduces(step: RecordedStep, scenario: Scenario) -> bool:
    """Whether all-reduces come on top; recorded communication stays as it is."""
    if scenario.tp is None or scenario.tp <= step.ranks:
        return False
    return not any(line.kind.category == "comm" for line in step.lines)


def reduce_us(step: RecordedStep, scenario: Scenario) -> float:
    """All-reduces that sharing layers adds, from the figures of the interconnect (µs per step)."""
    sizes = _reduced(step)
    card: Hardware = scenario.gpu or step.card
    rate = card.value("interconnect.bandwidth")
    if scenario.tp is None or sizes is None or rate is None or not adds_reduces(step, scenario):
        return 0.0
    rows, hidden = sizes
    if scenario.batch and step.batch:
        rows *= scenario.batch / step.batch
    moved = 2 * (scenario.tp - 1) / scenario.tp * rows * hidden * 2
    return REDUCES_PER_LAYER * step.layers * (moved / (rate / 2) * 1e6 + REDUCE_US)


def reduces_note(step: RecordedStep, scenario: Scenario) -> str:
    """What the prediction counts for all-reduces."""
    sizes = _reduced(step)
    if sizes is None or not adds_reduces(step, scenario):
        return "no all-reduce added; recorded communication stays as it is"
    return (
        f"{REDUCES_PER_LAYER * step.layers:,.0f} all-reduces of {sizes[0]:,.0f} x {sizes[1]:,.0f} "
        f"16-bit values as recorded take {REDUCE_US:.0f} µs each and the rate of the links: "
        f"{reduce_us(step, scenario):,.0f} µs in all"
    )


def _reduced(step: RecordedStep) -> tuple[float, float] | None:
    """Rows and hidden size, from a dense product that ends a half of a layer."""
    for role in _LAST_PRODUCTS:
        own = [n for n in step.lines if n.role == role and {"m", "n"} <= n.kind.axes.keys()]
        if own:
            axes = max(own, key=_time).kind.axes
            return float(axes["m"]), float(axes["n"])
    return None


def _time(line: Line) -> float:
    return line.calls * line.time_us
