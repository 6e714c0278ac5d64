"""The page of one profile."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from solscope.attribution import Attributed
from solscope.errors import InputError
from solscope.hardware import Hardware
from solscope.pages.details import ProfileDetails, profile_details
from solscope.pages.severity import Severity, of_profile
from solscope.profile import ProfileWarning
from solscope.views.costs import CallTable, find_calls
from solscope.views.efficiency import EfficiencyTable, efficiency_of_calls
from solscope.views.hotspots import HotspotTable, hotspots_of_calls
from solscope.views.hotspots.todo import ToDo, Unranked, to_do, unranked
from solscope.views.idle import CAUSES
from solscope.views.kernels import KernelTable, kernels
from solscope.views.lanes.base import EventTimeline
from solscope.views.lanes.levels import event_timeline
from solscope.views.operators import OperatorTable, hardware_of, operators_of_calls
from solscope.views.summary import Summary, summarize
from solscope.views.timeline import Timeline, timeline
from solscope.views.tree import TimeNode, icicle, time_tree

if TYPE_CHECKING:
    from solscope.operators.from_config import Model

MOST_KERNELS = 2_000
"""Rows in the kernel table of a page; a note says how many more `solscope kernels` lists."""


class Roofs(msgspec.Struct, frozen=True):
    """What a GPU can do at most, for the roofline."""

    name: str
    title: str
    hbm_tbps: float | None
    l2_tbps: float | None
    l1_tbps: float | None
    """All multiprocessors together; null, like the others, where no source states it."""
    peaks_tflops: dict[str, float]
    """By pipe: `tensor.bf16`, `vector.fp32`, ..."""
    measured: bool


class CostModel(msgspec.Struct, frozen=True):
    """The config that gives costs to kernels without recorded shapes."""

    name: str
    """Of the file."""
    warnings: list[ProfileWarning]
    """What of the recording contradicts it."""


class ProfilePage(msgspec.Struct, frozen=True, tag="profile", tag_field="kind"):
    """One profile."""

    title: str
    summary: Summary
    timeline: Timeline
    tree: TimeNode
    """By phase, role and kernel; by category and kernel for a summary."""
    icicle: TimeNode | None
    """By phase, layer, role and kernel, with idle time by cause; null for a summary."""
    operators: OperatorTable | None
    """Null for a summary, which has no calls."""
    hotspots: HotspotTable | None
    to_do: list[ToDo]
    """What to do first, most worth first."""
    unranked: Unranked | None
    """What is missing from it without the model's config; null where one was given or most is
    known."""
    severity: Severity
    """Of the verdict."""
    model: CostModel | None
    """Null where none was given."""
    roofs: Roofs | None
    kernels: KernelTable
    kernels_left_out: int
    idle_causes: dict[str, str]
    """What each cause of idle time means."""
    efficiency: EfficiencyTable | None
    """By phase; null for a summary, and where the GPU or a whole step is not known."""
    details: ProfileDetails | None
    """Of a report; the dashboard asks for them."""
    events: EventTimeline | None
    """The time line of a report; the dashboard asks for it by range."""


def roofs_of(card: Hardware) -> Roofs:
    """The roofs of one GPU."""

    def tbps(memory: str) -> float | None:
        bandwidth = card.value(f"{memory}.bandwidth")
        return None if bandwidth is None else bandwidth / 1e12

    return Roofs(
        name=card.name,
        title=card.title,
        hbm_tbps=tbps("hbm"),
        l2_tbps=tbps("l2"),
        l1_tbps=tbps("l1"),
        peaks_tflops={pipe: f.value / 1e12 for pipe, f in card.peaks.items() if pipe != "sfu"},
        measured=card.measured,
    )


def profile_page(
    attributed: Attributed,
    hardware: Hardware | None = None,
    model: Model | None = None,
    *,
    most_events: int = 0,
    whole: bool = False,
) -> ProfilePage:
    """Everything about one profile, with at most about `most_events` rows of its time line.

    `whole` adds the details, which take longer than the rest.
    """
    card = hardware or hardware_of(attributed)
    if attributed.profile.is_aggregate or not (most_events or whole):
        parts = _Parts(_costs(attributed, card, model), summarize(attributed), _tables(attributed))
        return _page(attributed, card, model, parts)
    # Half of it on another thread: most of the time Polars and NumPy run without the interpreter.
    # With more threads they wait for each other to get it back.
    with ThreadPoolExecutor(1, thread_name_prefix="solscope-page") as beside:
        costs = beside.submit(_costs, attributed, card, model)
        details = beside.submit(profile_details, attributed) if whole else None
        summary = beside.submit(summarize, attributed)
        events = event_timeline(attributed, most_events) if most_events else None
        tables = _tables(attributed)
        page = _page(attributed, card, model, _Parts(costs.result(), summary.result(), tables))
        return msgspec.structs.replace(
            page, events=events, details=None if details is None else details.result()
        )


def _unranked(work: HotspotTable, doing: list[ToDo], summary: Summary) -> Unranked | None:
    busy = summary.verdict.busy_pct
    return unranked(work, doing, None if busy is None else busy / 100 * work.step_ms)


class _Tables(NamedTuple):
    """What needs neither costs nor a verdict."""

    timeline: Timeline
    tree: TimeNode
    icicle: TimeNode | None
    kernels: KernelTable


def _tables(attributed: Attributed) -> _Tables:
    return _Tables(
        timeline=timeline(attributed),
        tree=time_tree(attributed),
        icicle=None if attributed.profile.is_aggregate else icicle(attributed),
        kernels=kernels(attributed),
    )


class _Costs(NamedTuple):
    """What needs costs; all of it is missing for a summary."""

    hotspots: HotspotTable | None
    operators: OperatorTable | None
    efficiency: EfficiencyTable | None


def _costs(attributed: Attributed, card: Hardware | None, model: Model | None) -> _Costs:
    if attributed.profile.is_aggregate:
        return _Costs(None, None, None)
    calls = find_calls(attributed, model)
    return _Costs(
        hotspots=hotspots_of_calls(attributed, calls, card),
        operators=operators_of_calls(attributed, calls, card),
        efficiency=_efficiency(attributed, calls, card),
    )


class _Parts(NamedTuple):
    """What a page is made of."""

    costs: _Costs
    summary: Summary
    tables: _Tables


def _page(
    attributed: Attributed, card: Hardware | None, model: Model | None, parts: _Parts
) -> ProfilePage:
    """The page without details and time line."""
    (work, operators, efficiency), summary, (steps, tree, layered, table) = parts
    doing = [] if work is None else to_do(work)
    return ProfilePage(
        title=attributed.profile.path,
        summary=summary,
        timeline=steps,
        tree=tree,
        icicle=layered,
        operators=operators,
        hotspots=work,
        to_do=doing,
        unranked=_unranked(work, doing, summary) if work is not None and model is None else None,
        severity=of_profile(summary.verdict),
        model=None if model is None else _cost_model(attributed, model),
        roofs=None if card is None else roofs_of(card),
        kernels=msgspec.structs.replace(table, kernels=table.kernels[:MOST_KERNELS]),
        kernels_left_out=max(0, len(table.kernels) - MOST_KERNELS),
        idle_causes=CAUSES,
        efficiency=efficiency,
        details=None,
        events=None,
    )


def _cost_model(attributed: Attributed, model: Model) -> CostModel:
    from solscope.views.model_check import check_model

    return CostModel(model.name, check_model(attributed, model)[1])


def _efficiency(
    attributed: Attributed, calls: CallTable, card: Hardware | None
) -> EfficiencyTable | None:
    if card is None:
        return None
    try:
        return efficiency_of_calls(attributed, calls, card)
    except InputError:
        return None
