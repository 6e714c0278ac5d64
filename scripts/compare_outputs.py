"""Show that a refactoring changed no output: run every command on every profile, then compare.

    python scripts/compare_outputs.py record before/ ../shared/data   # in the old checkout
    python scripts/compare_outputs.py record after/ ../shared/data    # in the new one
    python scripts/compare_outputs.py compare before/ after/

`record` runs the package that this interpreter imports and writes exit code, standard output and
standard error of each command to one file. The path of its scratch folder is replaced by a
placeholder, so that two runs can be compared.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

SINGLE = (
    ("show",),
    ("show", "--markdown"),
    ("kernels",),
    ("kernels", "--by", "call"),
    ("layers",),
    ("layers", "--kernels", "--markdown"),
    ("operators",),
    ("hotspots",),
    ("hotspots", "--markdown"),
)
"""Commands for each profile; those without `--markdown` get `--json`."""

PAIRS = (("compare",), ("compare", "--markdown"), ("gate", "--max-regression", "3%"), ("diagnose",))
"""Commands for each profile and its neighbour in the same folder."""

ALONE = (
    ("--help",),
    ("suite", "list", "--json"),
    ("suite", "roofline", "--json"),
    ("suite", "show", "rms_norm", "--json"),
    ("suite", "shapes", "--json"),
    ("hardware", "list", "--json"),
    ("hardware", "show", "H200", "--json"),
    ("bench", "score", "results/bench/h200.jsonl", "--json"),
    ("bench", "leaderboard", "results/bench/h200.jsonl", "--json"),
    ("bench", "compare", "results/bench/h200-earlier.jsonl", "results/bench/h200.jsonl", "--json"),
    ("ranks", "demo:ranks", "--json"),
    ("ranks", "demo:ranks"),
    ("demo", "--json"),
)


def main() -> None:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recorder = commands.add_parser("record", help="run every command and keep its output")
    recorder.add_argument("out", type=Path)
    recorder.add_argument("data", type=Path, nargs="*", help="files and folders of profiles")
    comparer = commands.add_parser(
        "compare", help="compare two recorded folders; exit 1 if unequal"
    )
    comparer.add_argument("before", type=Path)
    comparer.add_argument("after", type=Path)
    runner = commands.add_parser("run", help="used by `record`")
    runner.add_argument("scratch")
    runner.add_argument("batch", type=Path)
    runner.add_argument("out", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "record":
        record(arguments.out, arguments.data)
    elif arguments.command == "run":
        run(arguments.scratch, arguments.batch, arguments.out)
    else:
        sys.exit(compare(arguments.before, arguments.after))


def record(out: Path, data: list[Path]) -> None:
    """Run every command and write what it prints to `out`."""
    out.mkdir(parents=True)
    os.environ["COLUMNS"] = "100"
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["SOLSCOPE_CACHE_DIR"] = scratch
        for number, commands in enumerate(batches(data, Path(scratch))):
            batch = Path(scratch) / f"{number}.batch"
            batch.write_text(json.dumps(commands))
            # A process of its own for each batch: a crash is seen as missing outputs.
            subprocess.run([sys.executable, __file__, "run", scratch, batch, out], check=False)


def batches(data: list[Path], scratch: Path) -> Iterator[list[tuple[str, ...]]]:
    """Commands to run, those that share a profile or a store together."""
    from solscope.demo import DEMOS

    profiles = sorted({path for root in data for path in profile_files(root)})
    names = [f"demo:{name}" for name in sorted(DEMOS)] + [str(path) for path in profiles]
    yield list(ALONE)
    for name, following in itertools.zip_longest(names, names[1:]):
        commands = [(command[0], name, *command[1:], *form(command)) for command in SINGLE]
        commands.append(("export", name, "--csv", str(scratch / "a.csv"), "--force", "--json"))
        if following is not None and Path(name).parent == Path(following).parent:
            commands += [(cmd[0], name, following, *cmd[1:], *form(cmd)) for cmd in PAIRS]
        yield commands
    yield [("ranks", str(folder), "--json") for folder in sorted({p.parent for p in profiles})]
    store = str(scratch / "store")
    questions = ("importance", "status", "verify", "trend")
    yield [
        ("corpus", "init", store, "--json"),
        ("corpus", "add", store, *names, "--json"),
        *(("corpus", question, store, "--json") for question in questions),
    ]


def form(command: tuple[str, ...]) -> tuple[str, ...]:
    """JSON, unless the command asks for another form."""
    return () if "--markdown" in command else ("--json",)


def profile_files(root: Path) -> Iterator[Path]:
    """Files that may be profiles; what is not one has an error message to compare."""
    paths = [root] if root.is_file() else sorted(root.rglob("*"))
    return (path for path in paths if re.search(r"(json(\.gz|\.zst)?|sqlite|csv)$", path.name))


def run(scratch: str, batch: Path, out: Path) -> None:
    """Run the commands of one batch in this process; one file for each."""
    from solscope.cli import run as run_command

    streams = [Path(scratch) / name for name in ("stdout", "stderr")]
    for descriptor, path in zip((1, 2), streams, strict=True):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), descriptor)
    for arguments in json.loads(batch.read_text()):
        for descriptor in (1, 2):
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.ftruncate(descriptor, 0)
        code = run_command(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
        texts = [path.read_text(errors="surrogateescape") for path in streams]
        text = f"exit {code}\n{texts[0]}\n--- standard error\n{texts[1]}"
        command = " ".join(arguments).replace(scratch, "")
        digest = hashlib.sha256(command.encode("utf-8", "surrogateescape")).hexdigest()[:8]
        name = re.sub(r"[^\w.-]+", "_", command)[:60]
        (out / f"{name}-{digest}.txt").write_text(
            f"{command}\n{text}".replace(scratch, "SCRATCH"), errors="surrogateescape"
        )


def compare(before: Path, after: Path) -> int:
    """Print what differs; 1 when anything does."""
    names = {path.name for folder in (before, after) for path in folder.glob("*.txt")}
    different = 0
    for name in sorted(names):
        texts = [
            (folder / name).read_text(errors="surrogateescape") if (folder / name).exists() else ""
            for folder in (before, after)
        ]
        if texts[0] != texts[1]:
            different += 1
            lines = difflib.unified_diff(*(text.splitlines() for text in texts), lineterm="", n=0)
            print(
                name,
                *[f"    {line[:200]}" for line, _ in zip(lines, range(8), strict=False)],
                sep="\n",
            )
    print(f"{len(names) - different} of {len(names)} outputs are equal")
    return 1 if different else 0


if __name__ == "__main__":
    main()
