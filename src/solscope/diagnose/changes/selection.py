"""Which description of a run is worth its parameters, when neighboring steps have noise in common.

The speed of a host wanders: a step resembles the one before it although nothing happened. Levels
and lines follow such a wander by chance, so each description is judged with noise that remembers
(a first-order autoregression), and so is the one that says "steady". The length of a description
is half of Schwarz's criterion, in nats, for normal noise: an abrupt change is far from what such
noise does from one step to the next, a wander is not. Single odd steps have to be taken out before.
What does not save `SAVED` nats over "steady" is not said.

Worked example: 22 steps wander from 1.1 down to 0.64, each within 0.1 of the one before. Two levels
with what is left of the wander are 2.7 nats longer than "steady" with a memory of 0.95.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from solscope.resample import Floats

MEMORIES = np.linspace(0.0, 0.95, 20)
"""Parts of a step's deviation that the next one may have, among which the best is taken."""
SAVED = 5.0
"""Least gain over "steady", in nats. Chosen: odds of 150 to 1, Kass and Raftery's "very strong"."""
FLOOR = 1e-3
"""Deviations below this, in log time, do not count: no fit is that exact."""
Description = tuple[Floats, int]
"""Log times that are expected, and how many parameters they took."""


def length(logs: Floats, expected: Floats, parameters: int) -> float:
    """Nats that describe the steps: those of the noise, and half a log of the steps a parameter."""
    rest = logs - expected
    before = np.concatenate([[0.0], rest[:-1]])
    news = ((rest - MEMORIES[:, None] * before) ** 2).mean(axis=1)
    noise = logs.size * float(np.log(max(float(news.min()), FLOOR**2))) / 2
    return noise + (parameters + 1) * float(np.log(logs.size)) / 2


def shortest(logs: Floats, descriptions: Mapping[str, Description]) -> str | None:
    """The name of the shortest description; null where "steady" is about as short."""
    steady = length(logs, np.full_like(logs, logs.mean()), 1)
    lengths = {name: length(logs, *given) for name, given in descriptions.items()}
    best = min(lengths, key=lambda name: lengths[name], default=None)
    return best if best is not None and lengths[best] <= steady - SAVED else None
