"""Causes of other packages: added by an entry point, and unable to break a diagnosis."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from solscope.diagnose import causes
from solscope.diagnose.causes.base import Cause
from solscope.diagnose.diagnosis import diagnose_runs
from solscope.diagnose.evidence import host
from solscope.diagnose.evidence.base import Answer
from solscope.diagnose.findings.findings import Findings
from tests.unit.diagnose.making import EAGER

HOW_TO = Path(__file__).parents[3] / "docs" / "how-to" / "add-a-cause.md"


def cause_of_the_how_to() -> Cause:
    """The example of the page, run as it stands there."""
    blocks = re.findall(r"```python\n(.*?)```", HOW_TO.read_text(encoding="utf-8"), re.DOTALL)
    code = "\n".join(line.removeprefix("    ") for line in blocks[0].splitlines())
    names: dict[str, Any] = {"__name__": "page_faults"}
    exec(compile(code, "add-a-cause.md", "exec"), names)
    (cause,) = names["CAUSES"]
    assert isinstance(cause, Cause)
    return cause


def breaks(_f: Findings) -> float:
    raise ZeroDivisionError("of no use")


def mapped_again(f: Findings) -> Answer:
    faults = f.sensors.per_step("page_faults_minor")
    return Answer(faults is not None and faults.delta > 1000, "minor page faults grew")


EXAMPLE = cause_of_the_how_to()
# The example reads a limit that its guide adds.
GOOD = replace(EXAMPLE, required=(host.host_grew, mapped_again))
RAISES = Cause("raises", "host", "t", "s", 9.0, GOOD.required, breaks)
TAKEN = Cause("gc", "host", "t", "s", 9.0, (), breaks)
NO_CAUSE = "text"


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    points = [
        EntryPoint(name, f"{__name__}:{target}", causes.ENTRY_POINTS)
        for name, target in [
            ("page_faults", "GOOD"),
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
    few, many = ({"page_faults_minor": rate} for rate in (0.0, 290_000.0))
    slow = EAGER.but(tiles={"idle.host:decode": 30.0}, counters=many)
    result = diagnose_runs(EAGER.but(counters=few).run(), slow.run(3))
    assert "page_faults" in [cause.id for cause in result.causes]
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
