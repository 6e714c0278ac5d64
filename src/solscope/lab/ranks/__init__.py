"""The fault lab with ranks: four processes on slices of one GPU, one of them disturbed.

`plan` says which runs there are and what is true of each, `model` is the program that a rank
serves, `faults` disturbs it, `worker` is one rank, and `record` starts them all. They need torch
and nothing else, so that they run on a machine on which solscope is not installed.
"""
