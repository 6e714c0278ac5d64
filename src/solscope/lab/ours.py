"""Our own diagnosis, in the form that is scored."""

from __future__ import annotations

from solscope.diagnose.diagnosis import Diagnosis, diagnose_runs
from solscope.lab.answers import ALARMS, QUIET, Answer
from solscope.readers.packed import Observations


def answer(normal: Observations, abnormal: Observations) -> Answer:
    """Diagnose a pair."""
    found = diagnose_runs(normal, abnormal)
    causes = [cause.id for cause in found.causes]
    return Answer(
        causes=causes,
        alarm=found.verdict in ALARMS or causes[0] not in QUIET,
        verdict=found.verdict,
        latent=list(dict.fromkeys(item.id for item in found.latent if item.id is not None)),
        confidences=[cause.confidence for cause in found.causes],
        closure_pct=_closure_pct(found),
    )


def _closure_pct(found: Diagnosis) -> float | None:
    """How far the components are from adding up to the difference, in percent of it."""
    if found.delta_ms is None or not found.normal.mean_ms:
        return None
    rest = sum(component.delta_ms for component in found.components) - found.delta_ms
    # A difference of next to nothing is compared with a millionth of the step.
    return 100.0 * abs(rest) / max(abs(found.delta_ms), 1e-6 * found.normal.mean_ms)
