"""Evidence about the host: its threads, cores, sections and calls."""

from __future__ import annotations

import numpy as np

from solscope.diagnose.evidence.base import Answer
from solscope.diagnose.findings.findings import Findings
from solscope.diagnose.findings.pairs import SectionPair
from solscope.diagnose.labels import idle_label
from solscope.text import as_percent

HOST = ("host", "sync", "alloc", "gc", "io")
"""Families in which the GPU waits for the host."""


def host_grew(f: Findings) -> Answer:
    """The GPU waits longer for the host."""
    share = f.share(*HOST)
    added = sum(f.parts.by_family[family] for family in HOST)
    share_text = f"{as_percent(share)} of the difference"
    text = f"the GPU waits {added:+.2f} ms per step for the host ({share_text})"
    return Answer(f.delta_ms > 0 and share >= f.limits.part, text)


def waits_for_core(f: Findings) -> Answer:
    """The main thread is ready to run and has no core."""
    queue, added = f.sensors.counter("runq_ns"), f.sensors.of_added_time("runq_ns")
    if queue is None or added is None:
        return Answer(None, "run-queue time was not sampled")
    text = f"waits for a core {queue.abnormal:.1f} % of the time (normal {queue.normal:.1f} %)"
    who = "the main thread"
    if f.sensors.of_all_threads:
        # More than the main thread's: what all threads together do not wait, it does not wait.
        text, who = text.replace("waits", "wait", 1), "all threads together"
    grew = queue.delta >= 100 * f.limits.runq_share
    return _of_added_time(f, f"{who} {text}", added, grew)


def _of_added_time(f: Findings, text: str, added: float, grew: bool) -> Answer:
    """Whether a state of the main thread that grew also explains the added time."""
    answer = f"{text}: {as_percent(added)} of the added time"
    return Answer(grew and added >= f.limits.of_added, answer)


def stopped(f: Findings) -> Answer:
    """The main thread is blocked: it neither runs nor waits for a core."""
    blocked, added = f.sensors.blocked, f.sensors.blocked_of_added
    if f.sensors.of_all_threads:
        return Answer(None, "scheduler statistics are sums over all threads")
    if blocked is None or added is None:
        return Answer(None, "scheduler statistics were not sampled")
    text = f"is blocked {blocked.abnormal:.0f} % of the time (normal {blocked.normal:.0f} %)"
    grew = blocked.delta >= 100 * f.limits.blocked_share
    return _of_added_time(f, f"the main thread {text}", added, grew)


def process_stopped(f: Findings) -> Answer:
    """All threads of the process stall at times, not only the main one."""
    main, others = stopped(f), f.sensors.other_threads
    if main.holds is None:
        return main
    if others is None:
        return Answer(None, "CPU time of other threads was not sampled")
    if others.normal < f.limits.other_threads_cores:
        return Answer(None, "no other thread of the process is busy enough to compare with")
    assert f.sensors.blocked is not None
    lost = f.sensors.blocked.delta / 100
    cores = f"other threads use {others.abnormal:.2f} cores (normal {others.normal:.2f})"
    holds = bool(main.holds) and others.ratio <= 1 - f.limits.stopped_with_main * lost
    return Answer(holds, f"{main.text}; {cores}")


def stopped_everywhere(f: Findings) -> Answer:
    """The main thread is stopped wherever it happens to be."""
    main, spread, others = stopped(f), everywhere(f), process_stopped(f)
    if main.holds is None or spread.holds is None:
        return Answer(None, main.text)
    if main.holds and others.holds is False:
        return Answer(False, "the other threads of the process run on meanwhile")
    return Answer(main.holds and spread.holds, f"{main.text}, in all sections")


def heap_grew(f: Findings) -> Answer:
    """The process holds more memory than before."""
    size = f.sensors.counter("process_mem_used")
    if size is None:
        return Answer(None, "memory of the process was not sampled")
    text = f"the process holds {size.abnormal:,.0f} MB (normal {size.normal:,.0f})"
    return Answer(size.ratio >= 1 + f.limits.heap_grew, text)


def runs_longer(f: Findings) -> Answer:
    """The main thread spends the added time running."""
    on = f.sensors.running_of_added
    if on is None and f.sensors.of_all_threads:
        return Answer(None, "on-CPU time is the sum over all threads")
    if on is None:
        return Answer(None, "on-CPU time was not sampled")
    return Answer(
        on >= f.limits.most, f"the main thread runs during {as_percent(on)} of the added time"
    )


def throttled(f: Findings) -> Answer:
    """A quota stops the process."""
    share = f.sensors.counter("cgroup_throttled_ns")
    if share is None:
        return Answer(None, "CPU quota and throttling were not sampled")
    text = (
        f"the control group is stopped {share.abnormal:.1f} % of the time "
        f"(normal {share.normal:.1f} %)"
    )
    return Answer(share.delta >= 100 * f.limits.throttled_share, text)


def fewer_cores(f: Findings) -> Answer:
    """The process may use fewer cores."""
    cores = f.sensors.counter("affinity_cores")
    if cores is None:
        return Answer(None, "CPU affinity was not sampled")
    text = f"the process may use {cores.abnormal:.0f} cores (normal {cores.normal:.0f})"
    return Answer(cores.abnormal < cores.normal, text)


def slower_clock(f: Findings) -> Answer:
    """The CPU clock fell."""
    clock = f.sensors.counter("cpu_frequency")
    if clock is None:
        return Answer(None, "CPU frequency was not sampled")
    # Some tools record it in percent of the highest clock, not in MHz.
    unit = " MHz" if clock.normal > 100 else ""
    text = f"CPU clock {clock.abnormal:.0f}{unit} (normal {clock.normal:.0f})"
    fell = clock.ratio < 1 - f.limits.clock_fell
    if fell and f.delta_ms > 0:
        waiting = sum(f.parts.normal_by_family[family] for family in HOST)
        possible = f.limits.dose_slack * waiting * (1 / max(clock.ratio, 1e-9) - 1)
        if possible < f.limits.part * f.delta_ms:
            return Answer(False, f"{text}, too little for the difference")
    return Answer(fell, text)


def same_clock(f: Findings) -> bool:
    """True if the CPU clock was measured and neither fell nor rose.

    Not the same as "no slower clock": a fall can be too small for the difference.
    """
    clock = f.sensors.counter("cpu_frequency")
    return clock is not None and abs(clock.ratio - 1) <= f.limits.clock_fell


def slower_ops(f: Findings) -> Answer:
    """All host operators take longer, also the typical call."""
    if f.host.op_ratio is None:
        return Answer(None, "too few host operators to compare")
    text = f"the median host operator takes ×{f.host.op_ratio:.2f}"
    return Answer(f.host.op_ratio >= 1 + f.limits.host_ops_grew, text)


def preempted(f: Findings) -> Answer:
    """Other tasks take the core away."""
    rate = f.sensors.counter("ctx_invol")
    if rate is None:
        return Answer(None, "context switches were not sampled")
    text = f"{rate.abnormal:.0f} involuntary switches per second (normal {rate.normal:.0f})"
    holds = (
        rate.abnormal >= f.limits.preempted_factor * rate.normal
        and rate.delta >= f.limits.preempted_more
    )
    return Answer(holds, text)


def foreign_cpu(f: Findings) -> Answer:
    """Something else uses the machine's cores."""
    usage = f.sensors.counter("host_cpu_usage")
    if usage is None:
        return Answer(None, "CPU use of the machine was not sampled")
    text = f"{usage.abnormal:.0f} % of all cores are in use (normal {usage.normal:.0f} %)"
    return Answer(usage.delta >= f.limits.foreign_cpu, text)


def many_cores_busy(f: Findings) -> Answer:
    """Something else uses many of the machine's cores."""
    usage = f.sensors.counter("host_cpu_usage")
    holds = None if usage is None else usage.delta >= f.limits.many_cores
    return Answer(holds, foreign_cpu(f).text)


def slower_beside_others(f: Findings) -> Answer:
    """All host operators take longer, everywhere, while something else uses the machine."""
    answers = (slower_ops(f), foreign_cpu(f), everywhere(f))
    unknown = [answer.text for answer in answers if answer.holds is None]
    if unknown and all(answer.holds is not False for answer in answers):
        return Answer(None, "; ".join(unknown))
    text = "; ".join(answer.text for answer in answers[:2])
    return Answer(all(answer.holds for answer in answers), text)


def host_copies_slower(f: Findings) -> Answer:
    """Copies inside host memory lost more time than other host code."""
    sides = [
        {op.name: op for op in run.host_ops if op.calls >= f.limits.host_op_calls}
        for run in (f.normal, f.abnormal)
    ]
    name = "aten::copy_"
    if name not in sides[0] or name not in sides[1] or not sides[0][name].mean_ns:
        return Answer(None, "no copies of host tensors were recorded")
    ratio = sides[1][name].mean_ns / sides[0][name].mean_ns
    text = f"copies of tensors take ×{ratio:.2f} on the host, other operators ×{f.host.pace:.2f}"
    return Answer(ratio >= f.host.pace * (1 + f.limits.host_ops_grew), text)


def busy_threads(f: Findings) -> Answer:
    """Other threads of the same process run more."""
    cores = f.sensors.other_threads
    if cores is None:
        return Answer(None, "CPU time of the process was not sampled")
    text = (
        f"other threads of the process use {cores.abnormal:.2f} cores (normal {cores.normal:.2f})"
    )
    return Answer(cores.delta >= f.limits.own_threads, text)


def more_threads(f: Findings) -> Answer:
    """The process has more threads."""
    threads = f.sensors.counter("process_threads")
    if threads is None:
        return Answer(None, "threads were not counted")
    text = f"{threads.abnormal:.0f} threads (normal {threads.normal:.0f})"
    return Answer(threads.delta >= 1, text)


def more_io(f: Findings) -> Answer:
    """The process reads or writes more, or waits for it."""
    texts, missing = [], True
    for name, unit, least in (
        ("write_bytes", 1e6, f.limits.io_bytes),
        ("read_bytes", 1e6, f.limits.io_bytes),
        ("write_calls", 1.0, f.limits.io_calls),
        ("read_calls", 1.0, f.limits.io_calls),
    ):
        pair, rate = f.sensors.per_step(name), f.sensors.counter(name)
        if pair is not None and rate is not None:
            missing = False
            # Background work grows with the length of the steps; its rate does not change.
            grew = pair.ratio >= 1 + f.limits.calls_grew and rate.ratio >= 1 + f.limits.io_rate_grew
            if grew and pair.delta * unit >= least:
                amount = (
                    f"{pair.abnormal:.3g}{' MB' if unit > 1 else ''} (normal {pair.normal:.3g})"
                )
                texts.append(f"{name.replace('_', ' ')} per step {amount}")
    text = "; ".join(texts) or "reads and writes per step are as before"
    return Answer(None if missing else bool(texts), "I/O was not sampled" if missing else text)


def io_pressure(f: Findings) -> Answer:
    """Tasks wait for I/O."""
    waits = f.sensors.counter("psi_io_some_ns")
    iowait = f.sensors.counter("host_cpu_iowait")
    if waits is None and iowait is None:
        return Answer(None, "neither I/O pressure nor I/O wait was sampled")
    texts = []
    if waits is not None and waits.delta >= 100 * f.limits.psi_share:
        texts.append(f"I/O pressure {waits.abnormal:.1f} % of time (normal {waits.normal:.1f})")
    if iowait is not None and iowait.delta >= f.limits.iowait_pct:
        texts.append(f"I/O wait {iowait.abnormal:.1f} % (normal {iowait.normal:.1f})")
    return Answer(bool(texts), "; ".join(texts) or "no more waiting for I/O than before")


def stalled_by_io(f: Findings) -> Answer:
    """Tasks wait for I/O, for as long as a relevant part of the added time.

    The pressure is that of the whole machine: some background writes are always in it.
    """
    pressure = io_pressure(f)
    share = f.sensors.of_added_time("psi_io_some_ns")
    if not pressure.holds or share is None:
        return pressure
    text = f"{pressure.text}, {as_percent(min(max(share, 0.0), 1.0))} of the added time"
    return Answer(share >= f.limits.of_added, text)


def memory_pressure(f: Findings) -> Answer:
    """Pages have to be fetched (major faults), or tasks wait for memory."""
    faults, pressure = (
        f.sensors.per_step("page_faults_major"),
        f.sensors.counter("psi_memory_some_ns"),
    )
    if faults is None and pressure is None:
        return Answer(None, "neither page faults nor memory pressure were sampled")
    texts = []
    if faults is not None and faults.delta >= f.limits.major_faults:
        texts.append(f"{faults.abnormal:.1f} major page faults per step ({faults.normal:.1f})")
    if pressure is not None and pressure.delta >= 100 * f.limits.psi_share:
        texts.append(f"memory pressure {pressure.abnormal:.1f} % of time ({pressure.normal:.1f})")
    return Answer(bool(texts), "; ".join(texts) or "no major faults, no memory pressure")


# --- Where in the program


def worst_section(f: Findings) -> SectionPair | None:
    """The annotated section that grew most."""
    grown = [s for s in _sections(f) if s.grown_ms > 0]
    return grown[0] if grown else None


def _sections(f: Findings) -> list[SectionPair]:
    """Annotated sections of the program, the one that grew most first; a collection is none."""
    return [section for section in f.host.sections if not _is_gc(section.name)]


def section_share(f: Findings, section: SectionPair) -> tuple[float, float]:
    """A section's part of the growth of all sections, and of their normal time, on the GPU."""
    sections = _sections(f)
    growth = sum(max(0.0, s.grown_ms) for s in sections)
    usual = sum(s.idle_ms.normal for s in sections)
    return section.grown_ms / growth if growth else 0.0, (
        section.idle_ms.normal / usual if usual else 0.0
    )


def in_one_section(f: Findings) -> Answer:
    """One section grew, out of all proportion to the others."""
    section = worst_section(f)
    if section is None:
        return Answer(None if not f.host.sections else False, "no annotated section grew")
    grown, usual = section_share(f, section)
    text = (
        f"the GPU waits {section.idle_ms.abnormal:.2f} ms per step for section {section.name!r} "
        f"(normal {section.idle_ms.normal:.2f}): {as_percent(grown)} of the growth of all "
        f"sections, {as_percent(usual)} of their normal time"
    )
    holds = (
        grown >= f.limits.concentrated
        and grown - usual >= f.limits.disproportion
        and section.idle_ms.abnormal >= f.limits.section_grew * f.host.pace * section.idle_ms.normal
        and section.grown_ms >= f.limits.part * f.delta_ms
        and section.grown_ms >= f.limits.min_effect * f.parts.normal_ms
    )
    return Answer(holds, text)


def between_operators(f: Findings) -> Answer:
    """The added host time is in plain Python, not inside operators and calls."""
    grown = [s for s in f.host.sections if s.own_ms.delta > 0]
    total = sum(s.own_ms.delta for s in grown)
    usual = sum(s.own_ms.normal for s in grown)
    if not total or not usual:
        return Answer(None, "no annotated section grew")
    python_share = sum(max(0.0, s.python_ms.delta) for s in grown) / total
    before = sum(s.python_ms.normal for s in grown) / usual
    text = (
        f"{as_percent(python_share)} of the sections' growth is outside operators "
        f"({as_percent(before)} of their time)"
    )
    return Answer(python_share - before >= f.limits.disproportion, text)


def everywhere(f: Findings) -> Answer:
    """The added host time is spread over the program as its normal time is.

    Without any annotated section, a slower clock or slower operators say so as well.
    """
    if not f.host.sections:
        slower = [answer for answer in (slower_clock(f), slower_ops(f)) if answer.holds]
        return slower[0] if slower else Answer(None, "the recording has no annotated sections")
    answer = in_one_section(f)
    return Answer(None if answer.holds is None else not answer.holds, answer.text)


def regular(f: Findings) -> Answer:
    """The section that grew takes the same added time in every step."""
    section = worst_section(f)
    if section is None:
        return Answer(None, "no annotated section grew")
    own = next(s for s in f.abnormal.sections if s.name == section.name).own_ns
    rows = np.concatenate([s.abnormal for s in f.units.strata])
    values = np.array(own, dtype=np.float64)[rows]
    if values.size < f.limits.min_steps or values.mean() <= 0:
        return Answer(None, "too few steps to say how regular it is")
    middle = float(np.median(values))
    spread = float(np.median(np.abs(values - middle))) * 1.4826 / middle if middle else 9.0
    return Answer(
        spread <= f.limits.section_regular,
        f"its time varies by {as_percent(spread)} from step to step",
    )


def long_pause(f: Findings) -> Answer:
    """The host pauses for long."""
    section = next((s for s in f.host.sections if s.grown_ms > 0), None)
    if section is None:
        return Answer(None, "no annotated section grew")
    per_call = section.own_ms.abnormal / max(section.calls.abnormal, 1e-9)
    text = f"section {section.name!r} takes {per_call:.1f} ms per call"
    return Answer(per_call >= f.limits.gc_pause_ms, text)


def plain_python(f: Findings) -> Answer:
    """The section that grew runs no operators to speak of."""
    section = worst_section(f)
    if section is None or section.own_ms.abnormal <= 0:
        return Answer(None, "no annotated section grew")
    in_ops = 1 - section.python_ms.abnormal / section.own_ms.abnormal
    text = f"{as_percent(in_ops)} of section {section.name!r} is in operators"
    return Answer(in_ops <= f.limits.python_section, text)


def collections_grew(f: Findings) -> Answer:
    """Recorded garbage collections grew (an annotation named gc, or `gc_ns`)."""
    tile = f.parts.by_family["gc"]
    counter = f.sensors.of_added_time("gc_ns")
    marked = [s for s in f.host.sections if _is_gc(s.name)]
    marks = sum(s.own_ms.delta for s in marked)
    if counter is None and not marked and tile == 0:
        return Answer(None, "garbage collections were not recorded")
    most = max(marks, tile)
    share = max(counter or 0.0, (most / f.delta_ms) if f.delta_ms > 0 else 0.0)
    text = f"garbage collections take {as_percent(share)} of the added time"
    return Answer(share >= f.limits.part, text)


def collections_in_sections(f: Findings) -> Answer:
    """Garbage collections grew, and their time is that of the sections they ran in.

    Collections that are marked on the time line have a state of their own, beside sections.
    """
    grew = collections_grew(f)
    return Answer(None if grew.holds is None else grew.holds and not f.share("gc") > 0, grew.text)


def _is_gc(name: str) -> bool:
    return idle_label(name) == "gc"


def section_detail(f: Findings) -> str:
    """The section that grew most, for a title; empty when no single one did."""
    section = worst_section(f)
    return f" (section {section.name!r})" if section and in_one_section(f).holds else ""
