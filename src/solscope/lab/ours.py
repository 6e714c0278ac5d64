"""Our own diagnosis, in the form that is scored."""

from __future__ import annotations

from solscope.diagnose.diagnosis import Diagnosis, diagnose_runs
from solscope.lab.answers import ALARMS, QUIET, Answer
from solscope.readers.packed import Observations


def answer(normal: Observations, abnormal: Observations) -> Answer:
    """Diagnose a pair."""
    diagnosis = diagnose_runs(normal, abnormal)
    causes = [cause.id for cause in diagnosis.causes]
    return Answer(
        causes=causes,
        alarm=diagnosis.verdict in ALARMS or causes[0] not in QUIET,
        verdict=diagnosis.verdict,
        latent=list(dict.fromkeys(item.id for item in diagnosis.latent if item.id is not None)),
        confidences=[cause.confidence for cause in diagnosis.causes],
        closure_pct=_closure_pct(diagnosis),
    )


def _closure_pct(diagnosis: Diagnosis) -> float | None:
    """How far the components are from adding up to the difference, in percent of it."""
    if diagnosis.delta_ms is None or not diagnosis.normal.mean_ms:
        return None
    unexplained_ms = (
        sum(component.delta_ms for component in diagnosis.components) - diagnosis.delta_ms
    )
    # A difference of next to nothing is compared with a millionth of the step.
    return (
        100.0 * abs(unexplained_ms) / max(abs(diagnosis.delta_ms), 1e-6 * diagnosis.normal.mean_ms)
    )
