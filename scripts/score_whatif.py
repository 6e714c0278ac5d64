"""How far `solscope whatif` is off: predictions of recordings from other recordings, as Markdown.

    python scripts/score_whatif.py RECORDINGS [--shared ../shared/data] [--cases FILE]
    python scripts/score_whatif.py --from results/whatif/cases.jsonl

RECORDINGS is a folder that `scripts/record_whatif.py` wrote on a GPU: steps of two models over
batch and context, launched eagerly and from graphs, with their times without a profiler
(`truth.jsonl`). `--cases` writes every prediction, from which `--from` makes the same table. The
figures in docs/explain/what-if.md are its output.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterable, Iterator
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

from solscope.attribution.opening import open_attributed
from solscope.views.operators import named_hardware, operator_table
from solscope.whatif.predict import predict
from solscope.whatif.recorded_step import RecordedStep, recorded_step
from solscope.whatif.scenario import Scenario

Point = tuple[int, int]
HEAD = (
    "| question | predictions | median error | 90 % below | in interval | half width | roofline "
    "| by peak |",
    "|---|--:|--:|--:|--:|--:|--:|--:|",
)


class Case(NamedTuple):
    """One prediction: the times of the method, of both baselines, and the true one (ms)."""

    low: float
    middle: float
    high: float
    roofline: float
    unchanged: float
    true: float


def main() -> int:
    """Print one row per question."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recordings", type=Path, nargs="?")
    parser.add_argument("--shared", type=Path, default=Path("../shared/data"))
    parser.add_argument("--cases", type=Path, help="write every prediction to this file")
    parser.add_argument("--from", type=Path, dest="written", help="predictions written before")
    given = parser.parse_args()
    if (given.recordings is None) == (given.written is None):
        parser.error("give the folder of recordings, or --from a file of predictions")
    asked = (
        questions(given.recordings, given.shared) if given.recordings else read_cases(given.written)
    )
    answered: dict[str, list[Case]] = {}
    print("\n".join(HEAD))
    for label, cases in asked:
        answered[label] = list(cases)
        print(row(label, answered[label]), flush=True)
    if given.cases:
        write_cases(given.cases, answered)
    return 0


def write_cases(path: Path, answered: dict[str, list[Case]]) -> None:
    """One line per prediction, in ms rounded to ns."""
    lines = [
        json.dumps({"question": label} | {n: round(v, 6) for n, v in case._asdict().items()})
        for label, cases in answered.items()
        for case in cases
    ]
    path.write_text("\n".join(lines) + "\n")


def read_cases(path: Path) -> Iterator[tuple[str, list[Case]]]:
    """Questions with the predictions that `write_cases` wrote."""
    written = [json.loads(line) for line in path.read_text().splitlines()]
    for label in dict.fromkeys(case["question"] for case in written):
        own = [case for case in written if case["question"] == label]
        yield label, [Case(*(case[name] for name in Case._fields)) for case in own]


def row(label: str, cases: list[Case]) -> str:
    """A row of the table."""
    errors = sorted(abs(case.middle / case.true - 1) for case in cases)
    held = sum(case.low <= case.true <= case.high for case in cases) / len(cases)
    width = statistics.median((case.high - case.low) / 2 / case.middle for case in cases)
    others = [
        statistics.median(abs(getattr(case, name) / case.true - 1) for case in cases)
        for name in ("roofline", "unchanged")
    ]
    cells = [
        statistics.median(errors),
        errors[min(len(errors) - 1, int(0.9 * len(errors)))],
        held,
        width,
        *others,
    ]
    return f"| {label} | {len(cases)} | " + " | ".join(f"{100 * c:.1f} %" for c in cells) + " |"


def questions(folder: Path, shared: Path) -> Iterator[tuple[str, Iterable[Case]]]:
    """Every question with its cases."""
    truth = {row["name"]: row for row in map(json.loads, (folder / "truth.jsonl").open())}
    for model in ("dense", "moe"):
        points = [(r["batch"], r["context"]) for r in truth.values() if is_graph(r, model)]
        eager, graph = steps(folder, model, points)
        times = {p: truth[f"{model}-b{p[0]}-c{p[1]}.graph"]["step_ms"] for p in points}
        recorded = {p: graph[p].wall_us / 1e3 for p in points}
        pairs = list(permutations(points, 2))
        yield (
            f"{model}: eager to graph, against the step without a profiler",
            [case(eager[p], Scenario(graphs=True), times[p]) for p in points],
        )
        yield (
            f"{model}: batch",
            [case(graph[p], Scenario(batch=q[0]), recorded[q]) for p, q in pairs if p[1] == q[1]],
        )
        yield (
            f"{model}: context",
            [case(graph[p], Scenario(context=q[1]), recorded[q]) for p, q in pairs if p[0] == q[0]],
        )
        yield (
            f"{model}: batch and context, eager to graph, without a profiler",
            [
                case(eager[p], Scenario(graphs=True, batch=q[0], context=q[1]), times[q])
                for p, q in pairs
            ],
        )
        yield (
            f"{model}: batch and context, launched eagerly",
            [
                case(eager[p], Scenario(batch=q[0], context=q[1]), eager[q].wall_us / 1e3)
                for p, q in pairs
            ],
        )
        if model == "dense":
            fp8 = [(r["batch"], r["context"]) for r in truth.values() if is_graph(r, "dense8")]
            _, narrow = steps(folder, "dense8", fp8)
            yield (
                "dense: bf16 to fp8",
                [case(graph[p], Scenario(dtype="fp8"), narrow[p].wall_us / 1e3) for p in fp8],
            )
            yield "products: bf16 to fp8, each", list(products(folder))
    yield from across(shared)


def is_graph(row: dict[str, object], model: str) -> bool:
    """Whether a point was recorded from a graph of this model."""
    return row["model"] == model and bool(row["graph"])


def steps(
    folder: Path, model: str, points: list[Point]
) -> tuple[dict[Point, RecordedStep], dict[Point, RecordedStep]]:
    """Steps launched eagerly and from graphs; graphs take shapes from the former."""
    eager, graph = {}, {}
    for batch, context in points:
        name = f"{model}-b{batch}-c{context}"
        plain = str(folder / f"{name}.eager.json.gz")
        replay = open_attributed(str(folder / f"{name}.graph.json.gz"), companion=plain)
        eager[batch, context] = recorded_step(open_attributed(plain), None, None)
        graph[batch, context] = recorded_step(replay, None, None)
    return eager, graph


def case(step: RecordedStep, scenario: Scenario, true_ms: float) -> Case:
    """A prediction beside a plain roofline and a step scaled by the peak alone."""
    found = predict(step, scenario)
    host = found.predicted_ms - found.gpu_ms
    everything = {str(line.kind.operator): 1.0 for line in step.lines if line.kind.operator}
    ideal = predict(step, Scenario(**{**as_dict(scenario), "reach": everything}))
    ratio = peak_ratio(step, scenario)
    return Case(
        found.low_ms,
        found.predicted_ms,
        found.high_ms,
        host + ideal.gpu_ms,
        host + step.busy_us / 1e3 * ratio,
        true_ms,
    )


def as_dict(scenario: Scenario) -> dict[str, object]:
    """The fields of a scenario."""
    return {name: getattr(scenario, name) for name in scenario.__struct_fields__}


def peak_ratio(step: RecordedStep, scenario: Scenario) -> float:
    """GPU time by peak figures alone: the rate of memory; half of it for half the bytes."""
    before = step.card.value("hbm.bandwidth") or 1.0
    after = (scenario.gpu or step.card).value("hbm.bandwidth") or before
    return before / after * (0.5 if scenario.dtype == "fp8" else 1.0)


def products(folder: Path) -> Iterator[Case]:
    """Each product of the dense model's sizes, in both dtypes."""
    tables = {
        dtype: {
            (row.axes["m"], row.axes["n"], row.axes["k"]): row
            for row in operator_table(
                open_attributed(str(folder / f"products-{dtype}.json.gz"))
            ).operators
            if row.axes is not None and row.operator == "dense_gemm"
        }
        for dtype in ("bf16", "fp8")
    }
    from solscope.hardware import with_measured
    from solscope.whatif.call_work import least, work_us
    from solscope.whatif.scaling import in_dtype
    from solscope.whatif.timing import DTYPE_NOISE, NOISE, carried_over

    card = with_measured(named_hardware("H200"))
    for size, bf16 in tables["bf16"].items():
        fp8 = tables["fp8"].get(size)
        if fp8 is None or bf16.axes is None:
            continue
        narrow = least("dense_gemm", in_dtype("dense_gemm", bf16.axes, "fp8"), card)
        works = work_us(least("dense_gemm", bf16.axes, card), narrow)
        if works is None:
            continue
        before, after = works
        low, middle, high = carried_over(bf16.time_us, before, after)
        wide = 1 + NOISE + DTYPE_NOISE
        yield Case((2 - wide) * low, middle, wide * high, after, bf16.time_us / 2, fp8.time_us)


def across(shared: Path) -> Iterator[tuple[str, list[Case]]]:
    """The same work on two GPUs, in both directions, and the replayed loop."""
    names = {name: shared / f"traces/{name}_qwen1.5-0.5b.json.gz" for name in ("h100", "mi300")}
    if all(path.exists() for path in names.values()):
        h100, mi300 = (
            recorded_step(open_attributed(str(path)), None, None) for path in names.values()
        )
        cases = [
            case(a, Scenario(gpu=named_hardware(b.card.name)), b.wall_us / 1e3)
            for a, b in ((h100, mi300), (mi300, h100))
        ]
        yield "H100 to MI300X and back, step", cases
        gpu = []
        for a, b in ((h100, mi300), (mi300, h100)):
            there = Scenario(gpu=named_hardware(b.card.name), no_host_gaps=True)
            found = predict(a, there)
            outside = found.predicted_ms - found.gpu_ms
            gpu.append(
                Case(
                    found.low_ms - outside,
                    found.gpu_ms,
                    found.high_ms - outside,
                    case(a, there, 1.0).roofline - outside,
                    a.busy_us / 1e3 * peak_ratio(a, there),
                    b.busy_us / 1e3,
                )
            )
        yield "H100 to MI300X and back, GPU time", gpu
    loop = shared / "h200/graph"
    if loop.exists():
        plain = str(loop / "no_cuda_graph.trace.json.gz")
        replay = open_attributed(str(loop / "normal.trace.json.gz"), companion=plain)
        true = recorded_step(replay, None, None).wall_us / 1e3
        eager = recorded_step(open_attributed(plain), None, None)
        yield "serving loop: eager to graph", [case(eager, Scenario(graphs=True), true)]


if __name__ == "__main__":
    sys.exit(main())
