"""What would it give: a recorded step on another GPU, in another dtype, batch or context."""

from __future__ import annotations

from solscope.whatif.predict import Predictions, predict_many
from solscope.whatif.scenario import Scenario

__all__ = ["Predictions", "Scenario", "predict_many"]
