"""Our own diagnosis, in the form that is scored."""

from __future__ import annotations

from solscope.diagnose.observations import Observations
from solscope.lab.answers import Answer


def answer(normal: Observations, abnormal: Observations) -> Answer:
    """Diagnose a pair."""
    raise NotImplementedError
