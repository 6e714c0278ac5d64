"""Exchanged runs give the exchanged verdict, and no sentence says more than was recorded."""

from __future__ import annotations

import re
from itertools import chain, combinations

import numpy as np
import pytest

from solscope.diagnose.diagnosis import Diagnosis, diagnose_runs
from solscope.diagnose.verdict.judging import OPPOSITE
from solscope.lab import edits
from solscope.lab.strip import PARTS, Part, stripped
from solscope.readers.packed import Observations
from tests.sampling import some
from tests.unit.diagnose.making import EAGER, GRAPH
from tests.unit.diagnose.test_causes import slower_kernels

MS = 1_000_000


def always(run: Observations, ms: float) -> np.ndarray:
    return np.full(len(run.steps), round(ms * MS), dtype=np.int64)


BASE = GRAPH.but(steps=24).run(3)
EDITED = {
    "nothing": BASE,
    "section within the noise": edits.slower_section(BASE, "schedule", always(BASE, 0.4)),
    "section": edits.slower_section(BASE, "schedule", always(BASE, 3.0)),
    "syncs": edits.more_calls(BASE, "sync", always(BASE, 1.0) // MS * 8, 200_000),
    "waiting for a core": edits.slower_host(BASE, 3.0, "waiting"),
    "kernels": edits.slower_kernels(BASE, 1.4, lambda _kernel: True),
    "more layers": edits.more_work(BASE, 1.3),
}


@pytest.mark.parametrize("name", some(EDITED, 2))
def test_exchanged_runs_give_the_exchanged_verdict(name: str) -> None:
    normal, abnormal = GRAPH.but(steps=24).run(), EDITED[name]
    there, back = diagnose_runs(normal, abnormal), diagnose_runs(abnormal, normal)
    assert OPPOSITE.get(there.verdict, there.verdict) == back.verdict
    assert there.delta_ms == pytest.approx(-(back.delta_ms or 0.0), abs=1e-12)
    if there.verdict == "regression":
        assert there.causes[0].id == back.causes[0].id


CLAIMS = {
    r"\bclock\b": "cpu_frequency|gpu_sm_frequency",
    r"waits? for a core|waiting for a core": "runq_ns",
    r"main thread (runs|is blocked)": "oncpu_ns",
    r"processes on the GPU": "gpu_other_processes|gpu_processes",
    r"threads of the process use": "process_cpu_ns",
    r"cores are in use": "host_cpu_usage",
    r"writes? (bytes|calls) per step|as before": "write_bytes|read_bytes|write_calls",
}
"""What a text claims, and the sensors of which both runs must have one."""


def texts(found: Diagnosis) -> str:
    said = [found.sentence, *(item.text for item in found.latent)]
    for cause in found.causes:
        said += [*cause.evidence, *cause.against]
    return "\n".join(said)


def subsets() -> list[tuple[Part, ...]]:
    return list(chain.from_iterable(combinations(PARTS, n) for n in range(len(PARTS) + 1)))


@pytest.mark.parametrize("sides", [(0, 1), (0,), (1,)], ids=["both", "normal", "abnormal"])
def test_no_text_claims_what_was_not_recorded(sides: tuple[int, ...]) -> None:
    check_claims(sides, [(part,) for part in PARTS])


@pytest.mark.long
def test_no_text_claims_what_was_not_recorded_in_any_combination() -> None:
    check_claims((0, 1), subsets())


def check_claims(sides: tuple[int, ...], combined: list[tuple[Part, ...]]) -> None:
    base = EAGER.run(3)
    slow = edits.slower_host(
        edits.slower_section(base, "sample", always(base, 6.0)), 1.3, "waiting"
    )
    for without in combined:
        runs = [EAGER.run(), slow]
        for side in sides:
            runs[side] = stripped(runs[side], without)
        said = texts(diagnose_runs(runs[0], runs[1]))
        sensors = set.intersection(*({c.name for c in run.counters} for run in runs))
        for claim, names in CLAIMS.items():
            if re.search(claim, said):
                assert sensors & set(names.split("|")), (without, claim, said)
        if any(not run.host_ops for run in runs):
            assert "host operator takes" not in said
            assert "all host code" not in said
        if all(not run.sections for run in runs):
            assert "section '" not in said


def test_less_work_is_another_workload_too() -> None:
    """Graph replays hide shapes: longer contexts show only where attention takes longer."""
    longer = slower_kernels(GRAPH, 2.5, "attention")
    there = diagnose_runs(GRAPH.run(), longer.run(3))
    back = diagnose_runs(longer.run(3), GRAPH.run())
    assert there.verdict == back.verdict == "workload_changed"
    assert there.causes[0].id == back.causes[0].id == "workload_context"
    assert back.causes[0].confidence == pytest.approx(there.causes[0].confidence, abs=0.05)
    assert "attention takes ×0.40 per call" in back.sentence
    assert "accounts for" not in there.sentence
    assert "accounts for" not in back.sentence
    assert sum(cause.confidence for cause in back.causes) == pytest.approx(1.0)
