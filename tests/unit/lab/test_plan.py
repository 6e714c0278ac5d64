from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from solscope.diagnose.causes import NONE, OWN_CAUSES, UNKNOWN
from solscope.errors import UsageError
from solscope.lab.faults import faults
from solscope.lab.faults.catalog import FAULTS
from solscope.lab.plan import plan

IDS = {*(cause.id for cause in OWN_CAUSES), NONE, UNKNOWN}


def test_there_are_enough_faults_and_each_has_a_cause() -> None:
    real = [fault for fault in faults() if fault.family != "none"]
    assert len(real) >= 18
    assert all(set(fault.expected) <= IDS for fault in faults())
    assert len({fault.name for fault in faults()}) == len(FAULTS)


def test_every_fault_is_documented_with_its_cause_and_half() -> None:
    text = (Path(__file__).parents[3] / "docs" / "explain" / "lab.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| .* \| `(\w+)` \| (\w+) \|$", text, re.MULTILINE)
    halves = {fault.name: fault.half for fault in faults()} | {"none": "both"}
    assert {name: (cause, half) for name, cause, half in rows} == {
        fault.name: (fault.expected[0], halves[fault.name]) for fault in faults()
    }


def test_doses_rise_and_stay_in_range() -> None:
    for fault in faults():
        assert sorted(fault.doses) == list(fault.doses)
        assert fault.doses[-1] <= fault.highest


def test_the_halves_share_no_fault_and_are_balanced() -> None:
    halves = {half: {f.name for f in faults() if f.half == half} for half in ("tune", "test")}
    assert not halves["tune"] & halves["test"]
    families = Counter((f.half, f.family) for f in faults() if f.family != "none")
    for family in ("host", "gpu", "software", "workload"):
        assert abs(families["tune", family] - families["test", family]) <= 2


@pytest.mark.parametrize("half", ["tune", "test"])
def test_each_half_has_pairs_without_a_fault_in_both_modes(half: str) -> None:
    units = plan(half, ("eager", "graph"), (1, 2, 3))  # type: ignore[arg-type]
    nothing = [unit for unit in units if unit.fault.name == "none"]
    assert Counter(unit.mode for unit in nothing) == {"eager": 3, "graph": 3}
    assert {unit.half for unit in units} == {half}


def test_names_are_unique() -> None:
    units = plan("all", ("eager", "graph"), (1, 2, 3))
    names = [unit.name for unit in units]
    assert len(set(names)) == len(names)


def test_a_run_that_is_cut_short_is_balanced() -> None:
    units = plan("tune", ("eager", "graph"), (1, 2, 3))
    half = units[: len(units) // 2]
    modes = Counter(unit.mode for unit in half)
    assert abs(modes["eager"] - modes["graph"]) <= 2
    assert {unit.fault.family for unit in half} == {"host", "gpu", "software", "workload", "none"}


def test_a_fault_is_recorded_only_in_the_modes_it_has() -> None:
    units = plan("tune", ("eager",), (1,))
    assert "graphs_off" not in {unit.fault.name for unit in units}


def test_an_unknown_fault() -> None:
    with pytest.raises(UsageError, match=r"no fault 'cpu_contentoin'.*did you mean"):
        plan("all", ("eager",), (1,), ["cpu_contentoin"])
