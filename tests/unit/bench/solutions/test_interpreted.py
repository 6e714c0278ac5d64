"""Kernels in Triton that ship are right in its interpreter: no GPU. Those in Gluon have none."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.triton_folder import ROOT, triton

FOLDER = ROOT / "src/solscope/bench/solutions/solscope_triton"
NAMES = sorted(path.stem for path in FOLDER.glob("[!_]*.py"))
HOPPER = {"chunk_gated_delta_rule_state"}
"""Written for the copy engine of one kind of GPU, which the interpreter does not have."""


@pytest.mark.long
@pytest.mark.parametrize("part", [0, 1])
def test_kernels_are_right_on_small_inputs(part: int) -> None:
    names = NAMES[part::2]
    paths = os.pathsep.join([str(triton()), str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/interpreted_kernels.py"), str(FOLDER), *names],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    told = json.loads(done.stdout)
    found = told["operators"]
    assert {name: one["wrong"] for name, one in found.items() if one["wrong"]} == {}
    assert {name for name, one in found.items() if one.get("needs")} == HOPPER & set(names)
    assert all(one["tried"] >= 5 for name, one in found.items() if name not in HOPPER)
    assert {name.split(".")[0] for name in told["idle"]} == HOPPER & set(names)


def test_all_of_them_are_there() -> None:
    assert len(NAMES) == 28
