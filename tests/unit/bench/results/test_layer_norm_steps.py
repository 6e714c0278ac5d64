"""The page on faster kernels: every number and every piece of code is that of committed files."""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Callable
from datetime import datetime
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from solscope.bench.audit import audit
from solscope.bench.base import ShapeResult
from solscope.bench.catalog import find_solution
from solscope.bench.results.contrast import ONE_PROCESS, ShapeContrast, contrast
from solscope.bench.results.files import read_results
from solscope.hardware import find
from tests.blocks import check_block

ROOT = Path(__file__).parents[4]
PAGE = ROOT / "docs" / "how-to" / "make-a-kernel-faster.md"
KERNELS = ROOT / "examples" / "kernels" / "layer_norm"
MEASURED = ROOT / "results" / "layer-norm-steps"
SUITE = ROOT / "results" / "bench" / "h200.jsonl"
START = "torch-compile"
OTHERS = (START, "torch-eager", "flashinfer", "liger", "fla", "solscope-triton")
WHAT = {
    "step1_rows": "a program per row, read three times",
    "step2_registers": "read once, kept in registers",
    "step3_warps": "four warps instead of one",
    "step4_cache": "hints to the caches",
}
STEPS = list(WHAT)
BEST = STEPS[2]
WARPS, PROGRAMS = 64, 32
"""Most on a multiprocessor of compute capability 9.0 (CUDA C++ Programming Guide)."""


@cache
def lines() -> dict[str, ShapeResult]:
    """By solution, on the shape of the page: the steps and what they are compared with."""
    found = read_results([SUITE, MEASURED / "h200.jsonl"])
    return {one.solution: one for one in found if (one.operator, one.shape) == ("layer_norm", "9")}


def us(name: str) -> float:
    time = lines()[name].median_us
    assert time is not None
    return time


def s(name: str) -> float:
    """In percent."""
    share = lines()[name].s
    assert share is not None
    return 100 * share


def in_graph(name: str) -> float:
    time = lines()[name].methods["graph-v2"].median_us
    assert time is not None
    return time


@cache
def against_the_one_before(name: str) -> ShapeContrast:
    before = dict(zip(STEPS, [START, *STEPS], strict=False))[name]
    a, b = lines()[before], lines()[name]
    (shape,) = contrast([a], [b], before, name).shapes
    return shape


def ratio(name: str) -> str:
    one = against_the_one_before(name)
    return f"{one.ratio:.3f} ({one.low:.3f} to {one.high:.3f})"


def source(name: str) -> str:
    return (KERNELS / f"{name}.py").read_text(encoding="utf-8")


def excerpt(name: str, first: str, last: str) -> str:
    """From the line that begins so to the next one that begins with `last`."""
    code = source(name).splitlines()
    begin = next(i for i, line in enumerate(code) if line.strip().startswith(first))
    end = next(i for i, line in enumerate(code) if i > begin and line.strip().startswith(last))
    return f"```python\n{textwrap.dedent(chr(10).join(code[begin : end + 1]))}\n```\n"


def change_to(name: str) -> str:
    """Lines that differ from the step before, after the docstring of the file."""
    before, after = (source(one).splitlines()[1:] for one in (STEPS[STEPS.index(name) - 1], name))
    changed = [
        line
        for line in difflib.unified_diff(before, after, n=0, lineterm="")
        if not line.startswith(("---", "+++", "@@")) and line.strip("+-")
    ]
    return "\n".join(["```diff", *changed, "```", ""])


def profile_of(name: str) -> str:
    """What `bench profile` printed; of `tune`, what it showed last while the steps were saved."""
    text = (MEASURED / f"{name}.txt").read_text(encoding="utf-8")
    command, _, printed = text.partition("\n\n")
    asked = command.splitlines()[0].removeprefix("# ")
    return f"```text\n$ {asked}\n{printed}```\n"


class Counters:
    """The line of the only kernel in a profile."""

    def __init__(self, name: str) -> None:
        row = re.search(r"^ +1 .* (?:kernel|triton_\w+)$", profile_of(name), re.MULTILINE)
        assert row
        self.us, self.mb, self.occupancy, self.dram, self.sm = re.findall(r"[\d.]+", row[0])[1:6]


def start() -> str:
    run = lines()[BEST].run
    versions = run["versions"]
    return (
        "This page follows one operator, `layer_norm`, on an H200: from "
        f"{s(START):.0f} % of its bound, which is what `{START}` reaches,\n"
        f"to {s(BEST):.0f} % in three steps. A fourth made it slower. (PyTorch "
        f"{versions['torch']}, Triton {versions['triton']}, {run['time'][:10]}.)\n"
    )


def solutions() -> str:
    rows = ["| solution | time | S |", "|---|--:|--:|"]
    ordered = sorted(OTHERS, key=us, reverse=True)
    rows += [f"| `{name}` | {us(name):.1f} µs | {s(name):.1f} % |" for name in ordered]
    return "\n".join(rows) + "\n"


def result_of(name: str) -> str:
    one = against_the_one_before(name)
    before = one.a_solution
    time, share = ("falls", "rises") if one.verdict == "faster" else ("rises", "falls")
    return (
        f"**Result:** {one.verdict}. The time {time} from {us(before):.2f} to {us(name):.2f} µs "
        f"(in a graph from {in_graph(before):.2f} to {in_graph(name):.2f} µs),\n"
        f"S {share} from {s(before):.1f} to {s(name):.1f} %.\n"
    )


def steps() -> str:
    rows = [
        "| kernel | what is new | time | S | in a graph | ratio (95 %) |",
        "|---|---|--:|--:|--:|--:|",
        f"| `{START}` | – | {us(START):.2f} µs | {s(START):.1f} % | {in_graph(START):.2f} µs | – |",
    ]
    rows += [
        f"| `{name}` | {what} | {us(name):.2f} µs | {s(name):.1f} % | {in_graph(name):.2f} µs | "
        f"{ratio(name)} |"
        for name, what in WHAT.items()
    ]
    return "\n".join(rows) + "\n"


BLOCKS: dict[str, Callable[[], str]] = {
    "start": start,
    "solutions": solutions,
    "steps": steps,
    "code of step 1": lambda: excerpt(STEPS[0], "total =", "mean ="),
    "code of step 2": lambda: excerpt(STEPS[1], "at =", "factor ="),
    "code of step 3": lambda: change_to(STEPS[2]),
    "code of step 4": lambda: change_to(STEPS[3]),
    "profile of the start": lambda: profile_of(START),
    "profile of step 1": lambda: profile_of(STEPS[0]),
    "profile of step 2": lambda: profile_of(STEPS[1]),
    "profile of step 3": lambda: profile_of(STEPS[2]),
    "profile of step 4": lambda: profile_of(STEPS[3]),
    "tune": lambda: profile_of("tune"),
    "result of step 1": lambda: result_of(STEPS[0]),
    "result of step 2": lambda: result_of(STEPS[1]),
    "result of step 3": lambda: result_of(STEPS[2]),
    "result of step 4": lambda: result_of(STEPS[3]),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_the_page_has_what_the_files_give(name: str) -> None:
    check_block(PAGE, name, BLOCKS[name]())


def told() -> list[str]:
    """What the sentences between the blocks say."""
    line, compiled = lines()[BEST], Counters(START)
    first, second, third, last = map(Counters, STEPS)
    rows, width = line.axes["tokens"], line.axes["hidden"]
    tensor_mb = 2 * rows * width / 1e6
    least_mb = (2 * 2 * rows * width + 2 * 2 * width) / 1e6
    peak = find("H200").value("hbm.bandwidth")
    assert peak
    at_peak_us = float(third.mb) * 1e12 / peak
    assert line.weight
    assert line.bound_us
    block = re.search(r"BLOCK=(\d+)", source(STEPS[0]))
    assert block
    return [
        f"in blocks of {int(block[1]):,} values",
        f"{rows:,} rows of {width:,} values in bf16, with {100 * line.weight:.0f} % of the",
        f"Its bound is {line.bound_us:.1f} µs, set by `{line.limiter}`",
        f"one tensor of {tensor_mb:.1f} MB and write one, {least_mb:.1f} MB in all",
        f"HBM is at only {compiled.dram} % of its peak rate, and the multiprocessors are at "
        f"{compiled.sm} % of theirs",
        f"Occupancy is {compiled.occupancy} %",
        f"at only {first.dram} % of the peak rate of HBM. The multiprocessors are at {first.sm} %",
        f"{second.sm} % of their peak, but occupancy has fallen from {first.occupancy} to "
        f"{second.occupancy} %",
        f"at most {PROGRAMS} programs and {WARPS} warps",
        f"occupancy cannot exceed {100 * PROGRAMS / WARPS:.0f} %",
        f"now a thread keeps {width // 32} values in registers",
        f"four warps for a row of {width:,}, so that a thread holds {width // (4 * 32)} values and "
        f"not {width // 32}",
        f"HBM is at {third.dram} % of its peak.",
        f"at a lower rate, {last.dram} % of the peak",
        f"{third.us} and {last.us} µs for steps 3 and 4, where the medians of "
        f"{len(lines()[STEPS[3]].samples)} calls in three processes are {us(BEST):.2f} and "
        f"{us(STEPS[3]):.2f} µs",
        f"The {third.mb} MB that step 3 moves take {at_peak_us:.1f} µs at the "
        f"{peak / 1e12:.1f} TB/s of the data sheet",
        f"It takes {us(BEST):.2f} µs: a kernel that moves as much saves "
        f"{100 - 100 * at_peak_us / us(BEST):.0f} % of that at most",
        "`fla` and `solscope-triton` are within 2 % of step 3",
        "with its 95 % interval",
        f"a difference of less than {100 * ONE_PROCESS:.0f} % is never told from noise",
        f"differ by up to {100 * ONE_PROCESS:.0f} % on one card",
    ]


def prose(page: str) -> str:
    """The page without blocks and code, on one line."""
    without = re.sub(r"<!-- ([\w ]+) -->.*?<!-- end of \1 -->", "", page, flags=re.DOTALL)
    return " ".join(re.sub(r"^```.*?^```$", "", without, flags=re.DOTALL | re.MULTILINE).split())


def test_sentences_have_the_measured_numbers() -> None:
    text = prose(PAGE.read_text(encoding="utf-8"))
    for one in told():
        assert one in text, one
        text = text.replace(one, "")
    assert re.findall(r"[\d.,]+ (?:%|µs|MB|TB/s)", text) == [], "numbers that nothing checks"


def test_what_the_page_concludes_holds() -> None:
    assert us(START) > 2 * (lines()[START].bound_us or 0.0)
    assert all(abs(us(name) / us(BEST) - 1) < 0.02 for name in ("fla", "solscope-triton"))
    verdicts = [against_the_one_before(name).verdict for name in STEPS]
    assert verdicts == ["faster", "faster", "faster", "slower"]
    first = against_the_one_before(STEPS[0])
    assert (first.processes, first.other_machine) == ((1, 3), True)
    assert min(STEPS, key=us) == min(STEPS, key=in_graph) == BEST
    compiled, _, second, third, last = map(Counters, [START, *STEPS])
    assert float(compiled.sm) > 2 * float(compiled.dram)
    assert float(third.occupancy) > 3 * float(second.occupancy)
    assert float(last.dram) < float(third.dram)
    assert float(third.us) < us(BEST)
    assert float(last.us) < us(STEPS[3])
    assert len(lines()[BEST].samples) == len(lines()[STEPS[3]].samples)
    sensors = [lines()[name].sensors for name in STEPS]
    assert all(one is not None and "power cap" in one.throttle for one in sensors)
    for name in (START, *STEPS):
        assert "it moves no more bytes than it must" in profile_of(name)


def attempts(name: str) -> list[tuple[str, str]]:
    """When each attempt of `bench tune` was over, and what came of it, the first one first."""
    rows = re.findall(
        r"^ +\d  (\d\d:\d\d:\d\d) .* [\d.]+  (passed.*)$", profile_of(name), re.MULTILINE
    )
    return rows[::-1]


def test_three_processes_tell_the_steps_apart_and_one_does_not() -> None:
    told_apart = [
        "passed",
        "passed, faster than 1",
        "passed, faster than 2",
        "passed, slower than 3",
    ]
    assert [what for _, what in attempts("tune")] == told_apart
    assert "3 processes" in profile_of("tune")
    alone = [what for _, what in attempts("tune-in-one-process")]
    assert alone == ["passed", *(f"passed, no difference can be told from {n}" for n in (1, 2, 3))]
    ends = [datetime.strptime(time, "%H:%M:%S") for time, _ in attempts("tune")]
    took = [(b - a).total_seconds() for a, b in pairwise(ends)]
    assert all(5 <= seconds <= 7 for seconds in took)


def test_the_steps_are_measured_as_they_lie_here() -> None:
    file = MEASURED / "h200.jsonl"
    found = audit([file])
    assert found.findings == []
    assert found.intact == found.lines == len(STEPS)
    for one in read_results([file]):
        path = f"examples/kernels/layer_norm/{one.solution}.py"
        assert find_solution(str(ROOT / path)).hash("layer_norm") == one.solution_hash
        assert f"--solution {path} " in one.run["command"]
        assert len(one.samples_per_restart) == 3
    assert sorted(path.stem for path in KERNELS.glob("*.py")) == STEPS
