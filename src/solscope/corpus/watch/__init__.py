"""Limits on the profiles of a store: which the latest of each model, GPU and workload keep."""
