"""All commands with their short helps, so that `solscope --help` imports none of them.

Written by `make generated` from the modules in `cli/commands/`. Lines keep their order: move one
to change the place of its command in the help.
"""

from __future__ import annotations

COMMANDS = {
    "show": "Say where the GPU time goes.",
    "kernels": "List kernels, copies and fills with statistics.",
    "layers": "Break one decoder layer down by role and kernel.",
    "operators": "Compare each operator with its roofline bound.",
    "ranks": "Find the rank that the others wait for, and why.",
    "hotspots": "Rank what to fix first, by time saved.",
    "host": "Say what the host did while the GPU waited.",
    "memory": "Show GPU memory: peak, fragmentation, who allocates.",
    "efficiency": "Compute MFU, MBU and the speed of light of a step.",
    "whatif": "Predict a step on other hardware, sizes or settings.",
    "compare": "Compare profiles of the same work.",
    "gate": "Fail a CI job when a profile got slower.",
    "report": "Write one self-contained HTML file.",
    "serve": "Start a local dashboard.",
    "diagnose": "Find out what changed between two runs, or within one, and why.",
    "export": "Export a profile to Perfetto, Parquet or CSV.",
    "suite": "Show operator suites: shapes, bounds, importance.",
    "corpus": "Analyze many profiles in a store.",
    "bench": "Check, time and score kernels.",
    "hardware": "Show the peak figures of GPUs, or measure one.",
    "capture": "Record host and GPU sensors while a process runs.",
    "lab": "Inject known faults and score the diagnosis.",
    "demo": "Try every command on bundled recordings.",
    "cache": "Show or clear the cache of profiles that were read.",
    "schema": "Print the JSON Schema of a command's output.",
    "doctor": "Show what this installation can do.",
}
