"""Something to try for every command: command lines that work on the bundled recordings."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from solscope.demo import DEMOS, PREFIX
from solscope.demo.more_examples import MORE_EXAMPLES


class Example(NamedTuple):
    """One command, or a few that belong together."""

    name: str
    """What `solscope demo run` takes."""
    question: str
    """What the output answers."""
    commands: tuple[str, ...]
    """Arguments of solscope, as typed in a shell; files that they write are relative."""
    exit_code: int = 0
    """Of the last command; 1 is an answer, too: "this got slower"."""
    needs: str | None = None
    """Module of an optional dependency."""
    extra: str | None = None
    """The extra of the package that has it."""
    linux: bool = False
    """Needs what only Linux has."""
    runs: bool = True
    """False for a command that goes on until it is stopped."""

    @property
    def lines(self) -> list[str]:
        """The command lines."""
        return [f"solscope {command}" for command in self.commands]


TOUR = (
    Example("show", "Where does the GPU time go?", ("show demo:vllm-b200",)),
    Example(
        "kernels",
        "Which kernels take longest?",
        ("kernels --top 10 demo:vllm-b200",),
    ),
    Example(
        "layers",
        "What does one layer cost on two GPUs?",
        ("layers demo:qwen-h100 demo:qwen-mi300x",),
    ),
    Example(
        "compare",
        "Where do two platforms differ on the same work?",
        ("compare demo:qwen-h100 demo:qwen-mi300x",),
    ),
    Example(
        "operators",
        "How far is each operator from its roofline bound?",
        ("operators --top 10 demo:qwen-h100",),
    ),
    Example(
        "hotspots",
        "What should be fixed first, and what would it save?",
        ("hotspots demo:h200-normal",),
    ),
    Example("host", "What did the host do while the GPU waited?", ("host demo:h200-slow",)),
    Example("efficiency", "What are MFU and MBU?", ("efficiency demo:h200-normal",)),
    Example(
        "whatif",
        "What would CUDA graphs, FP8 and a B200 give?",
        ("whatif demo:h200-normal --graphs --dtype fp8 --gpu B200",),
    ),
    Example("memory", "What allocates GPU memory?", ("memory demo:qwen-h100",)),
    Example(
        "diagnose",
        "Why is the second run slow?",
        ("diagnose demo:h200-normal demo:h200-slow",),
        exit_code=1,
    ),
    Example(
        "gate",
        "Should CI reject this change?",
        ("gate demo:h200-normal demo:h200-slow --max-regression 5%",),
        exit_code=1,
    ),
    Example("ranks", "Which rank do the others wait for?", ("ranks demo:ranks", "show demo:ranks")),
    Example(
        "report",
        "Can I share the result as one HTML file?",
        ("report demo:vllm-b200 -o report.html",),
    ),
    Example(
        "export",
        "Can I open the trace in Perfetto, with roles and categories?",
        ("export demo:h200-slow --perfetto slow.json.gz",),
    ),
    Example(
        "corpus",
        "What matters over many profiles?",
        (
            "corpus init store",
            "corpus add store demo:vllm-b200 demo:qwen-h100 demo:ranks",
            "corpus importance store",
        ),
        needs="deltalake",
        extra="corpus",
    ),
    Example(
        "bench",
        "How good are these kernels, and which solution is fastest?",
        ("bench score demo:bench-h200", "bench leaderboard demo:bench-h200"),
    ),
    Example(
        "lab",
        "How often does the diagnosis name the right cause?",
        ("lab score demo:lab",),
    ),
    Example(
        "suite",
        "How fast could production operators run on an H200?",
        ("suite roofline --hardware H200",),
    ),
    Example("hardware", "What can a B200 do at most?", ("hardware show B200",)),
    Example(
        "capture",
        "What did the CPU, the memory and the GPU do while a program ran?",
        ("capture -o run.metrics.csv -- sleep 1", "show run.metrics.csv"),
        linux=True,
    ),
    Example("cache", "What is kept on disk of profiles that were read?", ("cache info",)),
    Example("schema", "Which fields does --json have?", ("schema gate",)),
    Example("doctor", "What can this installation do?", ("doctor",)),
    Example(
        "serve",
        "Can I look at all of this in a browser?",
        ("serve demo:vllm-b200 demo:ranks demo:bench-h200",),
        needs="starlette",
        extra="web",
        runs=False,
    ),
)
"""In the order of a first tour."""

EXAMPLES = TOUR + tuple(
    Example(name, question, (line,)) for name, (question, line) in MORE_EXAMPLES.items()
)
"""The tour, then the commands that it leaves out."""


def on_files(line: str) -> str:
    """A command line with the names of the files in place of `demo:NAME`."""
    return shlex.join(
        DEMOS[word.removeprefix(PREFIX)].file if word.startswith(PREFIX) else word
        for word in shlex.split(line)
    )
