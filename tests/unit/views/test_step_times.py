"""The page about numbers says how long a step is by each command; this checks that it is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import solscope
from solscope import attribute
from solscope.attribution import Attributed
from solscope.compare.profiles import compare_profiles
from solscope.views.device_time import device_times
from solscope.views.efficiency import efficiency
from solscope.views.hotspots.window import step_window
from solscope.views.layers import layers
from solscope.views.step_rows import step_rows
from solscope.views.steps import step_summary
from solscope.views.typical_step import typical_step

PAGE = Path(__file__).parents[3] / "docs" / "explain" / "numbers.md"


@pytest.fixture(scope="module")
def demo() -> Attributed:
    return attribute(solscope.open("demo:h200-normal"))


@pytest.fixture(scope="module")
def stated() -> dict[str, str]:
    section = PAGE.read_text(encoding="utf-8").partition("## How long is a step?")[2]
    rows = re.findall(r"^\| (`.*?) \| ([\d.]+) \|", section.partition("## Idle")[0], re.MULTILINE)
    return dict(rows)


def test_the_page_states_what_each_command_prints(demo: Attributed, stated: dict[str, str]) -> None:
    decode = step_summary(demo).phases[0]
    usual = typical_step(demo, device_times(demo))
    slowest = step_rows(demo).steps[0]
    assert usual is not None
    assert slowest.typical_ms is not None
    assert decode.tpot_ms is not None
    compared = compare_profiles([demo, demo], ["a", "b"]).phases[0].steps[0]
    assert compared is not None
    table = layers([demo], ["demo"], phase="decode")
    assert {
        "`show`, mean and TPOT": f"{decode.tpot_ms:.3f}",
        "`show`, p50": f"{decode.p50_ms:.3f}",
        "`show`, first sentence": f"{usual.wall_ns / 1e6:.1f}",
        "`gate`, `compare`": f"{compared.time_ms:.3f}",
        "`show --slowest`": f"{slowest.typical_ms:.3f}",
        "`efficiency`, `whatif`": f"{efficiency(demo).rows[0].time_ms:.3f}",
        "`hotspots`": f"{step_window(demo).step_ns / 1e6:.3f}",
        "`layers`, end to end": f"{table.end_to_end_us[0] / 1e3:.3f}",
    }.items() <= stated.items()
