"""The tree of GPU time and the time line of steps."""

from __future__ import annotations

import pytest

import solscope
from solscope import attribute
from solscope.attribution import Attributed
from solscope.views.device_time import device_times
from solscope.views.kernels import kernels
from solscope.views.timeline import timeline
from solscope.views.tree import TimeNode, icicle, time_tree
from tests.making import aggregate, attributed, event


@pytest.fixture(scope="module", params=["demo:vllm-b200", "demo:vllm-mi300x-graph"])
def demo(request: pytest.FixtureRequest) -> Attributed:
    return attribute(solscope.open(request.param))


def walk(node: TimeNode) -> list[TimeNode]:
    return [node, *(below for child in node.children for below in walk(child))]


@pytest.mark.parametrize("layers", [False, True])
def test_every_node_is_the_sum_of_its_children(demo: Attributed, layers: bool) -> None:
    tree = time_tree(demo, layers=layers)
    assert tree.time_ns == kernels(demo).total_ns
    assert tree.calls == kernels(demo).calls
    for node in walk(tree):
        if node.children:
            assert node.time_ns == sum(child.time_ns for child in node.children)
            assert node.calls == sum(child.calls for child in node.children)


def test_layers_stand_in_the_order_of_the_model() -> None:
    demo = attribute(solscope.open("demo:vllm-b200"))
    (phase,) = time_tree(demo, layers=True).children
    names = [child.name for child in phase.children]
    assert names[0] == "prologue"
    assert names[1:-1] == [f"layer {at}" for at in range(36)]
    assert names[-1] == "epilogue"


def test_a_summary_goes_by_category() -> None:
    made = aggregate(
        {"kind": "kernel", "name": "flash_fwd_kernel", "calls": 2, "total_ns": 900},
        {"kind": "kernel", "name": "sm90_xmma_gemm_bf16", "calls": 1, "total_ns": 100},
    )
    tree = time_tree(made)
    assert [(node.name, node.time_ns) for node in tree.children] == [
        ("attention", 900),
        ("gemm", 100),
    ]
    assert timeline(made).steps == []


def test_steps_lie_inside_the_span(demo: Attributed) -> None:
    line = timeline(demo)
    assert line.steps
    for step in line.steps:
        assert 0 <= step.busy_ms <= step.time_ms
        assert step.start_ms + step.time_ms <= line.span_ms * (1 + 1e-9)


def test_a_step_of_unknown_phase_is_a_step() -> None:
    kernels_of_one_step = [event("kernel", "k", 10 * at, 5) for at in range(3)]
    (phase,) = time_tree(attributed(*kernels_of_one_step)).children
    assert phase.name == "(phase not known)"


@pytest.mark.parametrize("name", ["demo:vllm-b200", "demo:vllm-mi300x-graph"])
def test_the_icicle_is_gpu_time_and_idle_time(name: str) -> None:
    attributed = attribute(solscope.open(name))
    tree = icicle(attributed)
    for node in walk(tree):
        if node.children:
            assert node.time_ns == sum(child.time_ns for child in node.children)
    idle = sum(node.time_ns for node in walk(tree) if node.kind == "idle")
    busy = sum(node.time_ns for node in walk(tree) if node.kind == "kernel")
    gaps = [one.gaps for one in device_times(attributed)]
    assert idle == sum(int((one["end_ns"] - one["start_ns"]).sum()) for one in gaps)
    assert busy == int(attributed.activities["dur_ns"].sum())


def test_a_gap_belongs_to_the_phase_of_what_ends_it() -> None:
    tree = icicle(attribute(solscope.open("demo:vllm-b200")))
    (phase,) = [node for node in tree.children if node.name == "prefill"]
    (idle,) = [node for node in phase.children if node.kind == "idle"]
    assert {node.name for node in idle.children} == {"host", "launch"}
