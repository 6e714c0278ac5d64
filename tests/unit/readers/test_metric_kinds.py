from __future__ import annotations

import re
from pathlib import Path

import pytest

from solscope.readers.metric_kinds import METRICS, MetricKind, metric_kind


def test_known_metrics() -> None:
    assert metric_kind("oncpu_ns") == MetricKind("ns", counter=True)
    assert metric_kind("gpu_mem_used") == MetricKind("bytes", counter=False)


@pytest.mark.parametrize("name", ["disk_read_bytes", "fsync_calls", "wait_ns", "ctx_total"])
def test_unknown_metrics_that_end_like_counters_are_counters(name: str) -> None:
    assert name not in METRICS
    assert metric_kind(name) == MetricKind("", counter=True)


def test_other_unknown_metrics_are_gauges() -> None:
    assert metric_kind("fan_speed") == MetricKind("", counter=False)


def test_the_rule_by_name_agrees_with_the_table() -> None:
    by_name = {name for name in METRICS if name.endswith(("_ns", "_bytes", "_calls"))}
    assert by_name <= {name for name, kind in METRICS.items() if kind.counter}


def test_every_metric_is_documented_with_its_unit_and_kind() -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (\w+) \|", page.read_text("utf-8"), re.MULTILINE)
    kinds = {name: (unit, kind == "counter") for name, unit, kind in rows}
    assert kinds == {name: (kind.unit, kind.counter) for name, kind in METRICS.items()}
