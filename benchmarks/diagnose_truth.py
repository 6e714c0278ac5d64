"""Does `solscope diagnose` say what was done to a recording? A table of edits with known answers.

    python benchmarks/diagnose_truth.py [--alone] [--half tune|test] [--bases N] [--only TEXT]
    python benchmarks/diagnose_truth.py [--alone] --of RECORDING...
    python benchmarks/diagnose_truth.py --two [--half tune|test] [--bases N] [--only TEXT]
    python benchmarks/diagnose_truth.py --steady RECORDING...

Real recordings are drawn anew twice (same steps, same noise) and one draw is edited by a known
amount: sections, kernels, calls, sensors, single steps. Base recordings are split in two halves by
their names: limits may be chosen with `tune`, and `test` is what gets published. With `--alone` one
edited recording is diagnosed on its own. `--two` puts in two faults at once. `--of` takes other
recordings as bases. `--steady` counts how many recordings in which nothing was changed are called
steady, as recorded and with their steps in random order.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import combinations
from pathlib import Path

import msgspec
import numpy as np

import solscope
from solscope.attribution import attribute
from solscope.diagnose.changes.steadiness import movement
from solscope.diagnose.diagnosis import Diagnosis, diagnose_runs
from solscope.diagnose.labels import NO_SECTIONS
from solscope.diagnose.matching.units import fit_steps
from solscope.diagnose.observe import observe
from solscope.diagnose.single import diagnose_run, relative_times
from solscope.diagnose.thresholds import THRESHOLDS
from solscope.intervals import Int64s
from solscope.lab import edits
from solscope.lab.strip import stripped
from solscope.readers.packed import KernelClass, Observations, load

ROOT = Path(__file__).resolve().parents[1]
STEPS = 60
SURE = 0.6
"""Confidence from which on the sentence names a cause without reservation."""
Runs = tuple[Observations, Observations]
NOTHING = frozenset({"none"})


@dataclass(frozen=True)
class Base:
    """A real recording, drawn anew twice."""

    name: str
    normal: Observations
    abnormal: Observations

    @property
    def step_ns(self) -> int:
        """The typical step."""
        return int(np.median([step.wall_ns for step in self.abnormal.steps]))

    @property
    def section(self) -> str | None:
        """The annotated section to slow down: small, so that its growth is out of proportion."""
        sums = {s.name: sum(s.own_ns) for s in self.abnormal.sections if sum(s.calls) >= STEPS}
        return min(sums, key=lambda name: sums[name]) if sums else None

    @property
    def waits(self) -> float:
        """Part of the time in which the GPU waits for code of the host."""
        names = ("host", "launch_call", "between")
        idle = [t for t in self.normal.tiles if t.kind == "idle" and t.name.startswith(names)]
        return sum(sum(t.ns) for t in idle) / self.normal.run.span_ns

    @property
    def sampled(self) -> bool:
        """Whether it has sensors of the host and of the GPU."""
        return {"runq_ns", "gpu_sm_frequency"} <= {c.name for c in self.normal.counters}

    def every(self, part: float, steps: Callable[[Int64s], Int64s]) -> Int64s:
        """Extra time, in typical steps, of steps that a function of their numbers selects.

        Numbers start where the fewest selected steps prefill: slow steps that are all of one phase
        are that phase being slower.
        """
        phases = np.array([step.phase != "decode" for step in self.abnormal.steps])
        numbers = min(
            (np.arange(STEPS) + start for start in range(8)),
            key=lambda moved: int((steps(moved)[phases] > 0).sum()),
        )
        chosen = steps(numbers).astype(np.float64)
        return (part * self.step_ns * chosen).astype(np.int64)


def always(numbers: Int64s) -> Int64s:
    """Every step."""
    return np.ones_like(numbers)


def two(numbers: Int64s) -> Int64s:
    """2 of 60."""
    return np.isin(numbers, (20, 47)).astype(np.int64)


def eighth(numbers: Int64s) -> Int64s:
    """Every 8th."""
    return np.where(numbers % 8 == 5, 1, 0)


@dataclass(frozen=True)
class Case:
    """One edit, and what a diagnosis may say of it."""

    name: str
    edit: Callable[[Base], Runs]
    verdicts: tuple[str, ...]
    scopes: tuple[str | None, ...]
    causes: frozenset[str]
    """`unknown` is always allowed for a regression."""
    fits: Callable[[Base], bool] = field(default=lambda _base: True)


REGRESSION = ("regression",)
SAME = ("no_change",)


def section(base: Base, more: Int64s, thread: edits.Thread = "blocked") -> Observations:
    name = base.section
    if name is None:
        return edits.lengthened(base.abnormal, {("idle", NO_SECTIONS): more}, thread)
    return edits.slower_section(base.abnormal, name, more, thread)


def slow_section(part: float, steps: Callable[[Int64s], Int64s] = always) -> Callable[[Base], Runs]:
    return lambda base: (base.normal, section(base, base.every(part, steps)))


def in_state(
    name: str, part: float, steps: Callable[[Int64s], Int64s] = always
) -> Callable[[Base], Runs]:
    """Extra idle time in a garbage collection."""
    return lambda base: (
        base.normal,
        edits.slower_section(base.abnormal, name, base.every(part, steps), "running"),
    )


def calls(
    kind: str, number: int, part: float, steps: Callable[[Int64s], Int64s] = always
) -> Callable[[Base], Runs]:
    return lambda base: (
        base.normal,
        edits.more_calls(
            base.abnormal,
            kind,
            number * (base.every(1.0, steps) > 0).astype(np.int64),
            int(part * base.step_ns / number),
        ),
    )


def of(*categories: str) -> Callable[[KernelClass], bool]:
    return lambda kernel: not categories or kernel.category in categories


def kernels(part: float, *categories: str, hidden: bool = False) -> Callable[[Base], Runs]:
    """Kernels slower by one factor, so that they add this part of a typical step."""
    return lambda base: (base.normal, slowed(base, part, *categories, hidden=hidden))


def slowed(base: Base, part: float, *categories: str, hidden: bool = False) -> Observations:
    factor = factor_of(base, part, *categories)
    return edits.slower_kernels(base.abnormal, factor, of(*categories), hidden=hidden)


def factor_of(base: Base, part: float, *categories: str) -> float:
    chosen = [k for k in base.abnormal.kernels if of(*categories)(k) and k.category != "memcpy"]
    exposed = sum(sum(k.exposed_ns) for k in chosen)
    return 1 + part * base.step_ns * STEPS / max(1, exposed)


def shapes(base: Base) -> bool:
    """Whether shapes of attention are recorded: graph replays hide them."""
    named = any("attention" in op.name and op.shapes for op in base.normal.host_ops)
    return named and base.normal.run.graph_share_pct < 5


def lower_clock(base: Base) -> Runs:
    """The SM clock falls, and kernels take longer in proportion."""
    factor = factor_of(base, 0.4)
    return base.normal, edits.with_readings(
        slowed(base, 0.4), "gpu_sm_frequency", lambda v: v / factor
    )


def shared_gpu(samples: int | None, part: float = 0.5) -> Callable[[Base], Runs]:
    """Another process takes a part of the GPU."""

    def edit(base: Base) -> Runs:
        slower = slowed(base, part)
        for name in ("gpu_other_processes", "gpu_processes"):
            slower = edits.with_readings(slower, name, lambda v: v + 1)
        for name in ("gpu_other_usage", "gpu_usage"):
            slower = edits.with_readings(slower, name, lambda _: 99.5)
        return base.normal, slower if samples is None else edits.few_samples(slower, samples)

    return edit


def without(edit: Callable[[Base], Runs], *sides: int) -> Callable[[Base], Runs]:
    """The same, sensors of some sides not recorded."""

    def bare(base: Base) -> Runs:
        runs = list(edit(base))
        for side in sides:
            runs[side] = stripped(runs[side], ["counters"])
        return runs[0], runs[1]

    return bare


def contended(factor: float) -> Callable[[Base], Runs]:
    return lambda base: (base.normal, edits.slower_host(base.abnormal, factor, "waiting"))


def swapped(edit: Callable[[Base], Runs]) -> Callable[[Base], Runs]:
    def other_way(base: Base) -> Runs:
        before, after = edit(base)
        return after, before

    return other_way


def cut(edit: Callable[[Base], Runs], size: int) -> Callable[[Base], Runs]:
    """The same, with an abnormal recording that breaks off."""

    def short(base: Base) -> Runs:
        before, after = edit(base)
        return before, edits.first_steps(after, size)

    return short


def same(base: Base) -> Runs:
    return base.normal, base.abnormal


def more_work(factor: float) -> Callable[[Base], Runs]:
    return lambda base: (base.normal, edits.more_work(base.abnormal, factor))


def drift(base: Base) -> Runs:
    return base.normal, section(base, base.every(1.2 / STEPS, lambda numbers: numbers))


def wider_type(base: Base) -> Runs:
    slower = slowed(base, 0.5, "gemm")
    return base.normal, edits.renamed_kernels(slower, of("gemm"), "sgemm_f32_tn", "f32")


def narrower_type_slow_section(base: Base) -> Runs:
    wide = edits.renamed_kernels(base.normal, of("gemm"), "gemm_f32_tn", "f32")
    return wide, section(base, base.every(0.8, always))


def other_kernels(base: Base) -> Runs:
    slower = slowed(base, 0.5, "attention")
    return base.normal, edits.renamed_kernels(slower, of("attention"), "naive_attention", None)


def clock_too_small(base: Base) -> Runs:
    """The CPU clock is 7 % lower; what made the step slower is a section."""
    slow = section(base, base.every(1.4, always))
    return base.normal, edits.with_readings(slow, "cpu_frequency", lambda v: 0.93 * v)


def section_and_syncs(base: Base) -> Runs:
    slow = section(base, base.every(0.5, always))
    return calls("sync", 12, 0.5)(Base(base.name, base.normal, slow))


def larger_batch(base: Base) -> Runs:
    return base.normal, edits.larger_batch(base.abnormal, 2.0)


def knows_batch(base: Base) -> bool:
    return all(step.requests is not None for step in base.normal.steps)


def waiting(base: Base) -> bool:
    return base.waits > 0.3


def sampled(base: Base) -> bool:
    return base.sampled


def annotated(base: Base) -> bool:
    return base.section is not None


def typed(base: Base) -> bool:
    return any(k.category == "gemm" and k.dtype == "bf16" for k in base.normal.kernels)


SECTION = frozenset({"slow_section"})
CPU = frozenset({"cpu_contention"})
OPEN: frozenset[str] = frozenset()
"""No cause of the catalog: anything but `unknown` is wrong."""
SHARED = frozenset({"gpu_contention"})

CASES: tuple[Case, ...] = (
    Case("nothing", same, SAME, (None,), NOTHING),
    Case("nothing, no sensors", without(same, 0, 1), SAME, (None,), NOTHING),
    Case("nothing, sensors of one side", without(same, 1), SAME, (None,), NOTHING),
    Case("nothing, cut to 30 steps", cut(same, 30), SAME, (None,), NOTHING),
    Case("nothing, cut to 3 steps", cut(same, 3), ("cannot_compare",), (None,), OPEN),
    Case("section +10 %", slow_section(0.1), REGRESSION, ("mean",), SECTION, annotated),
    Case("section +20 %", slow_section(0.2), REGRESSION, ("mean",), SECTION, annotated),
    Case("section +50 %", slow_section(0.5), REGRESSION, ("mean",), SECTION, annotated),
    Case("section +150 %", slow_section(1.5), REGRESSION, ("mean",), SECTION, annotated),
    Case("section +50 %, no annotations", slow_section(0.5), REGRESSION, ("mean",), OPEN,
         lambda base: not annotated(base)),
    Case("section +50 %, no sensors", without(slow_section(0.5), 0, 1), REGRESSION, ("mean",),
         SECTION, annotated),
    Case("section +50 %, sensors of one side", without(slow_section(0.5), 1), REGRESSION,
         ("mean",), SECTION, annotated),
    Case("section +50 %, cut to 20 steps", cut(slow_section(0.5), 20), REGRESSION, ("mean",),
         SECTION, annotated),
    Case("section -50 % (swapped)", swapped(slow_section(1.0)), ("improvement",), ("mean",),
         SECTION, annotated),
    Case("waits for a core x2.5", contended(2.5), REGRESSION, ("mean", "both"), CPU,
         lambda base: waiting(base) and sampled(base)),
    Case("waits for a core x2.5, no sensors", without(contended(2.5), 0, 1), REGRESSION,
         ("mean", "both"), CPU, lambda base: waiting(base) and sampled(base)),
    Case("waits for a core x2.5, sensors of one side", without(contended(2.5), 0), REGRESSION,
         ("mean", "both"), CPU, lambda base: waiting(base) and sampled(base)),
    Case("matrix products +50 %", kernels(0.5, "gemm"), REGRESSION, ("mean",), OPEN),
    Case("all kernels +20 %, alone on the GPU", kernels(0.2), REGRESSION, ("mean",), OPEN,
         sampled),
    Case("all kernels +50 %, alone on the GPU", kernels(0.5), REGRESSION, ("mean",), OPEN,
         sampled),
    Case("all kernels +50 %, no sensors", without(kernels(0.5), 0, 1), REGRESSION,
         ("mean",), frozenset({"gpu_contention", "gpu_clock"})),
    Case("all kernels +20 %, hidden", kernels(0.2, hidden=True), SAME, (None,), NOTHING,
         lambda base: base.waits > 0.5),
    Case("SM clock, step +40 %", lower_clock, REGRESSION, ("mean",), frozenset({"gpu_clock"}),
         sampled),
    Case("other process on the GPU", shared_gpu(None), REGRESSION, ("mean",), SHARED,
         sampled),
    Case("other process on the GPU, 2 samples", shared_gpu(2), REGRESSION, ("mean",), SHARED,
         sampled),
    Case("attention alone, same shapes", kernels(0.6, "attention"), REGRESSION, ("mean",), OPEN,
         shapes),
    Case("attention alone, shapes not recorded", kernels(0.6, "attention"),
         ("regression", "workload_changed"), ("mean",), frozenset({"workload_context"}),
         lambda base: not shapes(base)),
    Case("other attention kernel, step +50 %", other_kernels, REGRESSION, ("mean",),
         frozenset({"kernel_changed"})),
    Case("bf16 to f32", wider_type, REGRESSION, ("mean",), frozenset({"dtype_changed"}), typed),
    Case("f32 to bf16, slow section", narrower_type_slow_section, REGRESSION, ("mean",), SECTION,
         lambda base: typed(base) and annotated(base)),
    Case("CPU clock -7 %, section x2.4", clock_too_small, REGRESSION, ("mean",), SECTION,
         lambda base: sampled(base) and annotated(base)),
    Case("syncs +4, step +12 %", calls("sync", 4, 0.12), REGRESSION, ("mean",),
         frozenset({"extra_sync"})),
    Case("syncs +12", calls("sync", 12, 0.5), REGRESSION, ("mean",), frozenset({"extra_sync"})),
    Case("driver allocations +6", calls("alloc", 6, 0.5), REGRESSION, ("mean",),
         frozenset({"allocator"})),
    Case("section and syncs", section_and_syncs, REGRESSION, ("mean",),
         frozenset({"extra_sync", "slow_section"}), annotated),
    Case("two more layers (x1.32)", more_work(1.32), REGRESSION, ("mean",), OPEN),
    Case("work x1.66", more_work(1.66), REGRESSION, ("mean",), OPEN),
    Case("batch x2", larger_batch, ("workload_changed",), ("mean", None),
         frozenset({"workload_batch"}), knows_batch),
    Case("2 of 60 steps, section", slow_section(5.0, two), REGRESSION, ("tail",), SECTION),
    Case("2 of 60 steps, no sensors", without(slow_section(5.0, two), 0, 1), REGRESSION,
         ("tail",), SECTION),
    Case("2 of 60 steps, collection", in_state("gc", 5.0, two), REGRESSION, ("tail",),
         frozenset({"gc"})),
    Case("every 5th step +100 %, section",
         slow_section(1.0, lambda numbers: np.where(numbers % 5 == 2, 1, 0)), REGRESSION,
         ("tail",), SECTION),
    Case("every 8th step, section", slow_section(3.0, eighth), REGRESSION, ("tail",), SECTION),
    Case("every 8th step, collection", in_state("gc", 3.0, eighth), REGRESSION, ("tail",),
         frozenset({"gc"})),
    Case("every 8th step, syncs", calls("sync", 20, 3.0, eighth), REGRESSION, ("tail",),
         frozenset({"extra_sync"})),
    Case("every 8th step gone (swapped)", swapped(slow_section(3.0, eighth)), ("improvement",),
         ("tail",), SECTION | frozenset({"none"})),
    Case("every 8th step on both sides",
         lambda base: (section(Base(base.name, base.abnormal, base.normal),
                               base.every(3.0, eighth)),
                       section(base, base.every(3.0, eighth))),
         SAME, (None,), NOTHING),
    Case("one step of 60", slow_section(5.0, lambda n: (n == 20).astype(np.int64)), SAME, (None,),
         NOTHING),
    Case("drift to +120 %", drift, REGRESSION, ("mean", "both"), SECTION, annotated),
    Case("every step +60 %, every 8th +300 %",
         lambda base: (base.normal,
                       section(base, base.every(0.6, always) + base.every(5.0, eighth))),
         REGRESSION, ("both",), SECTION, annotated),
)  # fmt: skip


@dataclass(frozen=True)
class Alone:
    """One edit of a single recording, and what may be said of it."""

    name: str
    edit: Callable[[Base], Observations]
    verdict: str
    causes: frozenset[str]


def late(numbers: Int64s) -> Int64s:
    """From step 38 on."""
    return np.where(numbers >= 38, 1, 0)


def burst(numbers: Int64s) -> Int64s:
    """Six steps in a row."""
    return np.where((numbers >= 20) & (numbers < 26), 1, 0)


def other(numbers: Int64s) -> Int64s:
    """Every other step."""
    return numbers % 2


def square(numbers: Int64s) -> Int64s:
    """Six steps without, six steps with."""
    return numbers // 6 % 2


def telegraph(numbers: Int64s) -> Int64s:
    """Stretches at no fixed distance."""
    return np.isin(numbers, (*range(9, 13), *range(16, 36), *range(48, 54))).astype(np.int64)


def three(numbers: Int64s) -> Int64s:
    """Three of 60, at no fixed distance."""
    return np.isin(numbers, (7, 31, 50)).astype(np.int64)


def at_numbers(base: Base, part: float, steps: Callable[[Int64s], Int64s]) -> Int64s:
    """As `Base.every`, numbers not moved."""
    return (part * base.step_ns * steps(np.arange(STEPS))).astype(np.int64)


def early_syncs(base: Base) -> Observations:
    """Syncs before step 22."""
    chosen = np.where(np.arange(STEPS) < 22, 12, 0)
    return edits.more_calls(base.abnormal, "sync", chosen, base.step_ns // 24)


ALONE: tuple[Alone, ...] = (
    Alone("nothing", lambda base: base.abnormal, "steady", frozenset()),
    # Where the base has a slow step of its own, and the cause of both is asked for, it is this one.
    Alone("one step of 60", lambda base: section(base, at_numbers(base, 5.0, lambda n: n == 31)),
          "steady", SECTION),
    Alone("section +50 % from step 38 on",
          lambda base: section(base, at_numbers(base, 0.5, late)), "change_point", SECTION),
    Alone("syncs until step 22, +50 %", early_syncs, "change_point", frozenset({"extra_sync"})),
    Alone("drift to +120 %", lambda base: drift(base)[1], "drift", SECTION),
    Alone("every 8th step +300 %", lambda base: section(base, base.every(3.0, eighth)),
          "periodic", SECTION),
    Alone("every 8th step, syncs", lambda base: calls("sync", 20, 3.0, eighth)(base)[1],
          "periodic", frozenset({"extra_sync"})),
    Alone("2 of 60 steps +500 %", lambda base: section(base, base.every(5.0, two)), "bursty",
          SECTION),
    Alone("every other step +60 %", lambda base: section(base, at_numbers(base, 0.6, other)),
          "periodic", SECTION),
    Alone("6 steps +60 %, 6 without, and so on",
          lambda base: section(base, at_numbers(base, 0.6, square)), "periodic", SECTION),
    Alone("syncs, 6 steps with and 6 without, +60 %",
          lambda base: edits.more_calls(base.abnormal, "sync", 12 * square(np.arange(STEPS)),
                                        base.step_ns // 20), "periodic",
          frozenset({"extra_sync"})),
    Alone("+60 % in stretches of 4, 20 and 6 steps",
          lambda base: section(base, at_numbers(base, 0.6, telegraph)), "bursty", SECTION),
    Alone("3 of 60 steps +200 %", lambda base: section(base, at_numbers(base, 2.0, three)),
          "bursty", SECTION),
    Alone("drift to -50 %",
          lambda base: section(base, at_numbers(base, 1.0 / STEPS, lambda n: STEPS - 1 - n)),
          "drift", SECTION),
    Alone("6 steps in a row, collection",
          lambda base: edits.slower_section(base.abnormal, "gc", at_numbers(base, 2.5, burst),
                                            "running"), "bursty", frozenset({"gc"})),
)  # fmt: skip


Edit = Callable[[Base, float], Observations]
FAULTS: dict[str, tuple[Edit, Callable[[Base], bool]]] = {
    "slow_section": (lambda base, part: section(base, base.every(part, always)), annotated),
    "extra_sync": (lambda base, part: calls("sync", 12, part)(base)[1], lambda _: True),
    "allocator": (lambda base, part: calls("alloc", 6, part)(base)[1], lambda _: True),
    "gc": (lambda base, part: in_state("gc", part)(base)[1], lambda _: True),
    "gpu_contention": (lambda base, part: shared_gpu(None, part)(base)[1], sampled),
}
"""Faults that can be put into a recording together, by the cause that names them."""
SHARES = ((0.5, 0.5), (0.7, 0.3), (0.3, 0.7))
"""What each of two faults adds, in typical steps."""


class Both(msgspec.Struct, frozen=True):
    """What was said of two faults at once."""

    faults: str
    base: str
    regression: bool
    named: int
    """How many of them are among the causes."""
    in_sentence: bool
    """Whether the sentence names both."""
    said: bool
    """Whether it does, or says that a part is unexplained."""
    confident_wrong: bool
    sentence: str


def two_faults(base: Base) -> Iterator[Both]:
    """Every two faults, in equal and unequal parts."""
    for first, second in combinations(FAULTS, 2):
        edits_ = [FAULTS[name] for name in (first, second)]
        for parts in SHARES:
            if all(fits(base) for _, fits in edits_):
                run = edits_[0][0](base, parts[0])
                run = edits_[1][0](Base(base.name, base.normal, run), parts[1])
                label = f"{first} +{parts[0]:.0%}, {second} +{parts[1]:.0%}"
                yield judged_both(label, base, {first, second}, run)


def judged_both(label: str, base: Base, faults: set[str], run: Observations) -> Both:
    found = diagnose_runs(base.normal, run)
    first = found.causes[0]
    named = [cause for cause in found.causes if cause.id in faults]
    in_sentence = len(named) == 2 and all(cause.title in found.sentence for cause in named)
    return Both(
        label,
        base.name,
        found.verdict == "regression",
        len(named),
        in_sentence,
        first.id == "unknown" or in_sentence or found.sentence.endswith("the rest is unexplained."),
        first.id not in (*faults, "unknown") and first.confidence >= SURE,
        found.sentence,
    )


def table_both(rows: Sequence[Both]) -> Iterator[str]:
    yield "| faults | bases | regression | both named | one named | both in words | or a rest |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    names = list(dict.fromkeys(row.faults for row in rows))
    for name, chosen in [(n, [r for r in rows if r.faults == n]) for n in names] + [
        ("**all**", list(rows))
    ]:
        columns = (
            len(chosen),
            sum(row.regression for row in chosen),
            sum(row.named == 2 for row in chosen),
            sum(row.named == 1 for row in chosen),
            sum(row.in_sentence for row in chosen),
            sum(row.said for row in chosen),
        )
        yield f"| {name} | {' | '.join(map(str, columns))} |"
    yield f"\nconfidently wrong: {sum(row.confident_wrong for row in rows)}"


def judged_alone(case: Alone, base: Base) -> Row:
    """Diagnose one edited recording on its own."""
    found = diagnose_run(case.edit(base))
    first = found.causes[0] if found.causes else None
    right = first is None or first.id in case.causes or first.id == "unknown"
    named = "unknown" if first is None else first.id
    return Row(
        case.name,
        base.name,
        found.verdict == case.verdict,
        True,
        right,
        not right and first is not None and first.confidence >= SURE,
        f"{found.verdict} - {named} {first.confidence if first else 1:.2f}",
    )


def steady(paths: Sequence[str]) -> None:
    """How many recordings are called steady, as they are and shuffled."""
    draw = np.random.default_rng(0)
    verdicts: Counter[str] = Counter()
    shuffled: Counter[str] = Counter()
    for path in paths:
        run = opened(path)
        found = diagnose_run(run)
        verdicts[found.verdict] += 1
        if found.verdict not in ("steady", "cannot_tell"):
            print(f"{Path(path).name}: {found.sentence}", flush=True)
        if found.verdict != "cannot_tell":
            times = relative_times(fit_steps(run, THRESHOLDS), THRESHOLDS)
            moved = movement(draw.permutation(times))
            shuffled["moved" if moved.changes or moved.slope or moved.spacing else "steady"] += 1
    print(f"as recorded: {dict(verdicts)}")
    print(f"in random order: {dict(shuffled)}")


def opened(path: str) -> Observations:
    """A packed recording, or a profile."""
    if path.endswith(".json.zst") and "trace" not in path:
        return load(Path(path))
    return observe(attribute(solscope.open(path)))


class Row(msgspec.Struct, frozen=True):
    """One case on one base."""

    case: str
    base: str
    verdict_right: bool
    scope_right: bool
    cause_right: bool
    confident_wrong: bool
    said: str


def bases(half: str, most: int | None = None, seed: int = 0) -> Iterator[Base]:
    """Recordings without a fault, of one half."""
    files = sorted((ROOT / "results/lab").glob("*/recordings/*-normal.json.zst"))
    found = [path for path in files if half_of(path.name) == half]
    # As many of each loop (eager, graph), in an order that does not follow their names.
    found.sort(key=lambda path: sha256(path.name.encode()).hexdigest())
    modes: Counter[str] = Counter()
    for path in found:
        mode = path.name.split("-")[1]
        modes[mode] += 1
        if most is None or modes[mode] <= most:
            yield based_on(path.name, load(path), seed)


def based_on(name: str, run: Observations, seed: int = 0) -> Base:
    """Two draws of a recording; those of other recordings, and of other seeds, are other draws."""
    first = int(sha256(f"{seed} {name}".encode()).hexdigest()[:8], 16)
    return Base(name, edits.drawn(run, STEPS, first), edits.drawn(run, STEPS, first + 1))


def half_of(name: str) -> str:
    return "tune" if int(sha256(name.encode()).hexdigest(), 16) % 2 else "test"


def judged(case: Case, base: Base) -> Row:
    """Diagnose an edited pair and compare with the truth."""
    found = diagnose_runs(*case.edit(base))
    first = found.causes[0]
    right = first.id in case.causes or first.id == "unknown"
    return Row(
        case.name,
        base.name,
        found.verdict in case.verdicts,
        found.scope in case.scopes,
        right,
        not right and first.confidence >= SURE,
        said(found),
    )


def said(found: Diagnosis) -> str:
    first = found.causes[0]
    return f"{found.verdict} {found.scope} {first.id} {first.confidence:.2f}"


def table(rows: Sequence[Row]) -> Iterator[str]:
    """One line per case, then the sums."""
    yield "| edit | bases | verdict | scope | cause or unknown | cause named | confident wrong |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for name in dict.fromkeys(row.case for row in rows):
        yield _line(name, [row for row in rows if row.case == name])
    yield _line("**all**", rows)


def _line(name: str, rows: Sequence[Row]) -> str:
    named = sum(row.cause_right and " unknown " not in row.said for row in rows)
    columns = (
        len(rows),
        sum(row.verdict_right for row in rows),
        sum(row.scope_right for row in rows),
        sum(row.cause_right for row in rows),
        named,
        sum(row.confident_wrong for row in rows),
    )
    return f"| {name} | {' | '.join(map(str, columns))} |"


def table_alone(rows: Sequence[Row]) -> Iterator[str]:
    """The same for single recordings, which have no scope, and may say that they cannot tell."""
    yield (
        "| edit | bases | verdict | cannot tell | wrong verdict | cause or unknown | cause named |"
        " confident wrong |"
    )
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    names = list(dict.fromkeys(row.case for row in rows))
    for name, chosen in [(n, [r for r in rows if r.case == n]) for n in names] + [
        ("**all**", rows)
    ]:
        right = sum(row.verdict_right for row in chosen)
        silent = sum(row.said.startswith("cannot_tell") for row in chosen)
        named = sum(row.cause_right and " unknown " not in row.said for row in chosen)
        causes = (
            sum(row.cause_right for row in chosen),
            named,
            sum(row.confident_wrong for row in chosen),
        )
        columns = (len(chosen), right, silent, len(chosen) - right - silent, *causes)
        yield f"| {name} | {' | '.join(map(str, columns))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=("tune", "test"), default="tune")
    parser.add_argument("--bases", type=int, help="bases of each loop")
    parser.add_argument("--seed", type=int, default=0, help="of the draws")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--alone", action="store_true", help="single recordings")
    parser.add_argument("--two", action="store_true", help="two faults at once")
    parser.add_argument("--of", nargs="+", metavar="RECORDING", help="bases other than the lab's")
    parser.add_argument("--steady", nargs="+", metavar="RECORDING")
    options = parser.parse_args()
    if options.steady:
        steady(options.steady)
        return
    rows: list[Row] = []
    chosen = (
        (based_on(Path(path).name, opened(path), options.seed) for path in options.of)
        if options.of
        else bases(options.half, options.bases, options.seed)
    )
    if options.two:
        both = [row for base in chosen for row in two_faults(base) if options.only in row.faults]
        for pair in both:
            if pair.confident_wrong or not pair.said:
                print(f"{pair.faults} | {pair.base} | {pair.sentence}", flush=True)
        print("\n".join(table_both(both)))
        return
    for base in chosen:
        ways = [
            *(partial(judged_alone, case) for case in ALONE if options.alone),
            *(partial(judged, case) for case in CASES if not options.alone and case.fits(base)),
        ]
        for way in ways:
            if options.only in way.args[0].name:
                row = way(base)
                rows.append(row)
                if not (row.verdict_right and row.scope_right and row.cause_right):
                    print(f"{row.case} | {row.base} | {row.said}", flush=True)
    print("\n".join(table_alone(rows) if options.alone else table(rows)))


if __name__ == "__main__":
    main()
