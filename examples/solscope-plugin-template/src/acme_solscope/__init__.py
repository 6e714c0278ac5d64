"""ACME profiles, kernels and causes for solscope."""
