"""Layers that more ranks share: whether they can, and what their communication takes.

Ranks add up the outputs of two products per layer and gather the logits. Where the recording has
no communication, these collectives come on top; where it has, each of its calls keeps its latency,
and the rest of it follows the part of the data that a rank has to move, (N - 1) / N.
"""

from __future__ import annotations

from typing import NamedTuple

from solscope.errors import InputError, UsageError
from solscope.hardware import Hardware
from solscope.whatif.recorded_step import Line, RecordedStep
from solscope.whatif.scenario import Scenario
from solscope.whatif.timing import Range, exactly

REDUCES_PER_LAYER = 2
"""All-reduces of a layer whose products are shared by ranks."""
COLLECTIVE_US = Range(5.0, 10.0, 20.0)
"""Time of a collective besides moving its bytes, where the hardware file has no `reduce.floor`:
one kernel that reads its peers takes less, a ring of many steps more: a factor of 2 either way."""
SUMMED_ROLES = ("o_proj", "down")
"""Roles whose outputs ranks add up: rows x hidden size."""
_TENSOR_PARALLEL = frozenset(("all_reduce", "all_gather", "reduce_scatter"))
"""Collectives of ranks that share layers; others belong to experts or stages."""


class Collective(NamedTuple):
    """Equal collectives of a step that the recording does not have."""

    name: str
    calls: float
    rows: float
    width: float
    passes: float
    """How often a rank sends its part of the data: twice to add up, once to gather."""


def check_ranks(step: RecordedStep, scenario: Scenario) -> None:
    """Refuse ranks that cannot share the layers, or whose collectives have no known size."""
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
        if line.role in SUMMED_ROLES and isinstance(inner, int) and inner * step.ranks % ranks:
            raise UsageError(
                f"--tp {ranks}: {ranks} ranks cannot share the {inner * step.ranks} inputs of the "
                f"{line.role} product evenly"
            )
    _check_recorded(step, ranks)
    if not adds_collectives(step, scenario):
        return
    card = scenario.gpu or step.card
    if card.value("interconnect.bandwidth") is None:
        raise UsageError(f"--tp: the bandwidth of the {card.name}'s links is not known")
    if not step.layers or _summed(step) is None:
        missing = "layers" if not step.layers else "size of the o_proj or down products"
        raise InputError(
            f"{step.profile}: --tp adds all-reduces, and the {missing} that they follow from "
            "are not known"
        )


def _check_recorded(step: RecordedStep, ranks: int) -> None:
    """Refuse fewer ranks, and communication that the number of ranks says nothing about."""
    if ranks < step.ranks:
        raise UsageError(
            f"--tp {ranks}: only more ranks than the {step.ranks} recorded are predicted; for "
            "fewer, the measured step was too often outside of the interval (docs, what-if)"
        )
    if ranks == step.ranks:
        return
    communication = _communication(step)
    others = {n.kind.operator or n.name for n in communication} - _TENSOR_PARALLEL
    if others:
        raise InputError(
            f"{step.profile}: --tp is for ranks that share layers, and this recording also has "
            f"{', '.join(sorted(others))}, whose time with {ranks} ranks is not known"
        )
    if communication and step.ranks == 1:
        raise InputError(
            f"{step.profile}: it has communication, but does not say of how many ranks, so --tp "
            "has nothing to scale from"
        )


def _communication(step: RecordedStep) -> list[Line]:
    return [line for line in step.lines if line.kind.category == "comm"]


def adds_collectives(step: RecordedStep, scenario: Scenario) -> bool:
    """Whether collectives come on top of what was recorded."""
    if scenario.tp is None or scenario.tp <= step.ranks:
        return False
    return not _communication(step)


def added_collectives(step: RecordedStep, scenario: Scenario) -> list[Collective]:
    """Collectives that sharing layers adds to a step."""
    sizes = _summed(step)
    if sizes is None or not adds_collectives(step, scenario):
        return []
    batch = scenario.batch / step.batch if scenario.batch and step.batch else 1.0
    rows, hidden = sizes
    added = [Collective("all-reduces", REDUCES_PER_LAYER * step.layers, rows * batch, hidden, 2.0)]
    for line in step.lines:
        axes = line.kind.axes
        if line.role == "lm_head" and {"m", "n"} <= axes.keys():
            outputs = float(axes["m"]) * batch, float(axes["n"])
            added.append(Collective("gathers of logits", line.calls, *outputs, 1.0))
    return added


def collectives_us(step: RecordedStep, scenario: Scenario) -> Range:
    """Time per step of the collectives that sharing layers adds, from the links' figures."""
    total = exactly(0.0)
    for collective in added_collectives(step, scenario):
        total = total.plus(_each_us(collective, step, scenario) * collective.calls)
    return total


def _each_us(collective: Collective, step: RecordedStep, scenario: Scenario) -> Range:
    card: Hardware = scenario.gpu or step.card
    rate, ranks = card.value("interconnect.bandwidth"), scenario.tp or 1
    if rate is None:
        return exactly(0.0)
    moved = collective.passes * (ranks - 1) / ranks * collective.rows * collective.width * 2
    return latency_us(card).plus(exactly(moved / (rate / 2) * 1e6))


def latency_us(card: Hardware) -> Range:
    """Time of a collective besides moving its bytes."""
    floor = card.value("reduce.floor")
    return COLLECTIVE_US if floor is None else exactly(floor * 1e6)


def communication_share(line: Line, step: RecordedStep, scenario: Scenario) -> Range:
    """Time of a recorded collective in the scenario, of its recorded time; waiting included."""
    ranks = scenario.tp
    if ranks is None or ranks == step.ranks or line.kind.category != "comm":
        return exactly(1.0)
    data = (1 - 1 / ranks) / (1 - 1 / step.ranks)
    latency = min(1.0, latency_us(step.card).middle / max(line.time_us, 1e-9))
    middle = latency + (1 - latency) * data
    return Range(1.0, middle, data)


def more_collectives(step: RecordedStep, scenario: Scenario) -> float:
    """Kernels of communication per step that the scenario has more than the recording."""
    return sum(collective.calls for collective in added_collectives(step, scenario))


def communication_note(step: RecordedStep, scenario: Scenario) -> str:
    """What the prediction counts for communication."""
    recorded = sum(line.calls * line.time_us for line in _communication(step))
    if recorded and scenario.tp != step.ranks:
        return (
            f"the {recorded:,.0f} µs of recorded communication keep their latency; the rest, "
            "waiting included, follows the data that a rank moves"
        )
    added = added_collectives(step, scenario)
    if not added:
        return "no communication added; recorded communication stays as it is"
    card = scenario.gpu or step.card
    low, middle, high = latency_us(card)
    between = "" if low == high else f" ({low:.0f} to {high:.0f})"
    sizes = ", ".join(f"{c.calls:,.0f} {c.name} of {c.rows:,.0f} x {c.width:,.0f}" for c in added)
    return (
        f"{sizes} 16-bit values take {middle:.0f} µs{between} each and the rate of the links: "
        f"{collectives_us(step, scenario).middle:,.0f} µs in all"
    )


def _summed(step: RecordedStep) -> tuple[float, float] | None:
    """Rows and hidden size, from a dense product that ends a half of a layer."""
    for role in SUMMED_ROLES:
        own = [n for n in step.lines if n.role == role and {"m", "n"} <= n.kind.axes.keys()]
        if own:
            axes = max(own, key=_time).kind.axes
            return float(axes["m"]), float(axes["n"])
    return None


def _time(line: Line) -> float:
    return line.calls * line.time_us
