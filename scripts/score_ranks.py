"""Score `ranks` and `diagnose` on runs that `solscope.lab.ranks.record` made.

    python scripts/score_ranks.py FOLDER...

A folder holds one half: `truth*.jsonl` and, for each run NAME in it, the traces of its ranks as
`NAME/*` or `NAME-rank*`. Prints what everybody says of each run, the scores as a Markdown table,
and how often a rank is named in runs drawn from the steps of controls.
"""

from __future__ import annotations

import sys
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


def main(folders: list[str]) -> None:
    """Print the scores of each folder."""
    for folder in folders:
        runs = read_half(Path(folder))
        scores = score_runs(runs)
        print(f"## {Path(folder).name}: {len(runs)} runs\n")
        for score in scores:
            print(_line(score))
        print("\n| method | right rank | right reason | named in controls | named though none |")
        print("|---|--:|--:|--:|--:|")
        for row in methods(scores):
            cells = (row.rank, row.why, row.alarms, row.wrong)
            print(f"| {row.method} | {' | '.join(map(_rate, cells))} |")
        print("\n| control | named when steps are drawn again | with ranks exchanged |")
        print("|---|--:|--:|")
        for run in runs:
            if run.truth.control and run.analysis.steps.size:
                alarms = false_alarms(run)
                print(f"| {alarms.name} | {_rate(alarms.resampled)} | {_rate(alarms.shuffled)} |")
        print()


def _line(score: RunScore) -> str:
    truth = score.truth
    ratio = "" if score.ratio is None else f" {score.ratio:.2f}x"
    said = ", ".join(f"{name}: {a.rank} {a.why or ''}".strip() for name, a in score.answers.items())
    return f"- {truth.name}{ratio} (truth {truth.culprit} {truth.why}): {said}"


def _rate(rate: Rate) -> str:
    return f"{rate.hits} of {rate.n}" if rate.n else "-"


if __name__ == "__main__":
    main(sys.argv[1:])
