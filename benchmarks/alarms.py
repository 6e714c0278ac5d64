"""How often a check is wrong by the luck of its draws: false alarms, and kernels that get through.

    python benchmarks/alarms.py [--runs 300] [--only NAME,...] [--seconds 900]

Each run draws what `solscope bench check` draws for one operator on a CPU: the cases of other
parameters, of extreme scales and of two uncommon sizes, six more extra cases, two draws of the
heaviest shape made small. Outputs are judged in this process; nothing is timed. Subjects are the
plain torch solution of every operator and the samples in `tests/data/evil` that a comparison of
numbers alone must pass or catch.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

import torch  # noqa: E402
from msgspec import structs  # noqa: E402

from solscope.bench.run.correctness import extra_cases  # noqa: E402
from solscope.bench.run.reference import CPU_EFFORT  # noqa: E402
from solscope.bench.verify import eager_solution, load_run, outputs_of, wrong_outputs  # noqa: E402
from solscope.bench.workloads import SMALL, choose, scaled, workloads  # noqa: E402
from solscope.operators import operator  # noqa: E402
from solscope.operators.host_warnings import ignore_host_warnings  # noqa: E402
from solscope.operators.task import Draw, Variant  # noqa: E402
from tests.evil import SAMPLES, expected  # noqa: E402

OTHER_GUARDS = {"packs_by_address"}
"""Samples that are caught because all draws lie at the same addresses, as they do not here."""
SKIPPED: Counter[tuple[str, str]] = Counter()
"""Draws of sizes that an operator cannot have."""
BY_NUMBERS = (
    "usual_epsilon",
    "usual_epsilon_of_small_ones",
    "overflow_of_squares",
    "flushes_small_rows",
    "only_even_sizes",
    "honest_by_name",
    "honest_fp32",
)
"""Samples in one file, of `rms_norm`, about which numbers alone say what they are."""
Sizes = tuple[dict[str, Any], Variant, str]


class Subject(NamedTuple):
    """A solution of one operator, and what a check must say."""

    name: str
    operator: str
    run: Callable[..., Any]
    must_pass: bool


class Tally(NamedTuple):
    """Runs of one subject."""

    runs: int
    wrong: int
    example: str


def subjects() -> Iterator[Subject]:
    """The plain torch solutions, then the samples of operators."""
    for name in workloads():
        yield Subject("torch-eager", name, eager_solution(name), must_pass=True)
    for name, wanted in expected().items():
        must_pass = wanted["status"] == ["passed"]
        if name in BY_NUMBERS:
            yield Subject(name, "rms_norm", load_run(SAMPLES / f"{name}.py"), must_pass)
        if wanted.get("stage", "check") != "check" or "operator" not in wanted:
            continue
        if name in OTHER_GUARDS:
            continue
        for of in wanted["operator"].split(","):
            yield Subject(name, of, load_run(SAMPLES / name / f"{of}.py"), must_pass)


def draws(name: str) -> Iterator[Sizes]:
    """What one run draws."""
    of = operator(name)
    heaviest = choose(workloads()[name], "top1")[0]
    small = structs.replace(heaviest, axes=scaled(of, heaviest.axes, SMALL))
    for case in extra_cases(of, [small], CPU_EFFORT):
        yield case.axes, case.variant, case.label
    for _ in range(CPU_EFFORT.rounds):
        yield small.axes, "typical", "the listed shape"


def refused(subject: Subject) -> str:
    """Why one run refuses a solution; empty when it passes."""
    task = operator(subject.operator).required_task
    for axes, variant, label in draws(subject.operator):
        seed = secrets.randbits(48)
        try:
            inputs = task.inputs(axes, Draw(seed=seed, device="cpu", variant=variant))
        except (ValueError, IndexError, ZeroDivisionError):
            SKIPPED[subject.operator, label] += 1  # sizes that this operator cannot have
            continue
        wanted = task.reference(**inputs)
        wrong = wrong_outputs(task, outputs_of(task, subject.run, inputs), wanted, inputs)
        if wrong:
            return f"{label}, seed {seed}: {wrong[0]}"
    return ""


def tally(subject: Subject, runs: int, end: float) -> Tally:
    """How often runs are wrong about a subject."""
    done, wrong, example = 0, 0, ""
    while done < runs and time.monotonic() < end:
        why = refused(subject)
        done += 1
        if bool(why) == subject.must_pass:
            wrong += 1
            example = example or why
    return Tally(done, wrong, example)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=900.0, help="for all subjects together")
    parser.add_argument("--only", default="", metavar="NAME,...", help="samples or operators")
    given = parser.parse_args()
    only = {name for name in given.only.split(",") if name}
    chosen = [one for one in subjects() if not only or only & {one.name, one.operator}]
    torch.set_num_threads(1)
    print("| solution | operator | must | runs | wrong |\n|---|---|---|--:|--:|", flush=True)
    found = []
    start = time.monotonic()
    with ignore_host_warnings():
        for place, subject in enumerate(chosen):
            left = start + given.seconds - time.monotonic()
            one = tally(subject, given.runs, time.monotonic() + left / (len(chosen) - place))
            found.append(one)
            must = "pass" if subject.must_pass else "be caught"
            row = f"| {subject.name} | {subject.operator} | {must} | {one.runs} | {one.wrong} |"
            print(row + (f" {one.example}" if one.example else ""), flush=True)
    runs, wrong = (sum(getattr(one, part) for one in found) for part in ("runs", "wrong"))
    machine = f"{platform.machine()}, Python {platform.python_version()}, torch {torch.__version__}"
    date = datetime.datetime.now(datetime.UTC).date()
    print(f"\n{wrong} of {runs} runs wrong, {SKIPPED.total()} draws skipped. {machine}, {date}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
