"""Checking a store against what was written to it, and removing duplicated rows."""
