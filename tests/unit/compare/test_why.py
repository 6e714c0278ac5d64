"""Why one profile is slower: the cause of the phase that a comparison speaks of."""

from __future__ import annotations

from pathlib import Path

import msgspec

import solscope
from solscope import attribute
from solscope.compare.why import Explanation, explain
from solscope.diagnose.diagnosis import diagnose_runs, diagnose_units
from solscope.diagnose.matching.units import match
from solscope.readers.packed import Observations, save
from tests.unit.diagnose.making import EAGER

MIXES = EAGER.but(phases=("decode", "mixed"), steps=42)
"""Forty steps count: all but the first and the last."""


def slower(run: Observations, **added_ms: tuple[str, float]) -> Observations:
    """The run with sections that take longer in steps of one phase; by phase."""

    def grown(times: list[int], section: str) -> list[int]:
        return [
            ns + round(1e6 * ms * (section == name))
            for ns, step in zip(times, run.steps, strict=True)
            for name, ms in [added_ms.get(step.phase or "", ("", 0.0))]
        ]

    tiles = [
        msgspec.structs.replace(tile, ns=grown(tile.ns, tile.name.removeprefix("host:")))
        for tile in run.tiles
    ]
    walls = [sum(tile.ns[at] for tile in tiles) for at in range(len(run.steps))]
    return msgspec.structs.replace(
        run,
        tiles=tiles,
        steps=[
            msgspec.structs.replace(step, wall_ns=wall, start_ns=sum(walls[:at]))
            for at, (step, wall) in enumerate(zip(run.steps, walls, strict=True))
        ],
        sections=[
            msgspec.structs.replace(
                one, ns=grown(one.ns, one.name), own_ns=grown(one.own_ns, one.name)
            )
            for one in run.sections
        ],
    )


def explained(folder: Path, phase: str | None, *runs: Observations) -> Explanation | None:
    """What is said of two runs that are read from files."""
    read = []
    for name, run in zip(("faster", "slower"), runs, strict=True):
        path = save(run, folder / f"{name}.observations.json.zst")
        read.append(attribute(solscope.open(path)))
    return explain(read[0], read[1], phase, reverse=False)


BOTH = slower(MIXES.run(3), decode=("sample", 8.0), mixed=("schedule", 90.0))


def test_the_cause_is_that_of_the_phase(tmp_path: Path) -> None:
    assert "garbage collector" in (diagnose_runs(MIXES.run(), BOTH).why or "")
    said = explained(tmp_path, "decode", MIXES.run(), BOTH)
    assert said is not None
    assert said.outcome == "regression"
    assert said.cause is not None
    assert said.cause.startswith("one section of the host program is slower (section 'sample')")
    assert said.steps == "20 and 20 decode steps (left out: first step of the recording)"
    assert said.note == (
        "The cause is that of decode steps alone; `solscope diagnose` also takes mixed steps."
    )


def test_what_changed_another_phase_is_not_quoted(tmp_path: Path) -> None:
    """Decode steps are alike, whatever happened to the others."""
    prefills = slower(MIXES.run(3), mixed=("schedule", 90.0))
    assert diagnose_runs(MIXES.run(), prefills).verdict == "regression"
    said = explained(tmp_path, "decode", MIXES.run(), prefills)
    assert said is not None
    assert said.outcome == "no_change"


def test_a_single_phase_needs_no_word(tmp_path: Path) -> None:
    slow = slower(EAGER.run(3), decode=("sample", 8.0))
    said = explained(tmp_path, "decode", EAGER.run(), slow)
    assert said is not None
    assert (said.note, said.outcome) == ("", "regression")


def test_faster_steps_of_a_phase_are_judged_by_that_phase() -> None:
    """Also from the other side, where the runs change places."""
    phases = ("decode",)
    result = diagnose_units(match(BOTH, MIXES.run(), phases=phases))
    assert result.verdict == "improvement"
    assert "'sample'" in result.causes[0].title
