"""The committed recordings of the fault lab, and what the docs say of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from solscope.lab.answers import OURS
from solscope.lab.pairs import read_pairs
from solscope.lab.plan import STRENGTHS, plan
from solscope.lab.rankers import RANKERS
from solscope.lab.score import LabScore, Rate, committed, score
from tests.blocks import check_block

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "explain" / "lab.md"
FROZEN = ROOT / "results" / "lab" / "score-of-frozen-rules.json"
"""`solscope lab score --json` at the commit that added the second recordings."""
GROUPS = {
    "slow": "step ≥ 1.3× slower, beyond the noise",
    "slow_any": "step ≥ 1.3× slower",
    "moved": "all that moved",
}
HALVES = {"tune": ("tune",), "test": ("test",), "both": ("tune", "test")}


@pytest.fixture(scope="module")
def scored() -> LabScore:
    return score(committed(ROOT))


def shown(rates: Iterable[Rate]) -> str:
    known = list(rates)
    return f"{sum(rate.hits for rate in known)}/{sum(rate.n for rate in known)}"


def results(scored: LabScore) -> str:
    """The table of the docs page: both halves apart, then their sums."""
    names = (OURS, *RANKERS)
    heads = " | ".join(name.replace("|", "\\|") for name in names)
    lines = [f"| half | pairs | {heads} |", "|---|---|" + "---|" * len(names)]
    for title, halves in HALVES.items():
        for group, pairs in GROUPS.items():
            cells = []
            for name in names:
                chosen = [
                    g
                    for g in scored.groups
                    if g.half in halves and (g.ranker, g.group) == (name, group)
                ]
                cells.append(f"{shown(g.top1 for g in chosen)}, {shown(g.top3 for g in chosen)}")
            lines.append(f"| {title} | {pairs} | {' | '.join(cells)} |")
        alarms = [
            shown(c.false_alarms for c in scored.controls if c.half in halves and c.ranker == name)
            for name in names
        ]
        lines.append(f"| {title} | false alarms | {' | '.join(alarms)} |")
    return "\n".join(lines) + "\n"


def test_every_unit_of_the_plan_is_recorded() -> None:
    recorded = {
        (pair.half, pair.mode, pair.fault, pair.strength)
        for folder in committed(ROOT)
        for pair in read_pairs(folder)
    }
    planned = {
        (unit.half, unit.mode, unit.fault.name, strength)
        for unit in plan("all", ("eager", "graph"), STRENGTHS)
        for strength in unit.strengths
    }
    assert recorded == planned


def test_machines_are_described_without_their_names() -> None:
    for folder in committed(ROOT):
        text = (folder / "machine.json").read_text(encoding="utf-8")
        assert not re.search(r"[/@]|-gpu", text), folder


@pytest.fixture(scope="module")
def frozen() -> LabScore:
    return msgspec.json.decode(FROZEN.read_bytes(), type=LabScore)


def test_the_docs_keep_the_score_of_the_frozen_rules(frozen: LabScore) -> None:
    check_block(PAGE, "frozen", results(frozen))


@pytest.mark.long
def test_the_docs_show_the_score_of_the_committed_recordings(scored: LabScore) -> None:
    check_block(PAGE, "results", results(scored))


@pytest.mark.long
def test_since_the_rules_were_frozen_only_they_changed(scored: LabScore, frozen: LabScore) -> None:
    def baselines(result: LabScore) -> list[tuple[str, str, dict[str, int | None]]]:
        return [(p.id, p.state, {name: p.ranks[name] for name in RANKERS}) for p in result.pairs]

    assert baselines(scored) == baselines(frozen)


@pytest.mark.long
def test_what_the_lab_must_show(scored: LabScore) -> None:
    slow = [g for g in scored.groups if g.group == "slow" and g.ranker == OURS]
    n = sum(g.top1.n for g in slow)
    assert sum(g.top1.hits for g in slow) >= 0.85 * n
    assert sum(g.top3.hits for g in slow) >= 0.95 * n
    controls = [c.false_alarms for c in scored.controls if c.ranker == OURS]
    assert sum(c.n for c in controls) >= 10
    assert sum(c.hits for c in controls) <= 0.05 * sum(c.n for c in controls)
    faults = [pair for pair in scored.pairs if pair.state != "control"]
    assert len(faults) >= 60
    assert scored.closure_pct is not None
    assert scored.closure_pct < 0.1
