"""What is said of faults that others recorded: the behavior CSVs that LatencyPrism published.

    git clone https://github.com/kunluninsight/LatencyPrism
    python benchmarks/diagnose_public.py LatencyPrism/DeepDive/Data/Processed

Eight pairs of five faults; two more lack a file that fits into the repository. *Strictly* right
means that the fault is the first cause, or the first hidden change where the step did not move.
*Leniently*, it is named anywhere, or a cause that it has as its effect is.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import solscope
from solscope.attribution import attribute
from solscope.diagnose.diagnosis import Diagnosis, diagnose_runs
from solscope.diagnose.observe import observe
from solscope.readers.packed import Observations

TRUTH = {
    "cpu_compute_squeeze_out": "cpu_contention",
    "cpu_frequency_reduction": "cpu_slow",
    "gpu_instability": "gpu_clock",
    "gpu_memory_squeeze_out_NVLink": "interconnect",
    "gpu_memory_squeeze_out_PCIe": "pcie",
}
"""What was injected, as the cause that names it."""
EFFECTS = {"cpu_contention": {"cpu_slow"}}
"""Other load on a machine with free cores makes the core slower that its siblings share."""
PAIRS = tuple(
    f"{engine}/{fault}"
    for engine in ("SGLang", "vLLM")
    for fault in TRUTH
    if (engine, "squeeze_out_" in fault) != ("vLLM", True)
)
SURE = 0.6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="DeepDive/Data/Processed of the repository")
    folder = parser.parse_args().folder
    strict = lenient = wrong = 0
    for pair in PAIRS:
        normal, abnormal = (observed(folder / pair, side) for side in ("normal", "abnormal"))
        found = diagnose_runs(normal, abnormal)
        truth = TRUTH[pair.partition("/")[2]]
        named = ids(found)
        strict += named[0] == truth
        lenient += bool({truth, *EFFECTS.get(truth, ())} & set(named))
        first = found.causes[0]
        right = {truth, *EFFECTS.get(truth, ()), "none", "unknown"}
        wrong += first.id not in right and first.confidence >= SURE
        print(f"{pair}: {', '.join(named[:3])}\n    {found.sentence}")
    print(f"strictly {strict}, leniently {lenient}, confidently wrong {wrong} of {len(PAIRS)}")


def ids(found: Diagnosis) -> list[str]:
    """Causes in the order of a report: those of the verdict, then hidden changes."""
    causes = [cause.id for cause in found.causes if cause.id != "none"]
    hidden = [item.id for item in found.latent if item.id]
    return [*causes, *hidden, *(cause.id for cause in found.hidden_causes)] or ["none"]


def observed(folder: Path, side: str) -> Observations:
    """One run; its counters have to lie beside it under a name of the same form."""
    source = folder / f"{side}_perf_data"
    with tempfile.TemporaryDirectory() as beside:
        for kind in ("perf", "counters"):
            name = f"result_{kind}_data.csv"
            shutil.copy(source / name, Path(beside) / name)
        return observe(attribute(solscope.open(str(Path(beside) / "result_perf_data.csv"))))


if __name__ == "__main__":
    main()
