"""Score `ranks` and `diagnose` on runs that `solscope.lab.ranks.record` made.

    python scripts/score_ranks.py FOLDER... [--json FILE]

A folder holds one half: `truth*.jsonl` and, for each run NAME in it, the traces of its ranks as
`NAME/*` or `NAME-rank*`. Prints what everybody says of each run, the scores as a Markdown table,
and how often a rank is named in runs drawn from the steps of controls. `--json` writes all of it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from solscope.lab.rank_score import (
    Recorded,
    RunScore,
    Truth,
    false_alarms,
    methods,
    score_runs,
)
from solscope.lab.score import Rate
from solscope.ranks.analysis import analyze
from solscope.ranks.read import open_run


def read_half(folder: Path) -> list[Recorded]:
    """The runs of a half that are there."""
    lines = next(folder.glob("truth*.jsonl")).read_text().splitlines()
    runs = []
    for line in lines:
        truth = msgspec.json.decode(line, type=Truth)
        files = sorted((folder / truth.name).glob("*")) or sorted(
            folder.glob(f"{truth.name}-rank*")
        )
        if files:
            runs.append(Recorded(truth, analyze(open_run(*files))))
    return runs


def main() -> None:
    """Print the scores of each folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--json", type=Path, help="write answers and scores to this file")
    given = parser.parse_args()
    written = []
    for folder in given.folders:
        runs = read_half(folder)
        scores = score_runs(runs)
        print(f"## {folder.name}: {len(runs)} runs\n")
        for score in scores:
            print(_line(score))
        print("\n| method | right rank | right reason | named in controls | named though none |")
        print("|---|--:|--:|--:|--:|")
        rows = methods(scores)
        for row in rows:
            cells = (row.rank, row.why, row.alarms, row.wrong)
            print(f"| {row.method} | {' | '.join(map(_rate, cells))} |")
        print("\n| control | named when steps are drawn again | with ranks exchanged |")
        print("|---|--:|--:|")
        drawn = [false_alarms(run) for run in runs if run.truth.control and run.analysis.steps.size]
        for alarms in drawn:
            print(f"| {alarms.name} | {_rate(alarms.resampled)} | {_rate(alarms.shuffled)} |")
        print()
        written.append(
            {"half": folder.name, "methods": rows, "false_alarms": drawn, "runs": scores}
        )
    if given.json:
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode(written), indent=1) + b"\n")


def _line(score: RunScore) -> str:
    truth = score.truth
    ratio = "" if score.ratio is None else f" {score.ratio:.2f}x"
    said = ", ".join(f"{name}: {a.rank} {a.why or ''}".strip() for name, a in score.answers.items())
    return f"- {truth.name}{ratio} (truth {truth.culprit} {truth.why}): {said}"


def _rate(rate: Rate) -> str:
    return f"{rate.hits} of {rate.n}" if rate.n else "-"


if __name__ == "__main__":
    main()
