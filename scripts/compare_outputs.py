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
    arguments = parser.parse_args()
    if arguments.command == "record":
        record(arguments.out, arguments.data)
    else:
        sys.exit(compare(arguments.before, arguments.after))


def record(out: Path, data: list[Path]) -> None:
    """Run every command and write what it prints to `out`."""
    out.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["SOLSCOPE_CACHE_DIR"] = scratch
        os.environ["COLUMNS"] = "100"
        for arguments in invocations(data, Path(scratch)):
            text = run(arguments, scratch)
            name = re.sub(r"[^\w.-]+", "_", " ".join(arguments).replace(scratch, ""))[-150:]
            digest = hashlib.sha256(" ".join(arguments).replace(scratch, "").encode()).hexdigest()
            (out / f"{name}-{digest[:8]}.txt").write_text(text, errors="surrogateescape")


def invocations(data: list[Path], scratch: Path) -> Iterator[tuple[str, ...]]:
    """Arguments of every command to run; later ones use what earlier ones stored."""
    from solscope.demo import DEMOS

    profiles = sorted({path for root in data for path in profile_files(root)})
    names = [f"demo:{name}" for name in sorted(DEMOS)] + [str(path) for path in profiles]
    yield from ALONE
    for name in names:
        for command in SINGLE:
            form = () if "--markdown" in command else ("--json",)
            yield (command[0], name, *command[1:], *form)
        yield ("export", name, "--csv", str(scratch / "kernels.csv"), "--force", "--json")
    for first, second in itertools.pairwise(names):
        if Path(first).parent == Path(second).parent:
            for command in PAIRS:
                form = () if "--markdown" in command else ("--json",)
                yield (command[0], first, second, *command[1:], *form)
    for folder in sorted({path.parent for path in profiles}):
        yield ("ranks", str(folder), "--json")
    store = str(scratch / "store")
    yield ("corpus", "init", store, "--json")
    yield ("corpus", "add", store, *names, "--json")
    for question in ("importance", "status", "verify", "trend"):
        yield ("corpus", question, store, "--json")


def profile_files(root: Path) -> Iterator[Path]:
    """Files that may be profiles; what is not one has an error message to compare."""
    paths = [root] if root.is_file() else sorted(root.rglob("*"))
    return (path for path in paths if re.search(r"(json(\.gz|\.zst)?|sqlite|csv)$", path.name))


def run(arguments: tuple[str, ...], scratch: str) -> str:
    """Exit code, standard output and standard error of one command."""
    result = subprocess.run(
        [sys.executable, "-m", "solscope", *arguments], capture_output=True, check=False
    )
    out, err = (
        text.decode(errors="surrogateescape").replace(scratch, "SCRATCH")
        for text in (result.stdout, result.stderr)
    )
    return f"exit {result.returncode}\n{out}\n--- standard error\n{err}"


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
