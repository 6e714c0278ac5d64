"""Ranks of a run: collectives matched, clocks aligned, waiting and stragglers."""
