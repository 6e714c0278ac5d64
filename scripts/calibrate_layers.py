"""Measure how often layers, roles and kinds are right, by their evidence.

    python scripts/calibrate_layers.py DIR... [--write] [--report] [--curve FILE]
    python scripts/calibrate_layers.py DIR... --score

Each DIR holds recordings of architectures: NAME.stack.json.gz (eager, with Python stacks) and,
where it could be captured, NAME.graph.json.gz with NAME.twin.json.gz (its eager twin).
`architecture_truth.py` reads the truth from the modules in the stacks; what is judged are copies
without stacks, and replays. --write writes the table that the package reads. --report prints the
reliability table and the scores of every architecture, judged by a table that was made without it;
--curve draws the same as SVG. --score scores recordings that the package's table was not made from.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from architecture_truth import Truth, activities, load, source_of_replays, without_stacks
from reliability_curve import Point, draw

import solscope
from solscope.attribution import layers
from solscope.attribution.confidence import AGREED, SUBJECTS, UNSEEN, confidence, measured
from solscope.attribution.expected import RUN, Expected, verdicts

TARGET = Path(__file__).parents[1] / "src" / "solscope" / "attribution" / "confidence.toml"
BINS = (0.0, 0.6, 0.8, 0.9, 0.95, 0.97, 1.01)
SURE = 0.95
VARIANTS = ("stripped", "graph")
COLUMNS = (
    *("category", "layer", "place", *RUN, "layer_kind"),
    *("layer_evidence", "role_evidence", "kind_evidence"),
)


class Claim(NamedTuple):
    """One claim about one activity."""

    variant: str
    activity: int
    subject: str
    evidence: str
    time: float
    right: bool
    heavy: bool
    """Of a matrix product, attention or experts."""


def claims(folder: Path, name: str) -> Iterator[Claim]:
    """All claims about a recording: without stacks and replayed, each also by landmarks alone."""
    document = load(folder / f"{name}.stack.json.gz")
    truth = Truth(activities(document))
    with tempfile.TemporaryDirectory() as work:
        bare = solscope.open(without_stacks(document, Path(work) / f"{name}.json.gz"))
        yield from both("stripped", bare, truth, list(range(len(truth.recorded))))
    graph = folder / f"{name}.graph.json.gz"
    if graph.exists():
        twin = Truth(activities(load(folder / f"{name}.twin.json.gz")))
        yield from both("graph", solscope.open(graph), twin, source_of_replays(load(graph), twin))


def both(
    variant: str, profile: solscope.Profile, truth: Truth, source: Sequence[int | None]
) -> Iterator[Claim]:
    """Claims about a profile as it is read, and as it is read where nothing repeats."""
    yield from judged(variant, profile, truth, source)
    with by_landmarks():
        yield from judged(f"{variant} by landmarks", profile, truth, source)


class by_landmarks:  # noqa: N801 - reads as a statement
    """Find layers without what repeats, as where nothing does."""

    def __enter__(self) -> None:
        self.align = vars(layers)["align"]
        vars(layers)["align"] = lambda text, mixers: None  # noqa: ARG005

    def __exit__(self, *_: object) -> None:
        vars(layers)["align"] = self.align


def judged(
    variant: str, profile: solscope.Profile, truth: Truth, source: Sequence[int | None]
) -> Iterator[Claim]:
    """Claims about one file; `source` has the position of each activity in the truth."""
    made = solscope.attribute(profile).activities
    table = made.select("dur_ns", *COLUMNS).with_columns(
        pl.col(pl.Categorical, pl.Enum).cast(pl.String)
    )
    expected = Expected(tuple("+".join(truth.kind[n]) for n in sorted(truth.kind)))
    agreeing = {run for run, found in verdicts(made, expected).items() if found.agrees(expected)}
    for number, row in enumerate(table.iter_rows(named=True)):
        position = source[number]
        if position is not None and row["layer_evidence"] is not None:
            checked = tuple(row[name] for name in RUN) in agreeing
            for subject, evidence, right in _claims_of(row, truth, position):
                heavy = row["category"] in HEAVY
                claim = Claim(variant, number, subject, evidence, row["dur_ns"], right, heavy)
                yield claim
                if checked and subject != "role":
                    # The same with a config at hand, which states what modules show.
                    name = f"{variant} with config"
                    yield claim._replace(variant=name, evidence=evidence + AGREED)


HEAVY = ("gemm", "attention", "moe", "linear_attention")


def _claims_of(row: dict[str, Any], truth: Truth, at: int) -> Iterator[tuple[str, str, bool]]:
    """Subject, evidence and whether it is right, of what is claimed about one activity.

    Roles and kinds are those of the evidence: what is wrong too often is measured, not claimed.
    """
    inside = truth.layer[at]
    if row["layer"] is not None:
        yield "layer", row["layer_evidence"], row["layer"] == inside
    else:
        yield "layer", row["layer_evidence"], row["place"] in truth.place[at].split()
    accepted = truth.role[at]
    role = (row["role_evidence"] or "other").split()[0]
    if role != "other" and accepted is not None:
        yield "role", row["role_evidence"], role in accepted
    if row["kind_evidence"] and inside is not None:
        *mixers, feed = row["kind_evidence"].split()[0].split("+")
        mixed, fed = truth.kind[inside]
        yield "kind", row["kind_evidence"], set(mixers) <= set(mixed.split("+")) and feed == fed


def measured_shares() -> Shares:
    """The package's own table in the form of shares, for recordings that are not in it."""
    table = measured()
    return {
        (subject, evidence): {MEASURED: sure}
        for subject in SUBJECTS
        for evidence, sure in table[subject].items()
    }


MEASURED = "measured before"

Shares = dict[tuple[str, str], dict[str, float]]
"""By subject and evidence: for each architecture the share of time that was right."""


def shares(by_name: dict[str, list[Claim]]) -> Shares:
    """How often each evidence was right in each architecture."""
    out: Shares = defaultdict(dict)
    for name, made in by_name.items():
        right: dict[tuple[str, str], float] = defaultdict(float)
        total: dict[tuple[str, str], float] = defaultdict(float)
        for claim in made:
            key = (claim.subject, claim.evidence)
            total[key] += claim.time
            right[key] += claim.time * claim.right
        for key, time in total.items():
            if time > 0:
                out[key][name] = right[key] / time
    return out


def as_toml(found: Shares, names: int) -> str:
    """The table that the package reads."""
    lines = [f"# Measured on {names} architectures by scripts/calibrate_layers.py; do not edit."]
    for subject in SUBJECTS:
        for (kind, evidence), rows in sorted(found.items()):
            if kind == subject:
                lines.append(f'\n[{subject}."{evidence}"]')
                lines.append(f"architectures = {len(rows)}")
                lines.append(f"right = {sum(rows.values()):.4f}")
    return "\n".join(lines) + "\n"


def reliability(by_name: dict[str, list[Claim]], found: Shares) -> Iterator[Point]:
    """What was said and what was right, each architecture by a table without it."""
    for subject in (*SUBJECTS, "layer and role"):
        said = [[0.0, 0.0, 0.0] for _ in BINS[1:]]
        for name, made in by_name.items():
            whole = sum(c.time for c in made if c.variant == "stripped" and c.subject == "layer")
            for claimed, right, time in told(name, made, found, subject):
                at = next(i for i, high in enumerate(BINS[1:]) if claimed < high)
                share = time / whole / len(by_name)
                said[at][0] += share
                said[at][1] += right * share
                said[at][2] += claimed * share
        for (share, good, sure), low, high in zip(said, BINS, BINS[1:], strict=False):
            if share > 0:
                yield Point(subject, low, min(high, 1), share, sure / share, good / share)


def told(
    name: str, made: list[Claim], found: Shares, subject: str, variant: str = "stripped"
) -> Iterator[tuple[float, bool, float]]:
    """Confidence without the architecture itself, whether right, and time."""
    together: dict[int, list[tuple[float, bool, float]]] = defaultdict(list)
    for claim in made:
        if claim.variant != variant or claim.subject not in subject.split(" and "):
            continue
        others = found.get((claim.subject, claim.evidence), {})
        others = {other: share for other, share in others.items() if other != name}
        sure = confidence(sum(others.values()), len(others)) if others else UNSEEN
        sure = others.get(MEASURED, sure)
        together[claim.activity].append((sure, claim.right, claim.time))
    for rows in together.values():
        yield min(r[0] for r in rows), all(r[1] for r in rows), rows[0][2]


def scores(by_name: dict[str, list[Claim]], found: Shares) -> Iterator[str]:
    """Markdown: means over architectures, confidence by a table without the architecture."""
    for variant in VARIANTS:
        rows = [
            score
            for name, made in by_name.items()
            if (score := _score(name, made, found, variant)) is not None
        ]
        means = [sum(values) / len(values) for values in zip(*rows, strict=True)]
        cells = " | ".join(f"{100 * mean:.1f}" for mean in means)
        yield f"| {variant} | {len(rows)} | {cells} |"


def each(by_name: dict[str, list[Claim]], found: Shares) -> Iterator[str]:
    """Markdown: the scores of each architecture."""
    for name, made in by_name.items():
        for variant in VARIANTS:
            score = _score(name, made, found, variant)
            if score is not None:
                yield f"| {name} {variant} | {' | '.join(f'{100 * x:.1f}' for x in score)} |"


def _score(
    name: str, made: list[Claim], found: Shares, variant: str
) -> tuple[float, float, float, float, float] | None:
    """Shares of time: layer, role and heavy role right; wrong when sure; sure."""
    mine = [claim for claim in made if claim.variant == variant]
    whole = sum(claim.time for claim in mine if claim.subject == "layer")
    if not whole:
        return None
    rates = []
    for subject, heavy in (("layer", False), ("role", False), ("role", True)):
        asked = [c for c in mine if c.subject == subject and (c.heavy or not heavy)]
        time = sum(claim.time for claim in asked)
        rates.append(sum(c.time for c in asked if c.right) / time if time else 1.0)
    sure = [x for x in told(name, made, found, "layer and role", variant) if x[0] >= SURE]
    wrong = sum(time for _, right, time in sure if not right)
    return rates[0], rates[1], rates[2], wrong / whole, sum(x[2] for x in sure) / whole


def main() -> None:
    """Judge all recordings; print, write and draw what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--curve", type=Path)
    parser.add_argument("--score", action="store_true")
    args = parser.parse_args()
    by_name: dict[str, list[Claim]] = {}
    for folder in args.folders:
        for file in sorted(folder.glob("*.stack.json.gz")):
            name = file.name.removesuffix(".stack.json.gz")
            try:
                by_name[name] = list(claims(folder, name))
            except (LookupError, ValueError, StopIteration) as error:
                print(f"{name}: the truth cannot be read: {error!r}")
    if args.score:
        print("\n".join(each(by_name, measured_shares())))
        print("\n".join(scores(by_name, measured_shares())))
        return
    found = shares(by_name)
    if args.write:
        TARGET.write_text(as_toml(found, len(by_name)), encoding="utf-8")
    points = list(reliability(by_name, found))
    if args.report:
        print("\n".join(point.as_row() for point in points))
        print("\n".join(scores(by_name, found)))
    if args.curve is not None:
        args.curve.write_text(draw(points), encoding="utf-8")


if __name__ == "__main__":
    main()
