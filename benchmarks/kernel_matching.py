"""How much GPU time `compare --kernels` matches right when kernels are renamed.

    python benchmarks/kernel_matching.py ../shared/data/h200/architectures/*.graph.json.gz

Each profile is compared with a copy of itself whose kernels have other names:

    build    numbers in every name change, as tile sizes and hashes do in a new build
    some     three of ten kernels get names without a meaning
    all      every kernel gets a name without a meaning

Matched right is time in rows whose kernels before and after are the same kernels. Time in rows that
mix several kernels, or that have one side only, is counted apart.

With --twins, copies of `NAME.graph` are compared with `NAME.twin`: the same step launched eagerly,
with the same kernels in the same order.
"""

from __future__ import annotations

import argparse
import hashlib
import re
from dataclasses import replace

import polars as pl

import solscope
from solscope.compare.kernels import KernelChange, compare_kernels
from solscope.profile import Profile


def main() -> None:
    """Print one line per profile and way of renaming."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("profiles", nargs="+")
    parser.add_argument("--twins", action="store_true", help="compare graphs with eager twins")
    given = parser.parse_args()
    print(
        f"{'profile':40} {'renamed':8} {'right %':>8} {'mixed %':>8} {'wrong %':>8} {'none %':>8}"
    )
    totals: dict[str, list[tuple[float, ...]]] = {}
    for path in given.profiles:
        profile = solscope.open(path)
        other = solscope.open(path.replace(".graph.", ".twin.")) if given.twins else profile
        original = solscope.attribute(other)
        for way in ("same", "build", "some", "all") if given.twins else ("build", "some", "all"):
            names = {name: renamed(name, way) for name in kernel_names(profile)}
            copy = solscope.attribute(with_names(profile, names))
            shares = score(original, copy, names)
            totals.setdefault(way, []).append(shares)
            print(
                f"{path.rpartition('/')[2]:40} {way:8}", *(f"{x:8.2f}" for x in shares), flush=True
            )
    for way, rows in totals.items():
        means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
        print(f"{'mean':40} {way:8}", *(f"{x:8.2f}" for x in means))


def kernel_names(profile: Profile) -> list[str]:
    """Names of all kernels."""
    kernels = profile.events.filter(pl.col("kind").cast(pl.String) == "kernel")
    return kernels["name"].cast(pl.String).unique().drop_nulls().sort().to_list()


def renamed(name: str, way: str) -> str:
    """Another name for the same kernel, the same in every run."""
    if way == "same":
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()
    if way == "build":
        return re.sub(r"\d+", lambda number: str(int(number[0]) + 1), name)
    if way == "all" or int(digest[:4], 16) % 10 < 3:
        return "k_" + digest[:12].translate(str.maketrans("0123456789", "ghijklmnop"))
    return name


def with_names(profile: Profile, names: dict[str, str]) -> Profile:
    """The same profile with other names."""
    kernel = pl.col("kind").cast(pl.String) == "kernel"
    text = pl.col("name").cast(pl.String)
    other = pl.when(kernel).then(text.replace(names)).otherwise(text)
    events = profile.events.with_columns(other.cast(pl.Categorical).alias("name"))
    return replace(profile, events=events)


def score(
    original: solscope.Attributed, copy: solscope.Attributed, names: dict[str, str]
) -> tuple[float, float, float, float]:
    """Shares of the original's time in percent: right, mixed, wrong, not matched."""
    sums = dict.fromkeys(("right", "mixed", "wrong", "none"), 0)
    for phase in compare_kernels(original, copy).phases:
        for row in phase.rows:
            sums[judge(row, names)] += sum(use.total_ns for use in row.before)
    total = sum(sums.values()) or 1
    right, mixed, wrong, none = (100 * value / total for value in sums.values())
    return right, mixed, wrong, none


def judge(row: KernelChange, names: dict[str, str]) -> str:
    """What became of the row's kernels of the original."""
    before = {names.get(use.name, use.name) for use in row.before}
    after = {use.name for use in row.after}
    if not after or not before:
        return "none"
    if before == after:
        return "right" if len(before) == 1 else "mixed"
    return "mixed" if before & after else "wrong"


if __name__ == "__main__":
    main()
