"""The operators in plain torch, in their native precision."""
