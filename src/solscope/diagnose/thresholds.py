"""Every number that a diagnosis compares with, in one place.

They were set from the physics of the faults and from recorded runs, and committed before the test
half of the fault lab was recorded; see docs/explain/diagnosis.md.
"""

from __future__ import annotations

import msgspec


class Thresholds(msgspec.Struct, frozen=True):
    """Limits; fractions unless the name says otherwise."""

    # --- Units
    min_steps: int = 4
    """Steps of a phase on each side below which nothing is tested."""
    whole_step: float = 0.98
    """A step with a smaller part of the modal number of GPU activities is left out."""
    unit_factor: float = 1.2
    """Kernel counts per unit that differ by more than this ask for a conversion."""
    unit_spread: float = 0.10
    """How far the counts of single kernels may differ from that factor ..."""
    unit_agree: float = 0.80
    """... and for which part of all calls they have to agree with it."""
    same_kernels: float = 0.15
    """Programs that share a smaller part of their kernel calls by name ..."""
    same_categories: float = 0.60
    """... and a smaller part by category are not the same program."""
    same_weights: float = 0.30
    """Models that share a smaller part of the shapes of their weights are not the same."""
    matched_share: float = 0.50
    """With a smaller part of the steps in common batch sizes the workload has changed."""

    # --- Outcome
    min_effect: float = 0.03
    """No change smaller than this is a regression or an improvement."""
    noise_quantile: float = 0.99
    """Of the ratios that splits of the normal run in two give: the noise inside a run."""
    host_noise: float = 0.15
    """Runs whose steps wait for the host differ by so much from one start of the program to the
    next with nothing changed (measured: 10 % between two recordings of one program); a change
    within it needs evidence of a cause to be called a regression."""
    most_pace: float = 1.75
    """The host's pace (the typical call of its operators) differs by up to so much between
    recordings of the same program; a change that it explains needs a driver to be called one."""
    gpu_noise: float = 0.04
    """The same for steps whose GPU is busy nearly all the time."""
    host_bound: float = 0.15
    """Part of a step in which the GPU waits for the host, from which on a step is host-bound."""
    equivalence: float = 0.03
    """Two one-sided tests: "unchanged" means proven to be within this."""
    fdr: float = 0.05
    """False discovery rate over everything that was tested."""
    mix_share: float = 0.50
    """A shift between phases that explains more of the difference is a change of workload."""
    mix_shift: float = 0.10
    """Change of the share of a phase's steps from which on the mix differs."""

    # --- Evidence in the trace
    part: float = 0.25
    """Part of the difference that a cause has to be able to explain to be named."""
    most: float = 0.50
    """Part of the difference from which on something explains most of it."""
    kernel_grew: float = 0.06
    """Growth of the time per call of the same kernels that counts as slower."""
    kernel_same: float = 0.05
    """Change of it that still counts as the same."""
    attention_alone: float = 0.60
    """Part of the growth of GPU time that attention must hold when attention alone grew."""
    host_ops_grew: float = 0.15
    """Growth of the median time per host operator that counts as a slower core."""
    set_changed: float = 0.05
    """Part of GPU time in kernels that only one run has, from which on the kernels changed."""
    calls_grew: float = 0.5
    """Growth of a call count that counts as more calls ..."""
    calls_more: float = 1.0
    """... if it is also this many per step."""
    graph_share_pct: float = 5.0
    """Fall of the share of GPU time under graph replays that counts as graphs given up ..."""
    graph_launches: float = 0.03
    """... if there are also by so much fewer replays per step."""
    bandwidth_fell: float = 0.20
    """Fall of the bandwidth of copies of the same kind and size that counts as slower (recordings
    of the same program differ by 18 %) ..."""
    bandwidth_with_traffic: float = 0.05
    """... and where the link also carries more than before."""
    concentrated: float = 0.60
    """Part of the host's growth in one section that makes it a matter of that section."""
    disproportion: float = 0.25
    """By so much more must a section's part of the growth exceed its part of the normal time."""
    section_grew: float = 2.0
    """Factor, beyond the host's pace, from which on a section got slower; between recordings of the
    same program sections differ by up to 1.7."""
    python_section: float = 0.20
    """A section with a smaller part of its time in operators runs plain Python."""
    gc_pause_ms: float = 20.0
    """Pauses in plain Python from this length on suggest a collection of a large heap."""

    # --- Evidence in the counters
    min_samples_tested: int = 4
    """Samples on each side below which it is not tested."""
    of_added: float = 0.20
    """Part of the added wall time spent in a state of the scheduler (running, waiting for a core,
    blocked) from which on that state explains it."""
    runq_share: float = 0.03
    """Least growth of the part of time that the thread waits for a core."""
    throttled_share: float = 0.05
    """Least part of time that a quota stops the process."""
    blocked_share: float = 0.05
    """Least growth of the part of time in which the thread neither runs nor waits for a core."""
    clock_fell: float = 0.05
    """Fall of a clock that counts."""
    foreign_gpu: float = 10.0
    """Use of the GPU by others, in percent of time, that counts."""
    foreign_cpu: float = 3.0
    """Growth of the CPU use of the machine, in percent of all cores, that counts as another load;
    without one it moves by 1 between recordings."""
    many_cores: float = 10.0
    """The same, from which on the load can take the memory bandwidth."""
    own_threads: float = 0.15
    """Growth of the CPU time of the process's other threads, in cores, that counts."""
    io_bytes: float = 65536.0
    """Growth of bytes read or written per step that counts."""
    io_calls: float = 1.0
    """Growth of calls of reading or writing per step that counts."""
    iowait_pct: float = 1.0
    """Growth of the time in which cores waited for I/O, in percent, that counts."""
    psi_share: float = 0.01
    """Growth of the part of time under pressure that counts."""
    major_faults: float = 0.5
    """Major page faults per step that count."""
    pcie_grew: float = 2.5
    """Factor of PCIe traffic that counts as foreign traffic when our copies did not grow."""

    heap_grew: float = 0.10
    """Growth of the memory of the process that goes with a large heap to collect."""

    # --- Naming
    margin: float = 0.15
    """Difference of confidence below which the first two causes are both named."""
    sure: float = 0.60
    """Confidence from which on the sentence names one cause without reservation."""


THRESHOLDS = Thresholds()
