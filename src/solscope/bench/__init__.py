"""Is this kernel really better: run solutions against references, time them, score them.

catalog, template   what a solution is, and one to start from
workloads           the shapes to run it on
run/                the evaluator: one run, from the agenda to the lines of a results file
pool/               its workers: processes, shared memory, inputs
worker/             what runs in a worker, beside the solution
results/            results files: scores, comparisons, the leaderboard
verify              whether the suite itself is right
"""

from __future__ import annotations
