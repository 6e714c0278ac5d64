"""Causes of other packages: added by an entry point, and unable to break a diagnosis."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from solscope.diagnose import causes
from solscope.diagnose.causes.base import Cause
from solscope.diagnose.diagnosis import diagnose_runs
from solscope.diagnose.findings.findings import Findings
from tests.unit.diagnose.making import EAGER

HOW_TO = Path(__file__).parents[3] / "docs" / "how-to" / "add-a-cause.md"


def cause_of_the_how_to() -> Cause:
    """The example of the page, run as it stands there."""
    blocks = re.findall(r"```python\n(.*?)```", HOW_TO.read_text(encoding="utf-8"), re.DOTALL)
    code = "\n".join(line.removeprefix("    ") for line in blocks[0].splitlines())
    names: dict[str, Any] = {"__name__": "swap"}
    exec(compile(code, "add-a-cause.md", "exec"), names)
    cause: Cause = names["CAUSE"]
    return cause


def breaks(_f: Findings) -> float:
    raise ZeroDivisionError("of no use")


GOOD = cause_of_the_how_to()
RAISES = Cause("raises", "host", "t", "s", 9.0, GOOD.required, breaks)
TAKEN = Cause("gc", "host", "t", "s", 9.0, (), breaks)
NO_CAUSE = "text"


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    points = [
        EntryPoint(name, f"{__name__}:{target}", causes.ENTRY_POINTS)
        for name, target in [
            ("swap", "GOOD"),
            ("raises", "RAISES"),
            ("taken", "TAKEN"),
            ("no_cause", "NO_CAUSE"),
            ("missing", "NOT_THERE"),
        ]
    ]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)
    causes.catalog.cache_clear()
    yield
    causes.catalog.cache_clear()


@pytest.mark.usefixtures("offered")
def test_another_package_can_name_a_cause_and_a_bad_one_is_skipped_and_named() -> None:
    slow = EAGER.but(tiles={"idle.host:decode": 30.0}, counters={"page_faults_major": 500.0})
    result = diagnose_runs(EAGER.run(), slow.run(3))
    assert "swap" in [cause.id for cause in result.causes]
    skipped = [text for text in result.warnings if text.startswith("cause ")]
    assert len(skipped) == 4
    assert "cause 'raises' was skipped: ZeroDivisionError: of no use" in skipped
    assert "cause 'taken' is left out: the id 'gc' is taken" in skipped
    assert "cause 'no_cause' is left out: it is no Cause" in skipped
    assert any(
        text.startswith("cause 'missing' cannot be loaded: AttributeError") for text in skipped
    )


def test_without_other_packages_nothing_is_skipped() -> None:
    result = diagnose_runs(EAGER.run(), EAGER.but(tiles={"idle.host:decode": 30.0}).run(3))
    assert not [text for text in result.warnings if text.startswith("cause ")]
