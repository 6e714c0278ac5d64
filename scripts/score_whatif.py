"""How far `solscope whatif` is off: predictions of recordings from other recordings, as Markdown.

    python scripts/score_whatif.py RECORDINGS [--shared ../shared/data] [--cases FILE]
    python scripts/score_whatif.py --ranks FOLDER [--from results/whatif/cases.jsonl] [--cases FILE]
    python scripts/score_whatif.py --from results/whatif/cases.jsonl

RECORDINGS is a folder that `scripts/record_whatif.py` wrote on a GPU: steps of two models over
batch and context, launched eagerly and from graphs, with their times without a profiler
(`truth.jsonl`). FOLDER is what `scripts/record_whatif_tp.py` wrote, unpacked: models on 1, 2 and 4
ranks. `--cases` writes every prediction, from which `--from` makes the same table. The figures in
docs/explain/what-if.md are its output.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, permutations
from pathlib import Path
from typing import NamedTuple

import msgspec

from solscope.attribution.opening import open_attributed
from solscope.hardware import Hardware
from solscope.hardware.base import Figure
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
    parser.add_argument("--ranks", type=Path, help="recordings on 1, 2 and 4 ranks")
    given = parser.parse_args()
    if given.recordings and given.written:
        parser.error("give the folder of recordings, or --from a file of predictions")
    if not (given.recordings or given.written or given.ranks):
        parser.error("give a folder of recordings, --ranks, or --from a file of predictions")
    asked: list[Iterator[tuple[str, Iterable[Case]]]] = []
    asked += [questions(given.recordings, given.shared)] if given.recordings else []
    asked += [read_cases(given.written)] if given.written else []
    asked += [over_ranks(given.ranks)] if given.ranks else []
    answered: dict[str, list[Case]] = {}
    for label, cases in chain.from_iterable(asked):
        answered[label] = list(cases)
    print("\n".join((*HEAD, *(row(label, cases) for label, cases in answered.items()))))
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


def read_cases(path: Path) -> Iterator[tuple[str, Iterable[Case]]]:
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
    shared = step.ranks / (scenario.tp or step.ranks)
    return before / after * shared * (0.5 if scenario.dtype == "fp8" else 1.0)


def over_ranks(folder: Path) -> Iterator[tuple[str, Iterable[Case]]]:
    """The same models on more ranks, each rank on a quarter of the GPU.

    Ranks of `solo` have the whole GPU and no collectives.
    """
    truth = {row["name"]: row for row in map(json.loads, (folder / "truth.jsonl").open())}
    calibrated = {r["ranks"]: r for r in map(json.loads, (folder / "calibration.jsonl").open())}
    whole = named_hardware("H200")
    sms = calibrated[1]["sms"]
    quarter = part_of(whole, sms / (whole.value("sm.count") or sms), 1 / 4)
    opened = {name: step_on(folder, name, whole) for name in truth}
    for mode, told in (("from a graph", "graph"), ("launched eagerly", "eager")):
        profiled, without, measured, further = [], [], [], []
        for name in (n for model in WIDTHS for n in truth if n.startswith(model)):
            if not name.endswith(told) or "-tp4-" in name:
                continue
            step = replace(opened[name], card=quarter)
            for ranks in (2, 4):
                target = re.sub("-tp[12]-", f"-tp{ranks}-", name)
                bare = truth[target]["step_ms"]
                if step.ranks == 2 and ranks == 4:
                    further.append(case(step, Scenario(tp=ranks), bare))
                if step.ranks > 1:
                    continue
                profiled.append(case(step, Scenario(tp=ranks), opened[target].wall_us / 1e3))
                without.append(case(step, Scenario(tp=ranks), bare))
                hidden = WIDTHS[name.partition("-")[0]]
                floor = calibrated[ranks][f"reduce_us_1x{hidden}"] * 1e-6
                known = replace(step, card=with_reduces(quarter, floor))
                measured.append(case(known, Scenario(tp=ranks), bare))
        yield f"1 rank to 2 and 4, {mode}", profiled
        yield f"1 rank to 2 and 4, {mode}, without a profiler", without
        if told == "graph":
            yield f"1 rank to 2 and 4, {mode}, all-reduces as measured", measured
            yield f"2 ranks to 4, {mode}, without a profiler", further
    alone = [n for n in truth if n.startswith("solo-dense-tp1") and n.endswith("graph")]
    free = with_reduces(part_of(whole, 1.0, 1.0), 0.0, rate=1e30)
    yield (
        "dense: the part of 1 rank to that of 2 and 4, no collectives",
        [
            case(
                replace(opened[n], card=free),
                Scenario(tp=m),
                truth[n.replace("-tp1-", f"-tp{m}-")]["step_ms"],
            )
            for n in alone
            for m in (2, 4)
        ],
    )


WIDTHS = {"dense": 4096, "narrow": 2048}
"""Hidden sizes of the models that `record_whatif_tp.py` records."""


def step_on(folder: Path, name: str, card: Hardware) -> RecordedStep:
    """The usual step of a recording; graphs take shapes from their eager twin."""
    file = folder / f"{name}.json.gz"
    eager = file.with_name(file.name.replace(".graph.", ".eager."))
    companion = str(eager) if eager != file else None
    return recorded_step(open_attributed(str(file), companion=companion), None, card)


def part_of(card: Hardware, multiprocessors: float, memory: float) -> Hardware:
    """A share of a GPU: of what multiprocessors do, and of the rates of its memories."""

    def scaled(figures: dict[str, Figure], share: float) -> dict[str, Figure]:
        return {
            name: msgspec.structs.replace(figure, value=figure.value * share)
            if figure.unit.endswith("/s")
            else figure
            for name, figure in figures.items()
        }

    return msgspec.structs.replace(
        card, peaks=scaled(card.peaks, multiprocessors), memory=scaled(card.memory, memory)
    )


def with_reduces(card: Hardware, floor_s: float, rate: float | None = None) -> Hardware:
    """The same GPU with a known latency of collectives, and another rate of its links."""
    links = card.chip["interconnect.bandwidth"]
    chip = {**card.chip, "reduce.floor": Figure(floor_s, "s", "measured", links.date)}
    if rate is not None:
        chip["interconnect.bandwidth"] = msgspec.structs.replace(links, value=rate)
    return msgspec.structs.replace(card, chip=chip)


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
