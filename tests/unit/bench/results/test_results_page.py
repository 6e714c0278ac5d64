"""The committed results of the benchmark, and what the docs say of them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import msgspec
import pytest

from solscope.bench.base import EVALUATOR, ShapeResult
from solscope.bench.catalog import built_in
from solscope.bench.results.contrast import OTHER_MACHINE, Contrast, ShapeContrast, contrast
from solscope.bench.results.files import read_results
from solscope.bench.results.score import Score, best_per_shape, score
from solscope.bench.workloads import workloads
from solscope.demo import DEMOS
from solscope.pages.bench import production_s
from solscope.text import in_words
from tests.blocks import check_block

ROOT = Path(__file__).parents[4]
RESULTS = ROOT / "results" / "bench" / "h200.jsonl"
PAGE = ROOT / "docs" / "reference" / "results.md"
DECODE = ROOT / "results" / "bench" / "h200-decode.jsonl"
EARLIER = ROOT / "results" / "bench" / "h200-earlier.jsonl"
BEFORE = ROOT / "results" / "bench" / "h200-before.jsonl"
CROSS_CHECK = ROOT / "results" / "bench" / "cross-check.json"
AIMS = ROOT / "results" / "bench" / "aims.json"
"""What was to be reached: S over all, and ahead of whom in operators from which importance on."""
OURS = "solscope-triton"
WHAT_STOPS = ROOT / "results" / "bench" / "what-stops.json"


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def pct(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def table(found: Score, in_graphs: Score) -> str:
    deployed = production_s()
    graph = {one.operator: one.s for one in in_graphs.operators}
    lines = [
        "| operator | importance | bound µs | best µs | who (shapes) | S | S in graphs | shapes | "
        "S of XPU-A |",
        "|---|--:|--:|--:|---|--:|--:|--:|--:|",
    ]
    for one in sorted(found.operators, key=lambda one: -one.importance):
        who = ", ".join(f"{n} {c}" for n, c in sorted(one.best.items(), key=lambda kv: -kv[1]))
        lines.append(
            f"| `{one.operator}` | {pct(one.importance)} | {number(one.bound_us)} | "
            f"{number(one.median_us)} | {who or '–'} | {pct(one.s)} | "
            f"{pct(graph[one.operator])} | {one.shapes_passed} of {one.shapes} | "
            f"{pct(deployed[one.operator])} |"
        )
    lines.append(
        f"| all of these | {pct(found.covered)} | | | | {pct(found.weighted_s)} | "
        f"{pct(in_graphs.weighted_s)} | | |",
    )
    return "\n".join(lines) + "\n"


def by_solution(lines: Sequence[ShapeResult]) -> str:
    """How much of the suite each solution was measured on, and its S there."""
    rows = [
        "| solution | operators | shapes passed | failed | S | covered | S of what it covers |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    names = Counter(one.solution for one in lines)
    for name, _ in names.most_common():
        own = [one for one in lines if one.solution == name]
        passed = [one for one in own if one.status == "passed"]
        found = score(passed)
        rows.append(
            f"| `{name}` | {len({one.operator for one in passed})} | {len(passed)} | "
            f"{len(own) - len(passed)} | {pct(found.weighted_s)} | {pct(found.covered)} | "
            f"{pct(found.s_covered)} |"
        )
    return "\n".join(rows) + "\n"


def failures(lines: Sequence[ShapeResult]) -> str:
    """What did not pass, and why."""
    rows = ["| operator | shape | solution | status | why |", "|---|--:|---|---|---|"]
    for one in lines:
        if one.status != "passed":
            why = (one.reason or "").partition("\n")[0].replace("|", "\\|")
            why = why if len(why) <= 150 else f"{why[:149]}…"
            rows.append(
                f"| `{one.operator}` | {one.shape} | `{one.solution}` | {one.status} | {why} |"
            )
    return "\n".join(rows) + "\n"


def effort(lines: Sequence[ShapeResult]) -> str:
    """How thoroughly the lines were checked and timed, by the commands that made them."""
    rows = [
        "| draws of a shape | cases beside | processes | seconds | lines | solutions |",
        "|--:|--:|--:|--:|--:|---|",
    ]

    defaults = {"rounds": "2", "extra": "6", "restarts": "3", "seconds-per-shape": "0.4"}

    def asked(line: ShapeResult) -> tuple[str, ...]:
        command = line.run["command"]
        return tuple(
            next(iter(re.findall(rf"--{name} ([\d.]+)", command)), default)
            for name, default in defaults.items()
        )

    for given, count in Counter(map(asked, lines)).most_common():
        who = sorted({f"`{one.solution}`" for one in lines if asked(one) == given})
        rows.append(f"| {' | '.join(given)} | {count:,} | {', '.join(who)} |")
    return "\n".join(rows) + "\n"


@cache
def results_of(*files: Path) -> list[ShapeResult]:
    """The lines of these files, read once."""
    return read_results(files)


@cache
def same_solution(name: str) -> Contrast:
    """Two runs of one solution on one card."""
    return contrast(results_of(EARLIER), results_of(RESULTS), name, name)


def two_runs(first: Sequence[ShapeResult]) -> str:
    """How far apart two runs of each solution are, and how often `compare` tells them apart."""

    def within(off: Sequence[float]) -> str:
        shares = (sum(one <= most for one in off) / len(off) for most in (0.01, 0.05))
        return " | ".join(pct(share) for share in shares)

    rows = [
        "| solution | pairs | within 1 % | within 5 % | significant | most apart | together |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    everywhere: list[float] = []
    all_told = 0
    for name, pairs in Counter(one.solution for one in first).most_common():
        found = same_solution(name)
        off = [max(one.ratio, 1 / one.ratio) - 1 for one in found.shapes]
        told = sum(one.verdict != "cannot tell" for one in found.shapes)
        assert pairs == len(off)
        rows.append(
            f"| `{name}` | {pairs} | {within(off)} | {told} | {1 + max(off):.2f}× | "
            f"{found.ratio:.3f} ({found.low:.3f} to {found.high:.3f}) |"
        )
        everywhere += off
        all_told += told
    total = f"| all | {len(everywhere):,} | {within(everywhere)} | {all_told} |"
    rows.append(f"{total} {1 + max(everywhere):.2f}× | |")
    return "\n".join(rows) + "\n"


def cross_check() -> str:
    """Times of `cold-v1` beside those of Nsight Compute."""
    rows = [
        "| operator | shape | clock | cold-v1 µs | ncu µs | cold / ncu |",
        "|---|--:|---|--:|--:|--:|",
    ]
    rows += [
        f"| `{one['operator']}` | {one['shape']} | {one['clock']} | {number(one['cold_us'])} | "
        f"{number(one['ncu_us'])} | {one['cold_over_ncu']:.3f} |"
        for one in msgspec.json.decode(CROSS_CHECK.read_bytes())["shapes"]
        if one["kernels"] == 1
    ]
    return "\n".join(rows) + "\n"


def what_stops(lines: Sequence[ShapeResult], which: str) -> str:
    """Counters of the heaviest operators, or where solutions are level, beside their S."""
    s = {(one.operator, one.shape, one.solution): one.s for one in lines}
    counted = msgspec.json.decode(WHAT_STOPS.read_bytes())[which]
    units = list(counted[0]["busy_pct"])
    rows = [
        f"| operator | shape | by | S | {' | '.join(units)} | what stops it |",
        f"|---|--:|---|--:|{'--:|' * len(units)}---|",
    ]
    for one in counted:
        busy = " | ".join(f"{one['busy_pct'][unit]:.0f} %" for unit in units)
        own = s[one["operator"], one["shape"], one["solution"]]
        rows.append(
            f"| `{one['operator']}` | {one['shape']} | {one['solution']} | {pct(own)} | {busy} | "
            f"{one['reason']} |"
        )
    return "\n".join(rows) + "\n"


class Rivals(NamedTuple):
    """Our kernels beside the best other solution of an operator, over the shapes of both."""

    operator: str
    shapes: str
    own_s: float | None
    best: str
    their_s: float

    @property
    def ahead(self) -> bool:
        return (self.own_s or 0.0) >= self.their_s


def rivals(lines: Sequence[ShapeResult], importance: float) -> list[Rivals]:
    """All operators from this importance on, the heaviest first."""
    found = []
    for one in sorted(score(lines).operators, key=lambda one: -one.importance):
        if one.importance < importance:
            continue
        own = [line for line in lines if line.operator == one.operator and line.status == "passed"]
        shapes: dict[str, set[str]] = {}
        for line in own:
            shapes.setdefault(line.solution, set()).add(line.shape)
        mine = shapes.pop(OURS, None)
        pairs = {}
        for name, theirs in shapes.items():
            both = theirs if mine is None else theirs & mine
            if len(theirs) >= one.shapes - 1:
                chosen = [line for line in own if line.shape in both]
                pairs[name] = (
                    _s(chosen, name),
                    None if mine is None else _s(chosen, OURS),
                    len(both),
                )
        best = max(pairs, key=lambda name: pairs[name][0])
        their_s, own_s, count = pairs[best]
        found.append(Rivals(one.operator, f"{count} of {one.shapes}", own_s, best, their_s))
    return found


def ahead(lines: Sequence[ShapeResult]) -> str:
    """S of our kernels and of the best other solution, by operator, over shapes of both."""
    rows = ["| operator | shapes | ours | best other | its S |", "|---|--:|--:|---|--:|"]
    for one in rivals(lines, aims()["ahead"]["importance"]):
        front, back = ("**", "") if one.ahead else ("", "**")
        rows.append(
            f"| `{one.operator}` | {one.shapes} | {front}{pct(one.own_s)}{front} | "
            f"{one.best} | {back}{pct(one.their_s)}{back} |"
        )
    return "\n".join(rows) + "\n"


def aims() -> dict[str, dict[str, float]]:
    """What was to be reached."""
    return msgspec.json.decode(AIMS.read_bytes(), type=dict[str, dict[str, float]])


def summary(lines: Sequence[ShapeResult]) -> str:
    """The page in a few sentences."""
    cold, graphs = score(lines), score(lines, method="graph")
    return "".join(
        f"- {sentence}\n"
        for sentence in (
            _said_of_s(cold, graphs),
            _said_of_torch_compile(lines),
            _said_of_rivals(lines),
            _said_of_bounds(cold, lines),
            _said_of_what_is_left(cold),
        )
    )


def _said_of_s(cold: Score, graphs: Score) -> str:
    wanted = aims()["s"]
    reached = [
        f"{100 * value:.0f} % ({'reached' if (cold.weighted_s or 0.0) >= value else 'not reached'})"
        for value in (wanted["floor"], wanted["aim"])
    ]
    passed, shapes = (
        sum(getattr(one, name) for one in cold.operators) for name in ("shapes_passed", "shapes")
    )
    return (
        f"**S, the bound divided by the time, is {pct(cold.weighted_s)} in cold calls and "
        f"{pct(graphs.weighted_s)} in CUDA graphs**, over {len(cold.operators)} operators by their "
        f"importance; {passed} of {shapes} shapes have a solution that passed. The aims in cold "
        f"calls were {in_words(reached)}."
    )


def _said_of_torch_compile(lines: Sequence[ShapeResult]) -> str:
    others = {
        one.operator: one.s or 0.0
        for one in score([one for one in lines if one.solution != "torch-compile"]).operators
    }
    theirs = {one.operator: one.s or 0.0 for one in score(lines, "torch-compile").operators}
    behind = [name for name in theirs if others.get(name, 0.0) <= theirs[name]]
    count = len(theirs) - len(behind)
    said = (
        "The fastest other solutions are ahead of `torch.compile` in "
        f"{count} of {len(theirs)} operators"
    )
    return f"{said}; not in {named(behind)}." if behind else f"{said}."


def _said_of_rivals(lines: Sequence[ShapeResult]) -> str:
    importance = aims()["ahead"]["importance"]
    found = rivals(lines, importance)
    behind = [f"`{one.operator}` ({one.best})" for one in found if not one.ahead]
    said = (
        f"Of the {len(found)} operators with an importance of at least {100 * importance:.0f} %, "
        f"our kernels are ahead of every other solution in {len(found) - len(behind)} in cold "
        "calls; all were aimed at"
    )
    return f"{said}. Others are ahead in {in_words(behind)}." if behind else f"{said}."


def _said_of_bounds(cold: Score, lines: Sequence[ShapeResult]) -> str:
    lowest = sorted(cold.operators, key=lambda one: one.s or 0.0)[:5]
    above = sum((one.s or 0.0) > 1 for one in lines)
    return (
        "Furthest from their bounds: "
        f"{in_words([f'`{one.operator}` ({pct(one.s)})' for one in lowest])}. "
        + {0: "No line is faster than its bound.", 1: "1 line is faster than its bound."}.get(
            above, f"{above} lines are faster than their bounds."
        )
    )


def _said_of_what_is_left(cold: Score) -> str:
    most = sorted(cold.operators, key=lambda one: -(one.recoverable or 0.0))[:3]
    return (
        f"{pct(cold.recoverable)} of the GPU time would be saved at the bounds, most of it in "
        f"{in_words([f'`{one.operator}` ({pct(one.recoverable)})' for one in most])}."
    )


def named(names: Sequence[str]) -> str:
    """Operators in a sentence."""
    return in_words([f"`{name}`" for name in names])


def _s(lines: Sequence[ShapeResult], solution: str) -> float:
    """Of one operator, over the shapes there are."""
    (operator,) = score(lines, solution=solution).operators
    return operator.s_passed or 0.0


@cache
def three_processes() -> dict[tuple[str, str], Contrast]:
    """By set of shapes and solution, three processes and three of later runs."""
    found = {}
    for suite, file in (("atrex", RESULTS), ("decode", DECODE)):
        lines = [one for one in results_of(BEFORE) if one.suite == suite]
        for name, _ in Counter(one.solution for one in lines).most_common():
            found[suite, name] = contrast(lines, results_of(file), name, name)
    return found


def before() -> str:
    """How far two runs in three processes are apart, and how often intervals have the ratio 1."""
    rows = [
        "| solution | pairs | within 1 % | within 2 % | within 5 % | intervals that hold | "
        "3.5 % wider | together |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for (suite, name), found in three_processes().items():
        off = [max(one.ratio, 1 / one.ratio) - 1 for one in found.shapes]
        shares = (sum(one <= most for one in off) / len(off) for most in (0.01, 0.02, 0.05))
        held = (sum(_holds(one, extra) for one in found.shapes) for extra in (0.0, OTHER_MACHINE))
        rows.append(
            f"| `{name}`{', `decode` set' * (suite == 'decode')} | {len(off)} | "
            f"{' | '.join(map(pct, shares))} | {' | '.join(map(str, held))} | "
            f"{found.ratio:.3f} ({found.low:.3f} to {found.high:.3f}) |"
        )
    return "\n".join(rows) + "\n"


def _holds(one: ShapeContrast, extra: float) -> bool:
    """Whether an interval with so much more on both sides has the ratio 1."""
    already = 1 + OTHER_MACHINE
    return one.low * already / (1 + extra) <= 1 <= one.high / already * (1 + extra)


def family(line: ShapeResult) -> str:
    """What a shape of the decode set is an example of."""
    first = line.shape.partition("-")[0]
    names = {"prefix": "cached prefix", "page64": "decode", "verify": "4 queries each"}
    split = line.operator in ("dense_gemm", "unified_attention")
    return names.get(first, first) if split else ""


def _fastest(lines: Sequence[ShapeResult], method: str) -> list[ShapeResult]:
    """The fastest line of each shape by a method."""

    def us(line: ShapeResult) -> float:
        timed = line.methods.get(method)
        return (timed and timed.median_us) or math.inf

    return [
        min((one for one in lines if one.shape == shape), key=us)
        for shape in dict.fromkeys(one.shape for one in lines)
    ]


def _counted(fastest: Sequence[ShapeResult]) -> str:
    who = Counter(one.solution for one in fastest).most_common()
    return ", ".join(f"{name} {count}" for name, count in who)


def decode_set(lines: Sequence[ShapeResult]) -> str:
    """Median S of every solution by kind of shape, and the range of the best."""
    names = [name for name, _ in Counter(one.solution for one in lines).most_common()]
    rows = [
        f"| operator | shapes | {' | '.join(f'`{name}`' for name in names)} | best, from to | "
        "fastest (shapes) | in graphs |",
        f"|---|--:|{'--:|' * len(names)}--:|---|---|",
    ]
    for operator, kind in dict.fromkeys((one.operator, family(one)) for one in lines):
        own = [one for one in lines if (one.operator, family(one)) == (operator, kind)]
        by_name = {
            name: [one.s for one in own if one.solution == name and one.s is not None]
            for name in names
        }
        cold, graphs = (_fastest(own, method) for method in ("cold-v1", "graph-v2"))
        best = [one.s or 0.0 for one in cold]
        medians = (pct(median(found)) if found else "–" for found in by_name.values())
        rows.append(
            f"| `{operator}`{', ' * bool(kind)}{kind} | {len(best)} | {' | '.join(medians)} | "
            f"{pct(min(best))} to {pct(max(best))} | "
            f"{_counted(cold)} | {_counted(graphs)} |"
        )
    return "\n".join(rows) + "\n"


@pytest.mark.parametrize(
    "name",
    [
        *("summary", "results", "solutions", "failures", "effort", "cross-check", "decode"),
        *("what stops", "level", "before", "ahead"),
        pytest.param("two runs", marks=pytest.mark.long),
    ],
)
def test_the_page_shows_the_committed_results(name: str) -> None:
    lines = results_of(RESULTS)
    makers: dict[str, Callable[[], str]] = {
        "summary": lambda: summary(lines),
        "results": lambda: table(score(lines), score(lines, method="graph")),
        "solutions": lambda: by_solution(lines),
        "failures": lambda: failures(lines),
        "effort": lambda: effort(lines),
        "two runs": lambda: two_runs(results_of(EARLIER)),
        "cross-check": cross_check,
        "what stops": lambda: what_stops(lines, "operators"),
        "level": lambda: what_stops(lines, "level"),
        "before": before,
        "ahead": lambda: ahead(lines),
        "decode": lambda: decode_set(results_of(DECODE)),
    }
    check_block(PAGE, name, makers[name]())


def test_the_summary_follows_from_the_lines() -> None:
    """Whatever changes in the results changes what is said first."""
    lines = results_of(RESULTS)
    before = summary(lines).splitlines()
    compiled = [one for one in lines if one.solution == "torch-compile"]
    heaviest = max(score(lines).operators, key=lambda one: one.importance)
    without = [one for one in lines if one.operator != heaviest.operator]
    s, torch, rivals_said, bounds, left = summary(compiled + without).splitlines()
    assert s != before[0]
    assert "(not reached)" in s
    assert f"`{heaviest.operator}`" in torch
    assert f"`{heaviest.operator}`" in rivals_said
    assert left != before[4]
    slow = min(score(lines).operators, key=lambda one: one.s or 0.0)
    assert f"bounds: `{slow.operator}` ({pct(slow.s)})" in before[3]
    impossible = [msgspec.structs.replace(lines[0], s=1.5), *lines[1:]]
    assert "1 lines" not in (said := summary(impossible))
    assert "1 line is faster than its bound" in said
    assert "No line is faster than its bound" in bounds


def test_cold_calls_take_what_nsight_compute_says() -> None:
    shapes = msgspec.json.decode(CROSS_CHECK.read_bytes())["shapes"]
    long = [one for one in shapes if one["kernels"] == 1 and one["ncu_us"] > 10]
    assert len(long) >= 10
    lines = {(one.operator, one.shape, one.solution): one for one in results_of(RESULTS)}
    for one in shapes:
        line = lines[one["operator"], one["shape"], one["solution"]]
        assert line.median_us == one["cold_us"], (one["operator"], one["shape"])
    capped = [one for one in long if is_capped(lines, one)]
    others = [one for one in long if one not in capped]
    assert len(others) >= 10
    assert all(0.95 <= one["cold_over_ncu"] <= 1.05 for one in others)
    # The card slows down while such calls follow each other; under ncu there is a pause between.
    assert all(0.95 <= one["p20_us"] / one["ncu_us"] <= 1.05 for one in capped)


def is_capped(lines: Mapping[tuple[str, str, str], ShapeResult], one: dict[str, Any]) -> bool:
    """Whether a call of tens of milliseconds was timed at the power cap."""
    sensors = lines[one["operator"], one["shape"], one["solution"]].sensors
    return one["ncu_us"] > 10_000 and sensors is not None and "power cap" in sensors.throttle


def test_torch_passes_on_every_shape_of_the_suite() -> None:
    listed = {(name, one.shape) for name, shapes in workloads("atrex").items() for one in shapes}
    lines = results_of(RESULTS)
    for solution in ("torch-eager", "torch-compile"):
        own = [one for one in lines if one.solution == solution and one.status == "passed"]
        assert {(one.operator, one.shape) for one in own} == listed
        assert all(one.median_us and one.methods["cold-v1"] for one in own)


def by_default(line: ShapeResult) -> bool:
    """Whether it was checked with the default effort."""
    return re.search("--rounds|--extra", line.run["command"]) is None


def page_text() -> str:
    """The page without line breaks."""
    return " ".join(PAGE.read_text(encoding="utf-8").split())


def test_the_page_says_how_often_the_card_was_at_its_power_cap() -> None:
    told = []
    for file in (RESULTS, DECODE):
        passed = [one for one in results_of(file) if one.status == "passed"]
        capped = sum("power cap" in one.sensors.throttle for one in passed if one.sensors)
        told.append(f"{capped} of the {len(passed):,}")
    page = page_text()
    assert all(one in page for one in told), told


def in_three(line: ShapeResult) -> bool:
    """Whether it was checked with the default effort and timed in three processes."""
    return by_default(line) and len(line.samples_per_restart) >= 3


def not_in_three_near_the_fastest(file: Path) -> int:
    """Lines within 5 % of the fastest of their shape that were checked or timed with less."""
    lines = results_of(file)
    best = {
        (one.operator, one.shape): one.median_us or math.inf
        for operator in {one.operator for one in lines}
        for one in best_per_shape(lines, operator)
    }
    near = [
        one
        for one in lines
        if one.status == "passed"
        and (one.median_us or math.inf) <= 1.05 * best[one.operator, one.shape]
    ]
    return sum(not in_three(one) for one in near)


def test_the_page_says_with_which_effort_lines_were_measured() -> None:
    page, lines = page_text(), results_of(RESULTS)
    own = [one for one in lines if one.solution in ("solscope-triton", "cublas")]
    assert all(in_three(one) for one in own)
    assert all(by_default(one) for one in results_of(RESULTS, DECODE))
    once = sum(not in_three(one) for one in lines)
    assert not any(not_in_three_near_the_fastest(file) for file in (RESULTS, DECODE))
    for text in (
        "All lines were checked with the default effort",
        "all within 5 % of the fastest in both sets, were timed in three processes",
        f"the other {once:,} of the suite in one",
    ):
        assert text in page, text


def test_the_page_says_how_many_lines_are_noisy() -> None:
    own = [one for one in results_of(RESULTS) if one.solution == "solscope-triton"]
    noisy = sum(one.methods["cold-v1"].noisy for one in own)
    assert (
        f"{noisy} of the {len(own)} lines of `solscope-triton` are noisy in cold calls"
        in page_text()
    )


def test_the_page_says_which_lines_are_of_which_day() -> None:
    lines = results_of(RESULTS)
    earlier = {(one.operator, one.shape, one.solution): one for one in results_of(EARLIER)}
    assert not any("graph-v1" in one.methods for one in results_of(RESULTS, DECODE))
    assert {one.run["time"][:10] for one in results_of(RESULTS, DECODE)} == {"2026-11-18"}
    pairs = [(earlier.get((one.operator, one.shape, one.solution)), one) for one in lines]
    medians = [(old.by("graph"), new.by("graph")) for old, new in pairs if old is not None]
    longer = sorted(
        old[1].median_us / new[1].median_us
        for old, new in medians
        if old and new and old[1].median_us and new[1].median_us
    )
    middle = f"{100 * longer[len(longer) // 2] - 100:.0f} %"
    page = page_text()
    for text in (
        "All lines are of 2026-11-18, in both sets.",
        f"{sum(in_three(one) for one in lines)} of the suite are of three processes",
        f"{middle} longer in the middle of {len(longer):,} pairs",
    ):
        assert text in page, text
    assert longer[int(0.95 * len(longer))] >= 1.25


def test_the_page_says_which_evaluator_measured() -> None:
    """One, the newest: nothing older is left."""
    lines, decode = results_of(RESULTS), results_of(DECODE)
    assert {one.evaluator for one in [*lines, *decode]} == {EVALUATOR}
    told = f"timed all {len(lines):,} lines, and all {len(decode)} of the `decode` set"
    assert told in page_text(), told


def test_the_page_says_how_many_lines_were_drawn_with_other_arguments() -> None:
    """Runs of 2026-11-18 since the afternoon vary plain arguments."""
    varied, decode_varied = (
        sum(one.run["time"] >= "2026-11-18T12" for one in results_of(file))
        for file in (RESULTS, DECODE)
    )
    told = f"{varied} of these lines, and {decode_varied} of the `decode` set, were checked so"
    assert told in page_text(), told


def test_runs_of_three_processes_agree_within_their_intervals() -> None:
    shapes = [one for found in three_processes().values() for one in found.shapes]
    assert len(shapes) == len(results_of(BEFORE))
    assert {one.processes for one in shapes} == {(3, 3)}
    assert all(one.other_machine for one in shapes)

    def held(pairs: Sequence[ShapeContrast], extra: float) -> int:
        return sum(_holds(one, extra) for one in pairs)

    assert held(shapes, OTHER_MACHINE) >= 0.95 * len(shapes)
    page = page_text()
    assert f"{held(shapes, 0.0)} of these {len(shapes)} intervals hold as they are" in page
    assert (
        f"{held(shapes, 0.025)} with 2.5 %, {held(shapes, 0.03)} with 3 % and "
        f"{held(shapes, 0.035)} with 3.5 %"
    ) in page


def test_what_stops_the_heaviest_operators_is_of_the_kernels_that_ship() -> None:
    lines = {(one.operator, one.shape, one.solution): one for one in results_of(RESULTS)}
    stops = msgspec.json.decode(WHAT_STOPS.read_bytes())
    operators = stops["operators"]
    importance = [one["importance"] for one in operators]
    assert importance == sorted(importance, reverse=True)
    assert len(operators) == 15
    for one in [*operators, *stops["level"]]:
        line = lines[one["operator"], one["shape"], one["solution"]]
        assert line.solution_hash == one["solution_hash"]
        # Nsight Compute counts about a microsecond more per kernel.
        assert one["ncu_us"] <= 1.05 * (line.median_us or 0.0) + 1.5 * one["kernels"]
        unit = max(one["busy_pct"], key=lambda name: one["busy_pct"][name])
        if "at" in one["reason"].split():
            assert one["reason"] == f"{unit} at {one['busy_pct'][unit]:.0f} %"


@pytest.mark.long
def test_two_runs_of_one_card_agree_within_their_intervals() -> None:
    first = results_of(EARLIER)
    runs = [same_solution(name) for name in sorted({one.solution for one in first})]
    assert {found.verdict for found in runs} == {"cannot tell"}
    verdicts = [one.verdict for found in runs for one in found.shapes]
    assert len(verdicts) == len(first)
    assert sum(verdict != "cannot tell" for verdict in verdicts) <= 0.05 * len(verdicts)


@pytest.mark.long
def test_the_page_says_what_intervals_of_one_process_are_worth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("solscope.bench.results.contrast.ONE_PROCESS", 0.0)
    first, again = results_of(EARLIER), results_of(RESULTS)
    shapes = [
        shape
        for name in sorted({one.solution for one in first})
        for shape in contrast(first, again, name, name).shapes
    ]
    open_ = sum(one.verdict == "cannot tell" for one in shapes) / len(shapes)
    page = page_text()
    assert f"without that they are too narrow, and hold for {100 * open_:.0f} %" in page


@pytest.mark.parametrize("file", [RESULTS, DECODE, EARLIER, BEFORE], ids=lambda file: file.stem)
def test_results_are_of_the_solutions_that_ship(file: Path) -> None:
    shipped = built_in()
    hashes: dict[tuple[str, str], str] = {}
    for line in results_of(file):
        key = (line.solution, line.operator)
        if key not in hashes:
            hashes[key] = shipped.get(line.solution).hash(line.operator)
        assert line.solution_hash == hashes[key], (*key, line.shape)


def test_no_passed_result_beats_its_bound() -> None:
    for line in results_of(RESULTS, DECODE):
        if line.status == "passed":
            assert line.s is not None
            assert line.s <= 1, (line.operator, line.shape, line.solution)


def test_the_demo_is_a_selection_of_these_results() -> None:
    (demo,) = (path for path in (ROOT / "src" / "solscope" / "demo").glob("bench-*.jsonl"))
    chosen, solutions = (
        {getattr(one, what) for one in results_of(demo)} for what in ("operator", "solution")
    )
    assert f"{len(chosen)} operators, {len(solutions)} solutions" in DEMOS["bench-h200"].about
    assert results_of(demo) == [
        msgspec.structs.replace(one, run_digest=own.run_digest)
        for one, own in zip(
            (one for one in results_of(RESULTS) if one.operator in chosen),
            results_of(demo),
            strict=True,
        )
    ]


def test_results_name_the_machine_and_the_command() -> None:
    for line in results_of(RESULTS, DECODE):
        assert line.device == "NVIDIA H200"
        assert line.run["command"].startswith("solscope bench run")
        assert {"torch", "triton", "python"} <= set(line.run["versions"])
        assert line.run["driver"]
        assert line.sensors is not None or line.status != "passed"
