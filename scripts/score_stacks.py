"""How often layers and roles are right in recordings that have their Python stacks.

    python scripts/score_stacks.py DIR...

Prints what `calibrate_layers.py --score` prints of recordings without stacks: by architecture and
as means, in percent of GPU time, layer, role and role of heavy kernels right where one is claimed,
wrong at a confidence of 0.95 or more, and sure. The truth is read from the same modules that
solscope reads here, by rules of its own (`architecture_truth.py`): mistakes in reading them show.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from architecture_passes import HEAVY
from architecture_truth import Truth, activities, load, names_in, recording_of

import solscope

SURE = 0.95
COLUMNS = ("place", "layer", "role", "category", "confidence", "dur_ns")


def claims(path: Path) -> Iterator[tuple[dict[str, Any], bool | None, bool | None]]:
    """Each activity with whether its layer and its role are right; null for what is not claimed."""
    truth = Truth(activities(load(path)))
    made = solscope.attribute(solscope.open(path)).activities.select(COLUMNS)
    for at, row in enumerate(made.iter_rows(named=True)):
        layer: bool | None = None
        if row["layer"] is not None:
            layer = row["layer"] == truth.layer[at]
        elif row["place"] in ("prologue", "epilogue"):
            layer = row["place"] in truth.place[at].split()
        accepted, role = truth.role[at], row["role"]
        claimed = accepted is not None and role not in (None, "other")
        yield row, layer, role in accepted if claimed and accepted is not None else None


def score(path: Path) -> tuple[float, ...]:
    """Shares of time: layer, role and heavy role right; wrong when sure; sure."""
    time: Counter[str] = Counter()
    for row, layer, role in claims(path):
        spent = row["dur_ns"]
        heavy = role if row["category"] in HEAVY else None
        for subject, right in (("layer", layer), ("role", role), ("heavy", heavy)):
            if right is not None:
                time[subject] += spent
                time[f"{subject} right"] += spent * right
        time["all"] += spent
        if (row["confidence"] or 0) >= SURE:
            time["sure"] += spent
            time["wrong"] += spent * (layer is False or role is False)
    rates = [time[f"{subject} right"] / max(time[subject], 1) for subject in ("layer", "role")]
    rates.append(time["heavy right"] / max(time["heavy"], 1))
    return (*rates, time["wrong"] / time["all"], time["sure"] / time["all"])


def main() -> None:
    """Score all recordings of the folders; print a line each and the means."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    rows = []
    for folder in parser.parse_args().folders:
        for name in names_in(folder):
            path = recording_of(folder, name, "stack")
            if path is not None:
                rows.append(score(path))
                print(_line(name, rows[-1]), flush=True)
    means = tuple(sum(values) / len(values) for values in zip(*rows, strict=True))
    print(_line(f"stack | {len(rows)}", means))


def _line(name: str, values: tuple[float, ...]) -> str:
    return f"| {name} | {' | '.join(f'{100 * value:.1f}' for value in values)} |"


if __name__ == "__main__":
    main()
