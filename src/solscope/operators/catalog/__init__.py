"""The operators, one file each: axes, cost, and, where it can be run, its task."""
