"""What is wrong with a profile, in one sentence, three figures and the command to run next.

The sentence is about a usual step (`typical_step.py`), because a few stray activities make the span
of a recording meaningless. It names the largest loss: time in which the GPU is idle, or in which
only communication or only copies run. Losses below `LOSS_PCT` of the step are not worth a headline;
then the sentence says what kind of kernel takes the time. Every clause states what was measured.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Literal

import msgspec
import polars as pl

from solscope.arrays import take
from solscope.attribution import Attributed
from solscope.attribution.usual_steps import StepBasis
from solscope.views.core_wait import lacks_core_pct
from solscope.views.device_time import DeviceTime
from solscope.views.typical_step import COPIES, TypicalStep, typical_step
from solscope.views.verdict_words import (
    IDLE_WORDS,
    by_class,
    idle_name,
    main_of,
    mean_of,
    micro_text,
    percent_text,
    shares_of,
    step_name,
    three_largest,
)

LOSS_PCT = 15.0
"""A loss from this share of a step on is the headline."""
NOT_JUDGED = "; shapes were not recorded, so whether that is fast needs the model's config"
"""Said of a busy GPU whose kernels mostly have no bound."""
DOMINANT_PCT = 50.0
"""A kind of kernel with at least this share of the GPU time dominates."""
LEFT_OUT_PCT = 20.0
"""Outliers are mentioned from this share of the time of all steps on."""
PART_PCT = 50.0
"""The share of the recording that the steps are is mentioned below this."""
MAIN_PART = 0.6
"""A cause with at least this part of the idle time represents all of it."""
OVERHEAD_PCT = 5.0
"""The profiler's own work is mentioned from this share of a step on."""

Kind = Literal[
    "host_bound",
    "launch_bound",
    "sync",
    "alloc",
    "launch_latency",
    "graph_gaps",
    "unexplained_idle",
    "mixed_idle",
    "exposed_comm",
    "exposed_copies",
    "gpu_bound",
    "nothing_stands_out",
    "no_timeline",
    "no_gpu_work",
]

KINDS: dict[Kind, str] = {
    "host_bound": "host-bound",
    "launch_bound": "launch-bound",
    "sync": "synchronization",
    "alloc": "memory allocation",
    "launch_latency": "launch latency",
    "graph_gaps": "gaps in graphs",
    "unexplained_idle": "unexplained idle",
    "mixed_idle": "idle, no main cause",
    "exposed_comm": "exposed communication",
    "exposed_copies": "exposed copies",
    "gpu_bound": "GPU-bound",
    "nothing_stands_out": "GPU-bound, no main part",
    "no_timeline": "no timeline",
    "no_gpu_work": "no GPU work",
}
"""Each kind of verdict in a word or two, for tables of many profiles."""
_IDLE: dict[str, tuple[Kind, str]] = {
    "host": ("host_bound", ""),
    "sync": ("sync", "it waits while the host is in a synchronizing call"),
    "alloc": ("alloc", "it waits while the host allocates or frees memory"),
    "launch": ("launch_latency", "the next kernel is launched but has not started"),
    "graph": ("graph_gaps", "nothing runs between the kernels of a graph"),
    "unlinked": ("unexplained_idle", "it is idle, and why is not known"),
}
"""Causes of idle time: the verdict, and its clause."""
_ON_HOST: tuple[Kind, ...] = ("host_bound", "launch_bound", "sync", "alloc", "mixed_idle")
"""Verdicts that the work of a profiler on the host can cause."""


class Figure(msgspec.Struct, frozen=True):
    """One number of a verdict."""

    name: str
    value: float
    unit: Literal["ms", "%", "×"]
    scope: str = ""
    """What the value is of, or which steps it is the mean of; empty where the name says it."""


class Verdict(msgspec.Struct, frozen=True):
    """The answer to "what is wrong?"."""

    kind: Kind
    sentence: str
    figures: list[Figure]
    """At most three, the most important last."""
    next: str | None
    """The command that looks further into it; null where there is nothing to look into."""
    busy_pct: float | None
    """Share of a usual step, or of the recording, in which the GPU is busy."""
    phase: str | None
    """Phase of the steps that this is about; null where it is not known, or for a recording."""
    steps: int
    """Steps that the figures are means over; 0 for the whole recording."""
    basis: StepBasis | None = None
    """These steps, and which ones were left out; null without a time line."""


def verdict(attributed: Attributed, times: Sequence[DeviceTime]) -> Verdict:
    """The verdict on one profile; `times` are the time lines of its devices."""
    step = typical_step(attributed, times)
    if step is not None and step.wall_ns > 0:
        return _Sentence(attributed, step).verdict()
    return _without_timeline(attributed)


class _Sentence:
    """Builds the verdict on a profile that has a time line."""

    def __init__(self, attributed: Attributed, step: TypicalStep) -> None:
        self.step = step
        self.attributed = attributed

    def verdict(self) -> Verdict:
        step = self.step
        losses = {
            "idle": step.wall_ns - step.busy_ns,
            "comm": step.exposed_comm_ns,
            "copies": step.exposed_copy_ns,
        }
        largest = max(losses, key=lambda name: losses[name])
        if self._pct(losses[largest]) < LOSS_PCT:
            return self._busy()
        return {"idle": self._idle, "comm": self._comm, "copies": self._copies}[largest]()

    # The GPU is idle

    def _idle(self) -> Verdict:
        step = self.step
        in_graph = min(step.idle.in_graphs_ns, step.idle.by_cause["launch"])
        causes = {
            **step.idle.by_cause,
            "launch": step.idle.by_cause["launch"] - in_graph,
            "graph": in_graph,
        }
        ranked = sorted(causes.items(), key=lambda item: -item[1])
        cause, time = ranked[0]
        kind, clause = _IDLE[cause]
        label = idle_name(cause)
        if cause == "host" and self._launch_bound():
            kind = "launch_bound"
        idle = step.wall_ns - step.busy_ns
        if time < MAIN_PART * idle:
            kind, label, time = "mixed_idle", "idle", idle
            sentence = self._mixed_idle(ranked)
        elif cause == "host":
            sentence = (
                f"it waits {self._of_wall(time)} for the host{self._host_details(time, kind)}"
            )
        else:
            sentence = f"for {self._of_wall(time)} {clause}{self._idle_details(cause)}"
        if self._pct(step.exposed_comm_ns) >= LOSS_PCT:
            sentence += (
                f"; communication that no compute hides takes {self._ms(step.exposed_comm_ns)} ms"
            )
        return self._made(kind, f"{self._busy_for()}; {sentence}", self._part(label, time))

    def _mixed_idle(self, ranked: Sequence[tuple[str, float]]) -> str:
        """No cause holds most of the idle time: the largest, until most of it is named."""
        idle = self.step.wall_ns - self.step.busy_ns
        parts: list[str] = []
        named = 0.0
        for cause, time in ranked:
            if named >= 0.8 * idle or len(parts) == 3:
                break
            parts.append(f"{self._ms(time)} ms {IDLE_WORDS[cause]}")
            named += time
        return f"it is idle for {self._of_wall(idle)}: {', '.join(parts)}"

    def _launch_bound(self) -> bool:
        """Whether most activities wait for their own launch, which takes longer than they run."""
        step = self.step
        return (
            2 * step.idle.launching_ns >= step.idle.by_cause["host"]
            and 2 * step.idle.between["host"] < step.idle.by_cause["host"]
            and 2 * step.gaps >= step.activities
            and 2 * step.kernel_ns * step.kernels < step.wall_ns
        )

    def _host_details(self, time: float, kind: Kind) -> str:
        between = self.step.idle.between["host"]
        lacking = lacks_core_pct(self.attributed, self.step.wall_ns, time)
        if lacking is not None:
            return (
                f", whose main thread is ready to run but has no core for {percent_text(lacking)} "
                "of the recording"
            )
        if kind == "launch_bound":
            only_kernels = self.step.kernels == self.step.activities
            every = self.step.wall_ns / max(1.0, self.step.activities)
            return (
                f", which launches {'a kernel' if only_kernels else 'a kernel or copy'} every "
                f"{micro_text(every)} while one runs for {micro_text(self.step.activity_ns)} "
                "(launch-bound)"
            )
        if between >= time / 2:
            return f", {self._ms(between)} ms of that between steps"
        long = self.step.idle.by_cause["host"] - self.step.idle.launching_ns
        if long >= time / 2:
            count = round(self.step.idle.long_gaps)
            several = f"{count} gaps of over 1 ms" if count else "gaps of over 1 ms"
            return f", {self._ms(long)} ms of that in {'one gap' if count == 1 else several}"
        return ""

    def _idle_details(self, cause: str) -> str:
        step = self.step
        if cause == "graph":
            return f" ({step.kernels:,.0f} kernels of {micro_text(step.kernel_ns)} on average)"
        if cause == "unlinked" and not self.attributed.activities["launch_row"].count():
            return ": the profile has no launch calls"
        return ""

    # Something runs, but nothing computes

    def _comm(self) -> Verdict:
        time = self.step.exposed_comm_ns
        what = main_of(self.step.comm_ns)
        figure = self._part("exposed communication", time)
        name = "communication" if what is None else what.replace("_", "-")
        return self._exposed("exposed_comm", name, time, figure)

    def _copies(self) -> Verdict:
        time, what, main = self.step.exposed_copy_ns, "memory copies", ""
        direction = main_of(self.step.exposed_copies_ns)
        if direction in COPIES:
            part = self.step.exposed_copies_ns[direction]
            if self._ms(part) == self._ms(time):
                what = COPIES[direction]
            else:
                main = f", {self._ms(part)} ms of that {COPIES[direction]}"
        figure = self._part("exposed copies", self.step.exposed_copy_ns)
        return self._exposed("exposed_copies", what, time, figure, main)

    def _exposed(
        self, kind: Kind, what: str, time: float, figure: Figure, main: str = ""
    ) -> Verdict:
        step = self.step
        sentence = (
            f"{self._subject()} computes for {percent_text(self._pct(step.compute_ns))} of "
            f"{self._unit()}; {self._of_wall(time)} are {what} that no compute hides{main}"
        )
        idle = step.wall_ns - step.busy_ns
        if self._pct(idle) >= LOSS_PCT:
            host = step.idle.by_cause["host"]
            why = f", {self._ms(host)} ms of that waiting for the host" if host >= idle / 2 else ""
            sentence += f"; it is idle for {self._ms(idle)} ms{why}"
        return self._made(kind, sentence, figure, share=("GPU computes", step.compute_ns))

    # The GPU is busy

    def _busy(self) -> Verdict:
        shares = shares_of(by_class(self.step.category_ns))
        first, pct = next(iter(shares.items()))
        sentence = f"{self._busy_for()} ({self._ms(self.step.wall_ns)} ms)"
        figure = Figure(first, pct, "%", f"of the GPU time in {self._scope()}")
        unjudged = "" if _has_shapes(self.attributed) else NOT_JUDGED
        if pct >= DOMINANT_PCT:
            sentence += f"; {percent_text(pct)} of its GPU time is {first}"
            return self._made("gpu_bound", f"{sentence}{unjudged}", figure)
        sentence += f", and no kind of kernel dominates: {three_largest(shares)}"
        return self._made("nothing_stands_out", f"{sentence}{unjudged}", figure)

    # Parts of sentences

    def _made(
        self, kind: Kind, sentence: str, figure: Figure, share: tuple[str, float] | None = None
    ) -> Verdict:
        step = self.step
        name, time = share or ("GPU busy", step.busy_ns)
        look = "hotspots"
        if kind in ("gpu_bound", "nothing_stands_out"):
            look = "operators" if _has_shapes(self.attributed) else "layers"
        return Verdict(
            kind=kind,
            sentence=f"{sentence}{self._caveats(kind)}.",
            figures=[
                Figure(step_name(step.basis), step.wall_ns / 1e6, "ms", mean_of(step.basis)),
                Figure(name, self._pct(time), "%", f"of {self._scope()}"),
                figure,
            ],
            next=f"solscope {look} {shlex.quote(self.attributed.profile.path)}",
            busy_pct=self._pct(step.busy_ns),
            phase=step.basis.phase,
            steps=step.basis.steps,
            basis=step.basis,
        )

    def _caveats(self, kind: Kind) -> str:
        """What changes how the sentence must be read."""
        step, caveats = self.step, ""
        if step.devices > 1:
            caveats += f" (mean of {step.devices} GPUs)"
        basis = step.basis
        outliers, outlier_ms = basis.left_out.outlier, basis.outlier_ms or 0.0
        left_out = outliers * outlier_ms
        if outliers and 100 * left_out >= LEFT_OUT_PCT * (left_out + basis.steps * basis.step_ms):
            times, single = outlier_ms / basis.step_ms, outliers == 1
            caveats += (
                f"; {outliers} of {basis.of} steps {'takes' if single else 'take'} {times:.1f} "
                f"times as long and {'is' if single else 'are'} not counted"
            )
        if basis.steps and step.recording_pct < PART_PCT:
            caveats += f"; these steps are {percent_text(step.recording_pct)} of the recording"
            idle = 100 - self._pct(step.busy_ns)
            if abs(step.recording_idle_pct - idle) >= LOSS_PCT:
                caveats += f", which is idle for {percent_text(step.recording_idle_pct)}"
        overhead = self._pct(step.overhead_ns)
        if kind in _ON_HOST and overhead >= OVERHEAD_PCT:
            caveats += f"; the profiler itself takes {percent_text(overhead)} of the time"
        if any(warning.code == "truncated" for warning in self.attributed.profile.warnings):
            caveats += "; the file is truncated, so this covers only its first part"
        return caveats

    def _part(self, name: str, time_ns: float) -> Figure:
        """A part of the step."""
        return Figure(name, time_ns / 1e6, "ms", f"of {self._scope()}")

    def _scope(self) -> str:
        """What all figures are about."""
        return "the step" if self.step.basis.steps else "the recording"

    def _busy_for(self) -> str:
        busy = percent_text(self._pct(self.step.busy_ns))
        return f"{self._subject()} is busy for {busy} of {self._unit()}"

    def _subject(self) -> str:
        return "The GPU" if self.step.devices == 1 else "Each GPU"

    def _unit(self) -> str:
        basis = self.step.basis
        if not basis.steps:
            return "the recording"
        article = "the" if basis.of == 1 else "a"
        return " ".join(word for word in (article, basis.phase, "step") if word)

    def _of_wall(self, time_ns: float) -> str:
        return f"{self._ms(time_ns)} of {self._ms(self.step.wall_ns)} ms"

    def _ms(self, time_ns: float) -> str:
        """Milliseconds with the digits that the length of the step deserves."""
        wall = self.step.wall_ns / 1e6
        digits = 0 if wall >= 100 else 1 if wall >= 10 else 2
        return f"{time_ns / 1e6:,.{digits}f}"

    def _pct(self, time_ns: float) -> float:
        return 100 * time_ns / self.step.wall_ns


def _without_timeline(attributed: Attributed) -> Verdict:
    profile = attributed.profile
    rows = attributed.aggregates
    total = int(rows["total_ns"].sum()) if profile.is_aggregate else 0
    if not total:
        only = any(warning.code == "metrics_only" for warning in profile.warnings)
        sentence = (
            "This file has only sensor samples; GPU activity was not recorded."
            if only
            else "Nothing ran on a GPU."
        )
        return Verdict("no_gpu_work", sentence, [], None, None, None, 0)
    grouped = rows.group_by(rows["category"].cast(pl.String)).agg(pl.col("total_ns").sum())
    shares = shares_of(by_class(dict(grouped.iter_rows())))
    first, pct = next(iter(shares.items()))
    ms = f"{total / 1e6:,.1f} ms"
    what = (
        f"Of {ms} of kernel time, {percent_text(pct)} is {first}"
        if pct >= DOMINANT_PCT
        else f"In {ms} of kernel time no kind of kernel dominates: {three_largest(shares)}"
    )
    return Verdict(
        kind="no_timeline",
        sentence=f"{what}; a summary has no timeline, so idle time is not known.",
        figures=[
            Figure("kernel time", total / 1e6, "ms", "of the whole recording"),
            Figure(first, pct, "%", "of the kernel time"),
        ],
        next=f"solscope kernels {shlex.quote(profile.path)}",
        busy_pct=None,
        phase=None,
        steps=0,
    )


def _has_shapes(attributed: Attributed) -> bool:
    """Whether operators can be compared with their bounds: half of the GPU time has shapes."""
    rows = attributed.activities
    own = take(attributed.profile.events["input_dims"], rows["op_row"]).is_not_null()
    with_shapes = rows["dur_ns"].filter(own | rows["dims_borrowed"].is_not_null())
    return 2 * int(with_shapes.sum()) >= int(rows["dur_ns"].sum())
