from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import solscope
from solscope import attribute
from solscope.arrays import Texts, texts_of
from solscope.attribution import Attributed
from solscope.events import METRIC_SCHEMA
from solscope.views.device_time import device_times
from solscope.views.kernels import kernels
from solscope.views.lanes import labels
from solscope.views.lanes.base import EventBlock
from solscope.views.lanes.labels import Labels
from solscope.views.lanes.levels import Level, event_timeline, levels_of
from solscope.views.lanes.pack import pack, unpack
from solscope.views.lanes.ranges import next_event, range_sums
from solscope.views.lanes.rows import MAX_DEPTH, _stacked
from tests.making import aggregate, attributed, event, profile


@pytest.fixture(scope="module", params=["demo:vllm-b200", "demo:vllm-mi300x-graph"])
def demo(request: pytest.FixtureRequest) -> Attributed:
    return attribute(solscope.open(request.param))


def rows_of(block: EventBlock) -> dict[int, dict[str, list[int]]]:
    """The columns of a block by lane, starts added up."""
    sizes = [part.rows for part in block.parts]
    columns = unpack(block.packed, sum(sizes))
    ends = np.cumsum(sizes)
    found = {}
    for part, end in zip(block.parts, ends, strict=True):
        own = {name: values[end - part.rows : end] for name, values in columns.items()}
        own["start"] = np.cumsum(own["start"])
        found[part.lane] = {name: values.tolist() for name, values in own.items()}
    return found


def per_lane(level: Level) -> list[tuple[int, int, int]]:
    return [
        (lane, int(level.busy[first:end].sum()), int(level.count[first:end].sum()))
        for lane, (first, end) in level.bounds.items()
    ]


def all_levels(demo: Attributed) -> list[Level]:
    found = levels_of(demo)
    return [found.level(number) for number in range(len(found.widths))]


def test_every_level_holds_the_same_time_and_the_same_events(demo: Attributed) -> None:
    levels = all_levels(demo)
    assert len(levels) > 3
    for level in levels[1:]:
        assert per_lane(level) == per_lane(levels[0])
        short = level.dur < level.width_ns
        assert level.count[~short].max(initial=1) >= 1
    sizes = [level.lane.size for level in levels]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0]


def test_long_events_stay_single_and_blocks_do_not_reach_over_their_width(demo: Attributed) -> None:
    levels = all_levels(demo)
    for level in levels[1:]:
        merged = level.count > 1
        # A block begins within one width; what began there may end up to one width later.
        assert (level.dur[merged] < 2 * level.width_ns).all()


def test_a_block_is_drawn_as_what_takes_most_of_its_time() -> None:
    one = attributed(
        event("kernel", "aaa", 0, 100),
        event("kernel", "bbb", 100, 150),
        event("kernel", "aaa", 250, 100),
        event("kernel", "ccc", 40_000_000, 5_000),
    )
    levels = levels_of(one)
    coarse = levels.level(1)
    gpu = next(at for at, lane in enumerate(levels.laned.lanes) if lane.kind == "gpu")
    first, _ = coarse.bounds[gpu]
    assert levels.laned.labels[int(coarse.label[first])].name == "aaa"
    assert (int(coarse.count[first]), int(coarse.busy[first])) == (3, 350)


def test_on_a_coarse_level_it_is_all_of_its_time_that_counts() -> None:
    """Each of the finer blocks is drawn as something else."""
    one = attributed(
        event("kernel", "aaa", 0, 300),
        event("kernel", "bbb", 300, 290),
        event("kernel", "ccc", 4_096, 300),
        event("kernel", "bbb", 4_396, 290),
        event("kernel", "ddd", 40_000_000, 5_000),
    )
    levels = levels_of(one)
    gpu = next(at for at, lane in enumerate(levels.laned.lanes) if lane.kind == "gpu")
    names = {}
    for number in (1, 2):
        rows = levels.level(number)
        labels = rows.label[slice(*rows.bounds[gpu])].tolist()
        names[number] = [levels.laned.labels[label].name for label in labels]
    assert names == {1: ["aaa", "ccc", "ddd"], 2: ["bbb", "ddd"]}


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_lanes_of_a_report_are_those_of_their_levels(demo: Attributed, share: float) -> None:
    """They are merged lane by lane, the dashboard's all at once."""
    found = levels_of(demo)
    block = found.whole(round(share * found.raw.lane.size))
    columns = rows_of(block)
    assert {part.level for part in block.parts} - {0}
    for part in block.parts:
        level = found.level(part.level)
        first, end = level.bounds[part.lane]
        assert part.rows == end - first == found._rows(part.level, part.lane)
        for name, values in columns[part.lane].items():
            assert values == getattr(level, name)[first:end].tolist()


def test_gpu_lanes_hold_every_activity(demo: Attributed) -> None:
    found = levels_of(demo)
    lanes = [at for at, lane in enumerate(found.laned.lanes) if lane.kind == "gpu"]
    raw = found.raw
    mine = np.isin(raw.lane, lanes)
    assert int(raw.dur[mine].sum()) == int(demo.activities["dur_ns"].sum())
    assert int(mine.sum()) == demo.activities.height


def test_idle_lanes_close_every_gap(demo: Attributed) -> None:
    found = levels_of(demo)
    lanes = [at for at, lane in enumerate(found.laned.lanes) if lane.kind == "idle"]
    raw = found.raw
    idle = int(raw.dur[np.isin(raw.lane, lanes)].sum())
    gaps = [one.gaps for one in device_times(demo)]
    assert idle == sum(int((one["end_ns"] - one["start_ns"]).sum()) for one in gaps)


def test_a_gap_is_cut_where_its_launch_begins() -> None:
    one = attributed(
        event("kernel", "gemm", 0, 100),
        event("runtime", "cudaLaunchKernel", 150, 20, correlation=1),
        event("kernel", "gemm", 200, 10, correlation=1),
    )
    found = levels_of(one)
    lane = next(at for at, lane in enumerate(found.laned.lanes) if lane.kind == "idle")
    rows = rows_of(found.block(0, 0, 1_000))[lane]
    names = [found.laned.labels[label].name for label in rows["label"]]
    assert list(zip(names, rows["start"], rows["dur"], strict=True)) == [
        ("host", 100, 50),
        ("launch", 150, 50),
    ]


def test_overlapping_activities_and_nested_calls_get_lanes_of_their_own() -> None:
    one = attributed(
        event("cpu_op", "outer", 0, 100),
        event("cpu_op", "inner", 10, 50),
        event("runtime", "cudaLaunchKernel", 20, 5, correlation=1),
        event("kernel", "aaa", 100, 100, correlation=1),
        event("kernel", "bbb", 150, 100),
        event("kernel", "ccc", 200, 10),
    )
    lanes = [(lane.kind, lane.depth, lane.events) for lane in levels_of(one).laned.lanes]
    assert [lane for lane in lanes if lane[0] == "gpu"] == [("gpu", 0, 2), ("gpu", 1, 1)]
    assert [lane for lane in lanes if lane[0] == "stack"] == [("stack", 0, 1), ("stack", 1, 1)]


def test_threads_that_launch_nothing_have_no_lane() -> None:
    one = attributed(
        event("runtime", "cudaLaunchKernel", 20, 5, correlation=1),
        event("runtime", "cudaFree", 20, 5, tid=2),
        event("kernel", "aaa", 100, 100, correlation=1),
    )
    assert [lane.title for lane in levels_of(one).laned.lanes if lane.kind == "call"] == [
        "thread 1 launches"
    ]


def test_numbers_survive_packing() -> None:
    columns = {
        "start": np.array([0, 255, 256, 65_536, 2**40], dtype=np.int64),
        "label": np.array([1, 2, 3, 4, 5], dtype=np.int64),
        "none": np.zeros(5, dtype=np.int64),
    }
    packed = pack(columns)
    assert packed.columns == [("start", 8), ("label", 1), ("none", 1)]
    again = unpack(packed, 5)
    assert {name: values.tolist() for name, values in again.items()} == {
        name: values.tolist() for name, values in columns.items()
    }


def test_a_range_holds_what_is_under_way_in_it() -> None:
    one = attributed(*(event("kernel", "k", 100 * at, 60) for at in range(10)))
    found = levels_of(one)
    lane = next(at for at, lane in enumerate(found.laned.lanes) if lane.kind == "gpu")
    assert rows_of(found.block(0, 250, 500))[lane]["start"] == [200, 300, 400]
    assert rows_of(found.block(0, 260, 300)).get(lane) is None
    assert rows_of(found.block(99, 0, 1_000))[lane]["start"][0] == 0  # No such level: the coarsest.


def test_few_rows_are_spent_on_the_gpu_first() -> None:
    demo = attribute(solscope.open("demo:vllm-b200"))
    whole = event_timeline(demo, most=1_000_000)
    assert whole.complete
    assert sum(part.rows for part in whole.block.parts) == whole.events
    few = event_timeline(demo, most=whole.events // 2)
    assert not few.complete
    assert sum(part.rows for part in few.block.parts) <= whole.events // 2
    level = {part.lane: part.level for part in few.block.parts}
    kinds = {few.lanes[lane].kind: at for lane, at in level.items()}
    assert kinds["gpu"] == 0


def test_sums_of_the_whole_range_are_those_of_the_kernels(demo: Attributed) -> None:
    found = levels_of(demo)
    sums = range_sums(found, 0, found.laned.span_ns)
    by_name: dict[str, list[int]] = {}
    for row in sums.gpu:
        label = found.laned.labels[row.label]
        entry = by_name.setdefault(label.full or label.name, [0, 0, 0])
        by_name[label.full or label.name] = [
            entry[0] + row.calls,
            entry[1] + row.total_ns,
            max(entry[2], row.max_ns),
        ]
    expected = {k.name: [k.calls, k.total_ns, k.max_ns] for k in kernels(demo).kernels}
    assert by_name == expected


def test_sums_of_a_range_count_the_part_inside() -> None:
    one = attributed(event("kernel", "aaa", 0, 100), event("kernel", "bbb", 200, 100))
    found = levels_of(one)
    sums = range_sums(found, 50, 250)
    names = [found.laned.labels[row.label].name for row in sums.gpu]
    assert [(name, row.calls, row.total_ns) for name, row in zip(names, sums.gpu, strict=True)] == [
        ("aaa", 1, 50),
        ("bbb", 1, 50),
    ]
    assert [row.total_ns for row in sums.idle] == [100]
    assert range_sums(found, 120, 150).gpu == []


def test_the_next_event_with_a_label() -> None:
    one = attributed(*(event("kernel", "ab"[at % 2], 100 * at, 60) for at in range(6)))
    found = levels_of(one)
    wanted = [at for at, label in enumerate(found.laned.labels) if label.name == "b"]
    after = next_event(found, wanted, 100)
    assert after is not None
    assert after.start_ns == 300
    before = next_event(found, wanted, 300, backwards=True)
    assert before is not None
    assert before.start_ns == 100
    assert next_event(found, wanted, 500) is None


def test_sensors_are_on_the_clock_of_the_events() -> None:
    samples = [(1_000 + at, "power", 0, float(at % 3)) for at in range(-50, 5_000)]
    flat = [(1_000, "fan", 0, 0.0), (1_100, "fan", 0, 0.0)]
    metrics = pl.DataFrame(samples + flat, schema=dict(METRIC_SCHEMA), orient="row")
    made = profile(event("kernel", "k", 500, 4_000), unix_offset_ns=500)
    line = event_timeline(attribute(replace(made, metrics=metrics)))
    assert line.sensors_left_out == 1
    (power,) = line.sensors
    assert (power.low, power.high) == (0.0, 2.0)
    assert power.times_ns[0] == 0
    assert len(power.times_ns) <= 2_000


def test_complete_steps_are_shown_first_where_stray_work_surrounds_them() -> None:
    line = event_timeline(attribute(solscope.open("demo:vllm-b200")))
    assert line.focus == (0, line.span_ns)


def test_a_summary_has_no_lanes() -> None:
    one = aggregate({"kind": "kernel", "name": "k", "calls": 1, "total_ns": 5, "mean_ns": 5.0})
    line = event_timeline(one)
    assert (line.lanes, line.events, line.complete) == ([], 0, True)
    assert levels_of(one).widths == []
    assert range_sums(levels_of(one), 0, 10).gpu == []


def test_kernels_that_overlap_beyond_the_last_lane_share_it() -> None:
    many = MAX_DEPTH + 72
    one = attributed(*(event("kernel", "gemm", at, 10_000 - at) for at in range(many)))
    found = levels_of(one)
    lanes = [lane for lane in found.laned.lanes if lane.kind == "gpu"]
    assert len(lanes) == MAX_DEPTH
    assert lanes[-1].events == many - MAX_DEPTH + 1
    assert found.laned.too_deep == 0
    (row,) = range_sums(found, 0, 10_000).gpu
    assert (row.calls, row.total_ns) == (many, int(one.activities["dur_ns"].sum()))


def test_an_activity_goes_to_the_first_lane_that_is_free() -> None:
    spans = [(0, 100), (10, 20), (15, 60), (20, 30), (30, 5), (60, 5), (100, 5)]
    one = attributed(*(event("kernel", f"k{at}", s, d) for at, (s, d) in enumerate(spans)))
    found = levels_of(one)
    gpu = [at for at, lane in enumerate(found.laned.lanes) if lane.kind == "gpu"]
    rows = rows_of(found.block(0, 0, 1_000))
    assert [rows[lane]["start"] for lane in gpu] == [[0, 100], [10, 30, 60], [15], [20]]


def test_a_block_of_a_profile_without_events_is_empty() -> None:
    one = aggregate({"kind": "kernel", "name": "k", "calls": 1, "total_ns": 5, "mean_ns": 5.0})
    block = levels_of(one).block(3, 0, 10)
    assert (block.from_ns, block.to_ns, block.parts) == (0, 10, [])


@pytest.mark.parametrize(("asked", "given"), [(-1, 0), (99, -1)])
def test_a_block_says_which_level_it_has(demo: Attributed, asked: int, given: int) -> None:
    levels = levels_of(demo)
    block = levels.block(asked, 0, levels.laned.span_ns)
    assert {part.level for part in block.parts} == {range(len(levels.widths))[given]}


def test_lanes_of_overlapping_events_are_those_of_one_event_after_the_other() -> None:
    random = np.random.default_rng(0)
    for _ in range(50):
        start = np.sort(random.integers(0, 300, 60))
        end = start + random.integers(0, 12, 60)
        free_at = [0] * 60
        expected = []
        for begin, until in zip(start.tolist(), end.tolist(), strict=True):
            lane = next(lane for lane, free in enumerate(free_at) if free <= begin)
            free_at[lane] = until
            expected.append(lane)
        assert _stacked(start, end).tolist() == expected


@pytest.mark.parametrize("few", [1, 1 << 16])
def test_labels_are_numbered_by_first_use(monkeypatch: pytest.MonkeyPatch, few: int) -> None:
    """Also where the product of the numbers of names, categories, roles, ... is too large."""
    monkeypatch.setattr("solscope.views.lanes.labels.FEW", few)
    texts = {"name": ["b", "a", None, "b", "b"], "category": ["x", "x", "x", None, "x"]}
    labels = Labels()
    number = labels.number({name: texts_of(pl.Series(values)) for name, values in texts.items()})
    assert [(one.name, one.category) for one in labels.all] == [
        ("b", "x"),
        ("a", "x"),
        ("(no name)", "x"),
        ("b", None),
    ]
    assert number.tolist() == [0, 1, 2, 3, 0]
    again = {"name": texts_of(pl.Series(["c", "b", "c"]))}
    assert labels.number(again).tolist() == [4, 3, 4]


def test_labels_are_numbered_by_first_use_however_many_rows_are_looked_at_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = Texts(np.array([2, 0, 2, 1, 0, 3, 1]), ["a", "b", "c", "d"])
    for rows in (1, 3, 100):
        monkeypatch.setattr(labels, "AT_ONCE", rows)
        made = labels.Labels()
        assert made.number({"name": names}).tolist() == [0, 1, 0, 2, 1, 3, 2]
        assert [label.name for label in made.all] == ["c", "a", "b", "d"]
