"""How far the confidence of a diagnosis can be trusted, on the recordings of the fault lab.

    python scripts/calibrate_diagnosis.py [results/lab] [--answers FILE]

Prints Markdown: the reliability curve and Brier score of the first cause, each cause left out of
the catalog in turn (is a wrong one then named with confidence?), and each recording session left
out in turn (is a temperature fitted to the others better than none?). No rule is changed.
`--answers` stores the answers, so that they are computed once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np

from solscope.lab.answers import OURS, Answered, answer_all
from solscope.lab.ours import answer
from solscope.lab.pairs import normal_pairs, read_pairs
from solscope.lab.score import SURE, packed, score_answers
from solscope.readers.packed import load

EDGES = (0.0, 0.5, 0.7, 0.9, 0.95, 0.99, 1.0)
TEMPERATURES = tuple(np.geomspace(0.25, 4.0, 33))


class Case(msgspec.Struct, frozen=True):
    """One pair with what was said of it."""

    session: str
    state: str
    answered: Answered

    @property
    def right(self) -> bool:
        """Whether the first cause is one of those expected."""
        return self.answered.answers[OURS].causes[0] in self.answered.pair.expected

    def confidence(self, temperature: float = 1.0) -> float:
        """Of the first cause, with all confidences sharpened or flattened."""
        shares = np.array(self.answered.answers[OURS].confidences) ** (1 / temperature)
        return float(shares[0] / shares.sum())


def cases(folder: Path) -> list[Case]:
    """All pairs of all sessions, with what our diagnosis says of them."""
    found: list[tuple[str, Answered]] = []
    for session in packed([folder]):
        recorded = read_pairs(session)
        for pair in (*recorded, *normal_pairs(recorded)):
            runs = [
                load(session / "recordings" / f"{name}.json.zst")
                for name in (pair.normal, pair.abnormal)
            ]
            found.append((session.name, answer_all(pair, runs[0], runs[1], answer)))
    scored = score_answers([item for _, item in found], [str(folder)], {})
    states = {pair.id: pair.state for pair in scored.pairs}
    return [Case(session, states[item.pair.id], item) for session, item in found]


def brier(chosen: Iterable[Case], temperature: float = 1.0) -> float:
    """Mean squared distance of the confidence in the first cause from whether it is right."""
    parts = [(case.confidence(temperature) - case.right) ** 2 for case in chosen]
    return float(np.mean(parts)) if parts else float("nan")


def reliability(chosen: Sequence[Case]) -> Iterable[str]:
    """How often answers of about the same confidence are right."""
    yield "| confidence | answers | mean confidence | right |"
    yield "|---|--:|--:|--:|"
    for low, high in pairwise(EDGES):
        part = [c for c in chosen if low < c.confidence() <= high]
        if part:
            mean = np.mean([c.confidence() for c in part])
            right = np.mean([c.right for c in part])
            yield f"| {low:.2f} to {high:.2f} | {len(part)} | {mean:.3f} | {right:.3f} |"
    rate = np.mean([c.right for c in chosen])
    yield f"| all | {len(chosen)} | {np.mean([c.confidence() for c in chosen]):.3f} | {rate:.3f} |"


def causes_left_out(chosen: Sequence[Case]) -> Iterable[str]:
    """What is named when the right cause is not in the catalog."""
    yield "| cause left out | pairs | `unknown` or unsure | confidently wrong |"
    yield "|---|--:|--:|--:|"
    faulty = [c for c in chosen if c.state == "moved"]
    wrong_in_all = 0
    for cause in sorted({c.answered.pair.expected[0] for c in faulty}):
        part = [c for c in faulty if c.answered.pair.expected[0] == cause]
        left = [c.answered.answers[OURS].without(c.answered.pair.expected) for c in part]
        wrong = sum(name not in ("unknown", "none") and share >= SURE for name, share in left)
        wrong_in_all += wrong
        yield f"| `{cause}` | {len(part)} | {len(part) - wrong} | {wrong} |"
    yield f"| all | {len(faulty)} | {len(faulty) - wrong_in_all} | {wrong_in_all} |"


def sessions_left_out(chosen: Sequence[Case]) -> Iterable[str]:
    """Each session on its own, with a temperature fitted to the other sessions."""
    yield "| session | answers | right | Brier | temperature of the others | Brier with it |"
    yield "|---|--:|--:|--:|--:|--:|"
    for session in sorted({c.session for c in chosen}):
        inside = [c for c in chosen if c.session == session]
        others = [c for c in chosen if c.session != session]
        best = min(TEMPERATURES, key=lambda t: brier(others, t))
        rate = np.mean([c.right for c in inside])
        yield (
            f"| {session} | {len(inside)} | {rate:.3f} | {brier(inside):.4f} | {best:.2f} "
            f"| {brier(inside, best):.4f} |"
        )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("results/lab"))
    parser.add_argument("--answers", type=Path)
    options = parser.parse_args()
    if options.answers is not None and options.answers.exists():
        found = msgspec.json.decode(options.answers.read_bytes(), type=list[Case])
    else:
        found = cases(options.folder)
        if options.answers is not None:
            options.answers.write_bytes(msgspec.json.encode(found))
    told = [c for c in found if c.state != "latent"]
    for half in ("tune", "test"):
        part = [c for c in told if c.answered.pair.half == half]
        sys.stdout.write(f"\n{half}: Brier {brier(part):.4f}\n\n")
        sys.stdout.write("\n".join(reliability(part)) + "\n")
    for lines in (causes_left_out(told), sessions_left_out(told)):
        sys.stdout.write("\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
