"""Measure how often layers, roles and kinds are right, by their evidence.

    python scripts/calibrate_layers.py --truth TOOL DIR... [--write] [--skip NAME,...] [--report]

Each DIR holds recordings of architectures: NAME.stack.json.gz (eager, with Python stacks) and,
where it could be captured, NAME.graph.json.gz with NAME.twin.json.gz (its eager twin). TOOL is a
Python file with `records`, `Truth`, `replays`, `load`, `write`: it reads the truth from the modules
in the stacks. Without --write nothing is changed. --report prints the reliability table of every
architecture judged by a table that was made without it.
"""

from __future__ import annotations

import argparse
import ast
import tempfile
import types
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

import solscope
from solscope.attribution import layers
from solscope.attribution.confidence import SUBJECTS, UNSEEN, confidence

TARGET = Path(__file__).parents[1] / "src" / "solscope" / "attribution" / "confidence.toml"
BINS = (0.0, 0.6, 0.8, 0.9, 0.95, 0.97, 1.01)
COLUMNS = (
    *("layer", "place", "layer_kind", "role"),
    *("layer_evidence", "role_evidence"),
)


class Claim(NamedTuple):
    """One claim about one activity."""

    variant: str
    activity: int
    subject: str
    evidence: str
    time: float
    right: bool


def load_tool(path: Path) -> Any:
    """The module at `path`, without the call of its `main`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = [n for n in tree.body if isinstance(n, ast.Expr) and isinstance(n.value, ast.Call)]
    tree.body = [node for node in tree.body if node not in calls]
    module = types.ModuleType("truth")
    exec(compile(tree, str(path), "exec"), module.__dict__)  # noqa: S102 - a file of our own
    return module


def claims(tool: Any, folder: Path, name: str) -> Iterator[Claim]:
    """All claims about a recording: with and without stacks, replayed, and by landmarks alone."""
    document = tool.load(folder / f"{name}.stack.json.gz")
    truth = tool.Truth(tool.records(document))
    everything = list(range(len(truth.recs)))
    with tempfile.TemporaryDirectory() as work:
        bare = tool.write(document, f"{work}/{name}.json.gz", tool.PYTHON)
        yield from judged("stripped", bare, truth, everything)
        with by_landmarks():
            yield from judged("landmarks", bare, truth, everything)
    yield from judged("stack", folder / f"{name}.stack.json.gz", truth, everything)
    graph = folder / f"{name}.graph.json.gz"
    if graph.exists():
        twin = tool.Truth(tool.records(tool.load(folder / f"{name}.twin.json.gz")))
        _, source = tool.replays(tool.load(graph), twin)
        yield from judged("graph", graph, twin, source)
        with by_landmarks():
            yield from judged("landmarks graph", graph, twin, source)


class by_landmarks:  # noqa: N801 - reads as a statement
    """Find layers without what repeats, as where nothing does."""

    def __enter__(self) -> None:
        self.align = vars(layers)["align"]
        vars(layers)["align"] = lambda text, mixers: None  # noqa: ARG005

    def __exit__(self, *_: object) -> None:
        vars(layers)["align"] = self.align


def judged(variant: str, path: Any, truth: Any, source: Sequence[int | None]) -> Iterator[Claim]:
    """Claims about one file; `source` has the position of each activity in the truth."""
    made = solscope.attribute(solscope.open(path)).activities
    table = made.select("dur_ns", *COLUMNS).with_columns(
        pl.col(pl.Categorical, pl.Enum).cast(pl.String)
    )
    for number, row in enumerate(table.iter_rows(named=True)):
        at = source[number]
        if at is None or row["layer_evidence"] is None:
            continue
        inside = truth.layer[at]
        if row["layer"] is not None:
            right = row["layer"] == inside
        else:
            right = inside is None and row["place"] == truth.place[at]
        yield Claim(variant, number, "layer", row["layer_evidence"], row["dur_ns"], right)
        accepted = truth.role[at]
        if row["role"] not in (None, "other") and row["role_evidence"] and "?" not in accepted:
            right = row["role"] in accepted
            yield Claim(variant, number, "role", row["role_evidence"], row["dur_ns"], right)
        if row["layer_kind"] and inside is not None:
            mixers, feed = truth.kind[inside]
            mixer, _, found = row["layer_kind"].partition("+")
            evidence = f"{row['layer_kind']} {row['role_evidence'].split()[-2]}"
            right = mixer in mixers.split("+") and found == feed
            yield Claim(variant, number, "kind", evidence, row["dur_ns"], right)


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


def reliability(by_name: dict[str, list[Claim]], found: Shares) -> Iterator[str]:
    """Markdown: what was said and what was right, each architecture by a table without it."""
    for subject in (*SUBJECTS, "layer and role"):
        said = [[0.0, 0.0, 0.0] for _ in BINS[1:]]
        for name, made in by_name.items():
            whole = sum(c.time for c in made if c.variant == "stripped" and c.subject == "layer")
            for said_so, right, time in told(name, made, found, subject):
                at = next(i for i, high in enumerate(BINS[1:]) if said_so < high)
                said[at][0] += time / whole / len(by_name)
                said[at][1] += right * time / whole / len(by_name)
                said[at][2] += said_so * time / whole / len(by_name)
        for (share, good, sure), low, high in zip(said, BINS, BINS[1:], strict=False):
            if share > 0:
                yield (
                    f"| {subject} | {low:.2f} to {min(high, 1):.2f} | {100 * share:.1f} "
                    f"| {sure / share:.3f} | {good / share:.3f} |"
                )


def told(
    name: str, made: list[Claim], found: Shares, subject: str
) -> Iterator[tuple[float, bool, float]]:
    """Confidence without the architecture itself, whether right, and time; of stripped profiles."""
    both: dict[int, list[tuple[float, bool, float]]] = defaultdict(list)
    for claim in made:
        if claim.variant != "stripped" or claim.subject not in subject.split(" and "):
            continue
        others = {n: s for n, s in found[claim.subject, claim.evidence].items() if n != name}
        sure = confidence(sum(others.values()), len(others)) if others else UNSEEN
        both[claim.activity].append((sure, claim.right, claim.time))
    for rows in both.values():
        yield min(r[0] for r in rows), all(r[1] for r in rows), rows[0][2]


def main() -> None:
    """Judge all recordings; print, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--truth", type=Path, required=True)
    parser.add_argument("--skip", default="", help="recordings whose modules the truth cannot read")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    tool, skipped = load_tool(args.truth), set(filter(None, args.skip.split(",")))
    by_name: dict[str, list[Claim]] = {}
    for folder in args.folders:
        for file in sorted(folder.glob("*.stack.json.gz")):
            name = file.name.removesuffix(".stack.json.gz")
            if name not in skipped:
                by_name[name] = list(claims(tool, folder, name))
    found = shares(by_name)
    if args.write:
        TARGET.write_text(as_toml(found, len(by_name)), encoding="utf-8")
    if args.report:
        print("\n".join(reliability(by_name, found)))
    else:
        print(as_toml(found, len(by_name)))


if __name__ == "__main__":
    main()
