"""Small real recordings in the package, opened as `demo:NAME`; NOTICE names their sources.

`scripts/make_demos.py` makes them from the full recordings. `examples.py` has a command to try for
each of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

from solscope.errors import InputError

PREFIX = "demo:"
FOLDER = Path(__file__).parent
"""The files are copied to disk with the package, so that each has a path."""


class Demo(NamedTuple):
    """One bundled file or folder."""

    file: str
    """Name in this package; a folder for `run` and `lab`."""
    kind: Literal["profile", "run", "results", "lab"]
    """One profile, the ranks of one run, benchmark results, or pairs of the fault lab."""
    about: str

    @property
    def files(self) -> list[Path]:
        """All that belongs to it, a metrics file beside the profile included."""
        path = FOLDER / self.file
        if path.is_dir():
            return sorted(file for file in path.rglob("*") if file.is_file())
        metrics = path.with_name(f"{path.name.partition('.')[0]}.metrics.csv")
        return [path, metrics] if metrics.is_file() else [path]


DEMOS = {
    "vllm-b200": Demo(
        "vllm-b200.json.gz", "profile", "vLLM on B200, MoE, one eager prefill step, rank 0 of 8"
    ),
    "vllm-mi300x-graph": Demo(
        "vllm-mi300x-graph.json.gz", "profile", "vLLM on MI300X, one decode step as one graph"
    ),
    "qwen-h100": Demo(
        "qwen-h100.json.zst", "profile", "Qwen1.5-0.5B with Transformers on H100, two prefills"
    ),
    "qwen-mi300x": Demo("qwen-mi300x.json.zst", "profile", "the same work on MI300X"),
    "h200-normal": Demo(
        "h200-normal.trace.json.zst",
        "profile",
        "serving loop on H200, 12 steps, with sensor samples",
    ),
    "h200-slow": Demo(
        "h200-slow.trace.json.zst",
        "profile",
        "the same loop while other processes compete for its CPU core",
    ),
    "ranks": Demo(
        "ranks", "run", "tensor parallelism over 4 GPU slices, 6 decode steps; one rank is slow"
    ),
    "bench-h200": Demo(
        "bench-h200.jsonl", "results", "benchmark results: 3 operators, 7 solutions, on H200"
    ),
    "lab": Demo("lab", "lab", "4 pairs of the fault lab, packed: 3 faults and a control"),
}
_USE = {
    "results": "holds benchmark results, not a profile; try `solscope bench score {}`",
    "lab": "holds pairs of the fault lab, not a profile; try `solscope lab score {}`",
    "run": "holds several profiles; name one of them: {}/{}",
}


def resolve(path: str) -> str:
    """The file or folder behind `demo:NAME` or `demo:NAME/FILE`; any other path unchanged."""
    if not path.startswith(PREFIX):
        return path
    name, _, within = path.removeprefix(PREFIX).partition("/")
    within = within.strip("/")
    if name not in DEMOS:
        raise InputError(f"{path}: no such demo (available: {', '.join(DEMOS)})")
    root = FOLDER / DEMOS[name].file
    if not within:
        return str(root)
    target = root / within
    if not (target.resolve().is_relative_to(root.resolve()) and target.exists()):
        raise InputError(f"{path}: the demo {name} has no such file")
    return str(target)


def expand(path: str) -> list[str]:
    """The profiles behind `demo:NAME`: itself, or each rank of a run."""
    target = Path(resolve(path))
    if not target.is_dir():
        demo = DEMOS.get(path.removeprefix(PREFIX))
        if demo is not None and demo.kind == "results":
            raise InputError(f"{path} {_USE['results'].format(path)}")
        return [path]
    if DEMOS[path.removeprefix(PREFIX).partition("/")[0]].kind == "lab" and not any(
        file.suffix == ".zst" for file in target.iterdir()
    ):
        raise InputError(f"{path} {_USE['lab'].format(path)}")
    return [f"{path.rstrip('/')}/{file.name}" for file in sorted(target.iterdir())]


def require_profile(path: str) -> None:
    """Raise where a command needs one profile and `demo:NAME` holds something else."""
    profiles = expand(path)
    if profiles != [path]:
        first = profiles[0].rpartition("/")[2]
        raise InputError(f"{path} {_USE['run'].format(path.rstrip('/'), first)}")
