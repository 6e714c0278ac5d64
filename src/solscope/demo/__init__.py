"""Small real profiles in the package, opened as `demo:NAME`; NOTICE names their source."""

from __future__ import annotations

from pathlib import Path

from solscope.errors import InputError

PREFIX = "demo:"
DEMOS = {
    "vllm-b200": "vllm-b200.json.gz",
    "vllm-mi300x-graph": "vllm-mi300x-graph.json.gz",
}
"""Name and file: a vLLM prefill step on B200 (eager), a vLLM decode step on MI300X (one graph)."""


def resolve(path: str) -> str:
    """The file behind `demo:NAME`; any other path unchanged."""
    if not path.startswith(PREFIX):
        return path
    name = path.removeprefix(PREFIX)
    if name not in DEMOS:
        raise InputError(f"{path}: no such demo profile (there are: {', '.join(DEMOS)})")
    return str(Path(__file__).parent / DEMOS[name])
