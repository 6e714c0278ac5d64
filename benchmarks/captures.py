"""How much of a replay gets costs from recordings of its captures, beside TraceLens.

    python benchmarks/captures.py FOLDER... [--tracelens PYTHON] [--json FILE]

A folder has one replay and `capture_traces`, as vLLM and SGLang write them; an eager recording of
the same steps (`eager.json.zst`) is the truth where there is one. Both programs read the same
files. For each: the share of GPU time with FLOP or bytes, and for how many of the replayed kernels
operator and input shapes are those of the other program, or of the truth. TraceLens runs with the
Python of its own virtual environment; without --tracelens only solscope does, and a line says so.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import zstandard

import solscope
from solscope.attribution import Attributed, attribute
from solscope.attribution.borrow import with_replays
from solscope.attribution.companion_files import companion_files
from solscope.events import json_list
from solscope.views.costs import find_calls

DRIVER = Path(__file__).with_name("tracelens_driver.py")
CAPTURES, TRUTH = "capture_traces", "eager.json.zst"
Call = tuple[str, str]
"""An operator and the shapes of its inputs, as compact JSON."""


class Found(NamedTuple):
    """What one program knows of a replay."""

    costed: float | None
    """Share of GPU time with FLOP or bytes; null where the program gives no costs."""
    calls: dict[tuple[int, str], Call]
    """By start in ns, from that of the first activity, and name of a kernel."""


class Agreement(NamedTuple):
    """Replayed kernels that both know, and those with the same operator and inputs."""

    both: int
    equal: int

    def __str__(self) -> str:
        return f"{self.equal:,} of {self.both:,}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--tracelens", metavar="PYTHON", help="Python that has TraceLens")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    args = parser.parse_args()
    rows = [measure(folder, args.tracelens) for folder in args.folders]
    heads = ("replay", "kernels", "costs: solscope", "TraceLens", "same call", "truth: solscope")
    print("| " + " | ".join((*heads, "TraceLens")) + " |")
    print("|---" + "|--:" * len(heads) + "|")
    for row in rows:
        print("| " + " | ".join(str(row.get(name, "-")) for name in _COLUMNS) + " |")
    if args.tracelens is None:
        print("\nTraceLens was not run: --tracelens names the Python of its virtual environment.")
    else:
        print(f"\nTraceLens {rows[0]['version']}")
    if args.json is not None:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


_COLUMNS = ("replay", "kernels", "ours", "theirs", "same", "truth", "their truth")


def measure(folder: Path, tracelens: str | None) -> dict[str, Any]:
    """One row of the table."""
    files = [f for f in sorted(folder.glob("*.json*")) if f.name != TRUTH]
    if len(files) != 1 or not (folder / CAPTURES).is_dir():
        raise SystemExit(f"{folder}: not one replay and {CAPTURES}")
    profile = solscope.open(files[0])
    captures = companion_files(folder / CAPTURES, profile.metadata.rank)
    attributed = attribute(profile, companion=[solscope.open(file) for file in captures])
    replayed, ours = _replayed(attributed), _ours(attributed)
    row: dict[str, Any] = {"replay": folder.name, "kernels": f"{len(replayed):,}"}
    row["ours"] = _percent(ours.costed)
    truth = None
    if (folder / TRUTH).exists():
        eager = solscope.open(folder / TRUTH)
        truth = _ours(attribute(profile, companion=eager))
        row["truth"] = str(_agreement(ours, truth, replayed))
    if tracelens is not None:
        theirs, row["version"] = _theirs(files[0], folder / CAPTURES, tracelens)
        row["theirs"] = _percent(theirs.costed)
        row["same"] = str(_agreement(theirs, ours, replayed))
        if truth is not None:
            row["their truth"] = str(_agreement(theirs, truth, replayed))
    return row


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{100 * share:.1f} %"


def _replayed(attributed: Attributed) -> set[tuple[int, str]]:
    events, rows = attributed.profile.events, attributed.activities
    own = with_replays(events, rows, attributed.steps)
    return set(_keys(own).filter(own["replayed"]).rows())


def _keys(activities: pl.DataFrame) -> pl.DataFrame:
    first = activities["start_ns"].min()
    return activities.select(pl.col("start_ns") - first, pl.col("name").cast(pl.String))


def _ours(attributed: Attributed) -> Found:
    rows = attributed.activities
    table = find_calls(attributed)
    known = [number for number, kind in enumerate(table.kinds) if kind.cost is not None]
    costed_ns = int(table.calls.filter(pl.col("kind").is_in(known))["time_ns"].sum())
    costed = costed_ns / int(table.calls["time_ns"].sum())
    lent = rows.select(pl.col("op_borrowed", "dims_borrowed").cast(pl.String)).rows()
    calls = {
        key: (op, dims)
        for key, (op, dims) in zip(_keys(rows).rows(), lent, strict=True)
        if op is not None and dims is not None
    }
    return Found(costed, calls)


def _theirs(profile: Path, captures: Path, python: str) -> tuple[Found, str]:
    """What TraceLens finds in copies that it can read, in a folder where it may write."""
    with tempfile.TemporaryDirectory() as name:
        copies = Path(name)
        (copies / CAPTURES).mkdir()
        replay = _copy(profile, copies)
        for file in sorted(captures.glob("*.json*")):
            if file.name != "execution_details.json":
                _copy(file, copies / CAPTURES)
        details = captures / "execution_details.json"
        if details.exists():
            (copies / CAPTURES / details.name).write_bytes(details.read_bytes())
        paths = (DRIVER, replay, copies / CAPTURES, copies / "found.json")
        command = [python, *map(str, paths)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip() or "no message").splitlines()[-1]
            raise SystemExit(f"TraceLens failed on {profile}: {last}")
        found = json.loads((copies / "found.json").read_text())
    kernels = found["kernels"]
    first = min((_ns(ts) for ts, *_ in kernels), default=0)
    calls = {
        (_ns(ts) - first, name): (op, json.dumps(dims))
        for ts, name, op, dims in kernels
        if op is not None and dims is not None
    }
    return Found(found["costed"], calls), found["version"]


def _copy(file: Path, folder: Path) -> Path:
    """As JSON, compressed by gzip: TraceLens reads no other compression."""
    if file.suffix != ".zst":
        copied = folder / file.name
        copied.write_bytes(file.read_bytes())
        return copied
    data = zstandard.ZstdDecompressor().stream_reader(file.open("rb")).read()
    copied = folder / (file.stem + ".gz")
    copied.write_bytes(gzip.compress(data, 1))
    return copied


def _ns(microseconds: float) -> int:
    return round(microseconds * 1000)


def _agreement(some: Found, others: Found, replayed: set[tuple[int, str]]) -> Agreement:
    both = replayed & some.calls.keys() & others.calls.keys()
    return Agreement(len(both), sum(_equal(some.calls[key], others.calls[key]) for key in both))


def _equal(one: Call, other: Call) -> bool:
    """The same operator, with the same shapes; one may also list tensors that are used inside."""
    (name, dims), (other_name, other_dims) = one, other
    pairs = zip(json_list(dims), json_list(other_dims), strict=False)
    return name == other_name and all(a == b for a, b in pairs)


if __name__ == "__main__":
    main()
