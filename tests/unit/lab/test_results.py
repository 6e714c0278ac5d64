"""The committed recordings of the fault lab, and what the docs say of them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from solscope.lab.answers import OURS
from solscope.lab.rankers import RANKERS
from solscope.lab.score import LabScore, Rate, committed, score

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "explain" / "lab.md"
BLOCK = re.compile(r"(<!-- results -->\n)(.*?)(<!-- end of results -->)", re.DOTALL)
GROUPS = {
    "slow": "step ≥ 1.3× slower",
    "slow_any": "the same, within the noise too",
    "moved": "all that moved",
}


@pytest.fixture(scope="module")
def scored() -> LabScore:
    return score(committed(ROOT))


def shown(rate: Rate) -> str:
    return f"{rate.hits}/{rate.n}"


def results(scored: LabScore) -> str:
    """The table of the docs page."""
    names = (OURS, *RANKERS)
    heads = " | ".join(name.replace("|", "\\|") for name in names)
    lines = [f"| half | pairs | {heads} |", "|---|---|" + "---|" * len(names)]
    for half in ("tune", "test"):
        for group, title in GROUPS.items():
            found = {
                g.ranker: f"{shown(g.top1)}, {shown(g.top3)}"
                for g in scored.groups
                if (g.half, g.group) == (half, group)
            }
            lines.append(f"| {half} | {title} | {' | '.join(found[name] for name in names)} |")
        alarms = {c.ranker: shown(c.false_alarms) for c in scored.controls if c.half == half}
        lines.append(f"| {half} | false alarms | {' | '.join(alarms[name] for name in names)} |")
    return "\n".join(lines) + "\n"


@pytest.mark.long
def test_the_docs_show_the_score_of_the_committed_recordings(scored: LabScore) -> None:
    table = results(scored)
    text = PAGE.read_text(encoding="utf-8")
    if os.environ.get("SOLSCOPE_UPDATE_GOLDEN"):
        PAGE.write_text(BLOCK.sub(lambda m: m[1] + table + m[3], text), encoding="utf-8")
        return
    found = BLOCK.search(text)
    assert found
    assert found[2] == table


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
