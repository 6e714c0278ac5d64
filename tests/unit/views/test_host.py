from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from solscope import cli
from solscope.attribution.opening import open_attributed
from solscope.errors import InputError
from solscope.views.host import HostTable, host_table
from solscope.views.host_stacks import OUTSIDE, folded_stacks
from tests.making import attributed, event
from tests.recordings import recording

COMMAND_LINES = ["host demo:h200-normal"]
"""What `test_json_output.py` runs."""
US = 1000


def launch(at: int, start: int, dur: int, number: int, call: int = 5) -> list[dict[str, Any]]:
    """A launch call at `at`, its kernel from `start`, in µs."""
    return [
        event("runtime", "cudaLaunchKernel", at * US, call * US, correlation=number),
        event("kernel", "nvjet_tst_128x8", start * US, dur * US, correlation=number),
    ]


def waiting() -> HostTable:
    """The GPU works 10-20 and 60-70 µs; the second launch comes at 50, after 20 µs in `plan`."""
    return host_table(
        attributed(
            event("annotation", "engine", 0, 100 * US),
            event("annotation", "plan", 25 * US, 20 * US),
            event("cpu_op", "aten::mm", 45 * US, 15 * US),
            event("cpu_op", "aten::inner", 46 * US, 10 * US),
            event("python", "loop.py(3): run <method at 0x7f00>", 0, 100 * US),
            *launch(5, 10, 10, 1),
            *launch(50, 60, 10, 2),
        )
    )


def rows(found: list[Any]) -> dict[str, float]:
    return {row.name: round(1000 * row.wait_ms, 3) for row in found}


def test_waiting_ends_with_the_launch_call() -> None:
    found = waiting()
    assert found.waiting_ms == pytest.approx(0.030)
    assert found.waiting_pct == pytest.approx(50.0)


def test_waiting_belongs_to_sections_operators_and_frames() -> None:
    found = waiting()
    assert rows(found.sections) == {"plan": 20.0, "engine": 10.0}
    assert rows(found.operators) == {"aten::mm": 5.0, OUTSIDE: 25.0}
    assert rows(found.frames) == {"loop.py(3): run <method>": 30.0}
    for parts in (found.sections, found.operators, found.frames):
        assert sum(part.wait_ms for part in parts) == pytest.approx(found.waiting_ms)


def test_launches_and_the_queue() -> None:
    found = waiting()
    assert found.launches == 2
    assert found.launch_us == pytest.approx(5.0)
    assert found.launches_per_s == pytest.approx(2 / 50e-6)
    # Of 60 µs the queue holds a kernel from 10 to 20 and from 50 to 70.
    assert found.queue_mean == pytest.approx(30 / 60)
    assert found.queue_empty_pct == pytest.approx(50.0)


def test_stacks_nest_what_the_host_was_in() -> None:
    found = waiting()
    frame = "loop.py(3): run <method>"
    assert {tuple(row.stack): round(1000 * row.wait_ms) for row in found.stacks} == {
        ("engine", frame): 5,
        ("engine", frame, "plan"): 20,
        ("engine", frame, "aten::mm"): 1,
        ("engine", frame, "aten::mm", "aten::inner"): 4,
    }
    lines = folded_stacks(found.stacks).splitlines()
    assert lines[0] == f"engine;{frame};plan 20000"
    assert len(lines) == 4


def test_stacks_outside_everything_are_named_and_frames_cannot_split_a_line() -> None:
    found = host_table(
        attributed(
            event("annotation", "a;b\nc", 30 * US, 10 * US),
            *launch(5, 10, 10, 1),
            *launch(50, 60, 10, 2),
        )
    )
    assert folded_stacks(found.stacks) == f"{OUTSIDE} 20000\na,b\\x0ac 10000\n"


def test_the_queue_over_time_has_the_mean_and_the_peak() -> None:
    """Two kernels are queued in the first tenth, one runs in the last."""
    found = host_table(
        attributed(*launch(0, 0, 10, 1), *launch(5, 10, 10, 2), *launch(90, 90, 10, 3))
    )
    tenths = [found.queue[at : at + 6] for at in range(0, 60, 6)]
    means = [sum(part.mean for part in tenth) / 6 for tenth in tenths]
    assert means == pytest.approx([1.5, 1, 0, 0, 0, 0, 0, 0, 0, 1])
    assert [max(part.most for part in tenth) for tenth in tenths] == [2, 1, 0, 0, 0, 0, 0, 0, 0, 1]
    assert {part.empty_pct for part in found.queue[12:54]} == {100.0}
    assert found.queue_mean == pytest.approx(0.35)
    assert found.queue_empty_pct == pytest.approx(70.0)


def test_the_critical_path_of_a_host_bound_step_is_the_host() -> None:
    found = waiting()
    assert found.path_host_ms == pytest.approx(0.040)
    assert found.path_launch_ms == pytest.approx(0.010)
    assert found.path_gpu_ms == pytest.approx(0.010)
    total = found.path_host_ms + found.path_launch_ms + found.path_gpu_ms
    assert total == pytest.approx(found.span_ms)


def test_the_critical_path_of_a_full_queue_is_the_gpu() -> None:
    found = host_table(
        attributed(*launch(0, 10, 50, 1), *launch(6, 60, 50, 2), *launch(12, 110, 50, 3))
    )
    assert found.path_gpu_ms == pytest.approx(0.150)
    assert found.path_host_ms == 0.0
    assert found.waiting_ms == 0
    assert found.faster_ms == 0


def test_shorter_launches_shorten_the_path_of_the_host() -> None:
    events = [e for n in range(4) for e in launch(20 * n, 20 * n + 12, 2, n + 1, call=10)]
    found = host_table(attributed(*events), 3.0)
    # Of four calls of 10 µs the last ends after the path has left the host for its kernel.
    assert found.faster_ms == pytest.approx(0.007 * 2, rel=0.2)


def test_a_synchronization_ends_the_path_of_the_host() -> None:
    found = host_table(
        attributed(
            *launch(0, 10, 50, 1),
            event("runtime", "cudaStreamSynchronize", 8 * US, 53 * US),
            *launch(80, 90, 10, 2),
        )
    )
    assert found.path_host_ms == pytest.approx(0.019)
    assert found.path_gpu_ms == pytest.approx(0.060)


def test_without_launches_the_host_is_not_known() -> None:
    with pytest.raises(InputError, match="no launch calls"):
        host_table(attributed(event("kernel", "k", 0, 10)))


def test_garbage_collection_shows_in_the_section_that_it_interrupts() -> None:
    found = host_table(open_attributed(str(recording("h200/runs/gc_pressure.trace.json.gz"))))
    assert found.sections[0].name == "schedule"
    assert (found.sections[0].pct or 0) > 80


def test_a_replayed_loop_is_on_the_path_with_its_gpu() -> None:
    name = "h200/graph/{}.trace.json.gz"
    graph, eager = (
        host_table(open_attributed(str(recording(name.format(which)))))
        for which in ("normal", "no_cuda_graph")
    )
    assert graph.path_gpu_ms > graph.path_host_ms
    assert eager.path_host_ms > eager.path_gpu_ms


@pytest.mark.parametrize(
    "name", ["h200/graph/no_cuda_graph.trace.json.gz", "h200/models/llama8l-stack.trace.json.gz"]
)
def test_stacks_and_queue_of_recordings_add_up(name: str) -> None:
    found = host_table(open_attributed(str(recording(name))))
    assert sum(round(1e6 * row.wait_ms) for row in found.stacks) == round(1e6 * found.waiting_ms)
    spans = [b.start_ms - a.start_ms for a, b in pairwise(found.queue)]
    spans.append(found.span_ms - found.queue[-1].start_ms)
    held = sum(part.mean * ms for part, ms in zip(found.queue, spans, strict=True))
    assert held == pytest.approx((found.queue_mean or 0) * found.span_ms)


def test_folded_stacks_are_printed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["host", "--folded", "demo:h200-slow"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == 492_331_009
    assert cli.run(["host", "--folded", "--json", "demo:h200-slow"]) == 2
