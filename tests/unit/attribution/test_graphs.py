from __future__ import annotations

from solscope.attribution.borrow import with_replays
from solscope.attribution.graphs import replayed
from solscope.views.device_time import device_times
from solscope.views.execution import execution
from tests.making import attributed, event


def test_launch_calls_and_node_ids_say_what_was_replayed() -> None:
    found = attributed(
        event("runtime", "cudaGraphLaunch", 0, 5, correlation=1),
        event("runtime", "cudaLaunchKernel", 6, 5, correlation=2),
        event("kernel", "launched_by_graph", 10, 10, correlation=1),
        event("kernel", "node", 20, 10, graph_node=4),
        event("kernel", "no_node", 30, 10, correlation=2, graph_node=0),
    )
    events, rows = found.profile.events, found.activities
    expected = {"launched_by_graph": True, "node": True, "no_node": False}
    assert (
        dict(zip(rows["name"].to_list(), replayed(events, rows).to_list(), strict=True)) == expected
    )
    borrowed = with_replays(events, rows, found.steps)["replayed"]
    assert borrowed.to_list() == replayed(events, rows).to_list()
    graphs = execution(found, device_times(found)).graphs
    assert graphs is not None
    assert graphs.time_pct is not None
    assert round(graphs.time_pct, 3) == round(200 / 3, 3)
