"""What changed between a normal and an abnormal run, and why.

A diagnosis passes through its stages once, from top to bottom, and no stage calls one above it
(`pyproject.toml` holds the contract):

observe/     a profile becomes `Observations`: all that a diagnosis needs, small enough to keep
matching/    both runs cut into the same unit of work, matched, edges dropped, noise measured
changes/     the difference of step times, split into components that add up to it; sensors tested
findings/    what both runs show, as numbers that a check can ask for
evidence/    checks: one question each, answered yes, no or not recorded
causes/      one file per cause: required, supporting and forbidden evidence
verdict/     causes ranked, the verdict, hidden changes, the sentence
diagnosis    the stages in order, and the result
baseline     one run against many: the noise between runs learned from them
single       one recording alone: its slow part against the rest of it, through the same stages

Below all stages: `thresholds` (every limit), `labels` (names of GPU states), `statistics/`. Beside
them: `classic/` (the older report by shares and scores) and `slow_rank` (runs of many ranks).
"""
