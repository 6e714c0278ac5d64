"""Every number that a diagnosis compares with, in one place, with its unit and its origin.

Three origins occur. *Measured*: from recordings of the fault lab on one H200 machine, of the same
program with nothing changed. *Physics*: follows from how the thing works. *Chosen*: set before the
test half of the fault lab was recorded, so that half could not bend it; see
docs/explain/diagnosis.md. Those that a check of a cause reads have a test at their edge, in
`tests/unit/diagnose/test_thresholds.py` or `test_least_data.py`.
"""

from __future__ import annotations

import msgspec


class Thresholds(msgspec.Struct, frozen=True):
    """Limits; fractions unless the name or the text says otherwise."""

    # --- Units
    min_steps: int = 4
    """Steps of a phase on each side below which nothing is tested. Physics: Mann-Whitney cannot
    reach p < 0.05 with fewer."""
    whole_step: float = 0.98
    """A step with a smaller part of the modal number of GPU activities is left out. Chosen."""
    profiler_part: float = 0.01
    """A step of which the profiler itself took at least this part is left out, and so is the one
    after it: the profiler then empties the buffer that was full. Chosen, a third of `min_effect`.
    Measured: the step after it takes 1.6 times as long."""
    profiler_steps: float = 0.20
    """Nothing is left out of a phase where such steps are a larger part of it: they are what was
    recorded. Chosen."""
    profiler_slows: float = 4.0
    """A step that takes longer than this many typical steps of its phase is not left out: the
    profiler does not explain it. Measured: at most 3.84 in results/lab-patterns."""
    unit_factor: float = 1.2
    """Kernel counts per unit that differ by more than this factor ask for a conversion. Chosen."""
    unit_spread: float = 0.10
    """How far the counts of single kernels may differ from that factor; so may launch grids that
    follow one batch. Chosen."""
    unit_agree: float = 0.80
    """Part of all calls that has to agree with that factor. Chosen."""
    same_kernels: float = 0.15
    """Programs that share a smaller part of their kernel calls by name ... Chosen."""
    same_categories: float = 0.60
    """... and a smaller part by category are not the same program. Chosen."""
    same_weights: float = 0.30
    """Models that share a smaller part of the shapes of their weights are not the same. Chosen."""
    matched_share: float = 0.50
    """With a smaller part of the steps in common batch sizes the workload has changed. Chosen."""

    # --- Outcome
    min_effect: float = 0.03
    """No change smaller than this is a regression or an improvement. Chosen."""
    noise_quantile: float = 0.99
    """Of the ratios that splits of the normal run in two give: the noise inside a run. Chosen."""
    step_shift_p: float = 0.01
    """p of a Mann-Whitney test below which single steps have shifted. Chosen: one in a hundred
    pairs of equal recordings, as `noise_quantile`."""
    mix_p: float = 0.01
    """p of Fisher's test below which the share of a phase has changed. Chosen, as above."""
    host_noise: float = 0.15
    """Runs whose steps wait for the host differ by this much from one start of the program to
    the next with nothing changed; a change within it needs evidence of a cause to be called a
    regression. Measured: 10 % between two recordings of one program."""
    most_pace: float = 1.75
    """The host's pace (the typical call of its operators) differs by up to this factor between
    recordings of the same program; a change that it explains needs a driver to be called one.
    Measured: 1.5."""
    gpu_noise: float = 0.04
    """As `host_noise`, for steps whose GPU is busy nearly all the time. Chosen."""
    host_bound: float = 0.15
    """Least share of a step in which the GPU waits for a host-bound program. Chosen."""
    equivalence: float = 0.03
    """Two one-sided tests: "unchanged" means proven to be within this. Chosen: `min_effect`."""
    fdr: float = 0.05
    """False discovery rate over everything that was tested. Chosen: the usual one."""
    mix_share: float = 0.50
    """A shift between phases that explains more of the difference is a change of workload.
    Chosen: most of it."""
    mix_shift: float = 0.10
    """Least change of a phase's share of the steps that makes the mix different. Chosen."""

    slow_step: float = 0.5
    """A step is slow when it takes longer than the typical step of its run and phase by this share
    ... Chosen."""
    slow_step_noise: float = 4.0
    """... and by this many robust standard deviations of the steps of either run. Chosen."""
    slow_step_beyond: float = 2.5
    """Two slow steps that exceed everything in the normal run by this factor are no accident, also
    where there are too few steps for their number to be significant. Chosen."""
    few_slow_steps: float = 0.75
    """Then the confidence of every cause is multiplied by this. Chosen."""
    tail_steps: int = 12
    """Steps on each side below which nothing is said about slow ones. Chosen."""

    # --- Inside one run
    within_p: float = 0.01
    """p below which a change point or a period inside one run is no chance. Chosen, as `mix_p`."""
    moved_within: float = 0.15
    """Least change of the typical step inside a run that counts. Chosen: `host_noise`, since
    the host's pace moves inside a run as it does between runs."""
    periodic: float = 0.75
    """Least overlap of periodic slow steps with steps at one distance. Chosen."""
    level_steps: int = 5
    """Steps on each side of a change point at least. Chosen."""

    # --- Evidence in the trace
    part: float = 0.25
    """Part of the difference that a cause has to be able to explain to be named. Chosen."""
    accounted: float = 0.75
    """A cause that can account for a smaller part of the difference leaves a rest, which the
    sentence states. Chosen."""
    most: float = 0.50
    """Share of the difference that is most of it. Physics: the word."""
    kernel_grew: float = 0.06
    """Growth of the time per call of the same kernels that counts as slower. Chosen."""
    kernel_same: float = 0.05
    """Change of it that still counts as the same. Chosen."""
    kernel_interrupted: float = 0.05
    """How much more the mean call must grow than the median one when some calls are interrupted.
    Chosen."""
    kernel_categories: int = 3
    """Categories of kernels below which nothing is said about all of them. Chosen."""
    category_counts: float = 0.01
    """Part of GPU time below which a category of kernels is left out. Chosen."""
    categories_slower: float = 0.50
    """Part of the categories that is slower when all kernels are. Chosen."""
    attention_alone: float = 0.60
    """Part of the growth of GPU time that attention must hold when attention alone grew. Chosen."""
    grid_same: float = 0.05
    """Change of a launch grid that is none. Physics: grids are whole numbers; this is rounding."""
    row_kernels: int = 2
    """Row-wise kernels with a grid below which the batch is unknown. Chosen."""
    host_ops_grew: float = 0.15
    """Growth of the median time per host operator that counts as a slower core. Chosen."""
    host_op_calls: int = 10
    """Calls of a host operator on each side below which it is not compared. Chosen."""
    host_ops_shared: int = 3
    """Host operators in common below which their pace is unknown. Chosen."""
    set_changed: float = 0.05
    """Least share of GPU time in kernels that only one run has when the kernels changed.
    Chosen."""
    dtype_moved: float = 0.03
    """Part of the products of a data type that must leave it, when the type changed ... Chosen."""
    dtype_calls: float = 1.0
    """... and this many products per step. Chosen: one."""
    calls_grew: float = 0.5
    """Growth of a call count that counts as more calls ... Chosen."""
    calls_more: float = 1.0
    """... if it is also this many per step. Chosen: one."""
    launches_grew: float = 0.05
    """Growth of kernel launches that counts as more launches ... Chosen."""
    launches_more: float = 5.0
    """... if it is also this many per step. Chosen."""
    graph_share_pct: float = 5.0
    """Fall of the share of GPU time under graph replays, percent, that counts as graphs given up
    ... Chosen."""
    graph_launches: float = 0.03
    """... if replays per step also fall by this share. Chosen."""
    large_copy_gbps: float = 1.0
    """Copies that are slower than this, GB/s, are too small for their bandwidth to mean anything.
    Chosen: PCIe gives tens of GB/s to large ones."""
    bandwidth_fell: float = 0.20
    """Fall of the bandwidth of copies of the same kind and size that counts as slower ...
    Measured: recordings of the same program differ by 18 %."""
    bandwidth_with_traffic: float = 0.05
    """... and where the link also carries more than before. Chosen."""
    unpinned_grew: float = 0.20
    """Growth of the bytes copied from or to pageable memory that counts. Chosen."""
    concentrated: float = 0.60
    """Part of the host's growth in one section that makes it a matter of that section. Chosen."""
    disproportion: float = 0.25
    """How much a section's share of the growth must exceed its share of the normal time. Chosen."""
    section_grew: float = 2.0
    """Least factor, beyond the host's pace, of a section that got slower. Measured: between
    recordings of the same program sections differ by up to 1.7."""
    section_latent: float = 0.02
    """Part of the step by which a section must grow to be listed as a hidden change. Chosen."""
    section_regular: float = 0.15
    """Spread of a section's time over steps (1.4826 x median deviation / median) up to which it
    takes as long in every step. Chosen."""
    python_section: float = 0.20
    """A section with a smaller part of its time in operators runs plain Python. Chosen."""
    telling_weight: float = 2.0
    """Least weight of a supporting check whose absence leaves doubt. Chosen."""
    gc_pause_ms: float = 20.0
    """Pauses in plain Python from this length on, ms, suggest a collection of a large heap.
    Chosen."""

    # --- Evidence in the counters
    min_samples_tested: int = 4
    """Samples on each side below which a sensor is not tested. Chosen: as `min_steps`."""
    of_added: float = 0.20
    """Least share of the added wall time that a state of the scheduler (running, waiting for a
    core, blocked) must hold to explain it. Chosen."""
    runq_share: float = 0.03
    """Least growth of the part of time that the thread waits for a core. Chosen."""
    throttled_share: float = 0.05
    """Least part of time that a quota stops the process. Chosen."""
    blocked_share: float = 0.05
    """Least growth of the part of time in which the thread neither runs nor waits for a core.
    Chosen."""
    other_threads_cores: float = 0.2
    """Use by other threads, in cores, below which they cannot show that the process was stopped.
    Chosen."""
    stopped_with_main: float = 0.5
    """Share of the time lost by the main thread that the other threads must have lost too when
    the whole process was stopped. Chosen."""
    preempted_factor: float = 2.0
    """Growth factor of involuntary switches that counts ... Chosen."""
    preempted_more: float = 10.0
    """... if it is also this many per second. Chosen."""
    clock_fell: float = 0.05
    """Fall of a clock that counts. Chosen."""
    foreign_gpu: float = 10.0
    """Use of the GPU by others, in percent of time, that counts. Chosen."""
    foreign_cpu: float = 3.0
    """Growth of the CPU use of the machine, in percent of all cores, that counts as another load.
    Measured: without one it moves by 1 between recordings."""
    many_cores: float = 10.0
    """The same for a load that can take the memory bandwidth. Chosen."""
    own_threads: float = 0.15
    """Growth of the CPU time of the process's other threads, in cores, that counts. Chosen."""
    io_bytes: float = 65536.0
    """Growth of bytes read or written per step that counts. Chosen."""
    io_calls: float = 1.0
    """Growth of calls of reading or writing per step that counts. Chosen: one."""
    io_rate_grew: float = 0.20
    """Growth of the rate of reading or writing that counts. Physics: background work grows with
    the length of the steps, and its rate does not."""
    iowait_pct: float = 1.0
    """Growth of the time in which cores waited for I/O, in percent, that counts. Chosen."""
    psi_share: float = 0.01
    """Growth of the part of time under pressure that counts. Chosen."""
    major_faults: float = 0.5
    """Major page faults per step that count. Chosen."""
    pcie_grew: float = 2.5
    """Factor of PCIe traffic that counts as foreign traffic when our copies did not grow ...
    Chosen."""
    pcie_more_mbps: float = 100.0
    """... if it is also this many MB/s. Chosen."""
    heap_grew: float = 0.10
    """Growth of the memory of the process that goes with a large heap to collect. Chosen."""

    # --- Naming
    unknown_score: float = 1.0
    """What `unknown` scores: more than a weak pattern that explains little, less than any
    evidence. Chosen."""
    explained_weight: float = 2.0
    """Score of a cause that explains the whole difference, beyond its evidence. Chosen."""
    dose_slack: float = 1.5
    """Factor by which an effect may exceed what its cause can produce by its size. Chosen."""
    doubt: float = 0.4
    """Score that a cause loses for each check that would rule it out, or prove it, and that the
    recordings do not answer. Chosen."""
    driven: float = 2.0
    """Least odds of the first cause over `unknown` for a small change to count as explained.
    Chosen."""
    margin: float = 0.15
    """Difference of confidence below which the first two causes are both named. Chosen."""
    lab_right: int = 29
    """Causes named first in the lab's test half, all of them right: no confidence is above what so
    many allow. Measured: `solscope lab score`, where a cause is named."""
    sure: float = 0.60
    """Least confidence at which the sentence names one cause without reservation. Chosen."""


THRESHOLDS = Thresholds()
