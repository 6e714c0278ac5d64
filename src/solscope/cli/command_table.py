"""All commands with their short helps, so that `solscope --help` imports none of them.

Written by `make generated` from the modules in `cli/commands/`.
"""

from __future__ import annotations

COMMANDS = {
    "bench": "Check, time and score kernels.",
    "cache": "Show or clear the cache of profiles that were read.",
    "capture": "Record host and GPU sensors while a process runs.",
    "compare": "Compare profiles of the same work.",
    "corpus": "Analyze many profiles in a store.",
    "demo": "Try every command on bundled recordings.",
    "diagnose": "Find out what changed between two runs, or within one, and why.",
    "doctor": "Show what this installation can do.",
    "efficiency": "Compute MFU, MBU and the speed of light of a step.",
    "export": "Export a profile to Perfetto, Parquet or CSV.",
    "gate": "Fail a CI job when a profile got slower.",
    "hardware": "Show the peak figures of GPUs, or measure one.",
    "host": "Say what the host did while the GPU waited.",
    "hotspots": "Rank what to fix first, by time saved.",
    "kernels": "List kernels, copies and fills with statistics.",
    "lab": "Inject known faults and score the diagnosis.",
    "layers": "Break one decoder layer down by role and kernel.",
    "memory": "Show GPU memory: peak, fragmentation, who allocates.",
    "operators": "Compare each operator with its roofline bound.",
    "ranks": "Find the rank that the others wait for, and why.",
    "report": "Write one self-contained HTML file.",
    "schema": "Print the JSON Schema of a command's output.",
    "serve": "Start a local dashboard.",
    "show": "Say where the GPU time goes.",
    "suite": "Show operator suites: shapes, bounds, importance.",
    "whatif": "Predict a step on other hardware, sizes or settings.",
}
