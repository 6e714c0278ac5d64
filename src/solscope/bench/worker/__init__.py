"""The candidate's process: runs a solution and decides nothing.

The evaluator copies this package beside the solutions, under the name `solscope_worker`, and starts
it alone, isolated (`python -I start.py`). So it imports nothing of solscope, and its modules import
each other by relative names: no reference, no comparison and no tolerance is within reach.

Refused and reported, whatever the solution does with the error: importing solscope, opening its
files or the evaluator's process, connecting to other machines, replacing functions or kernels that
this package uses.
"""
