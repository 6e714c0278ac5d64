"""Answers about a profile, as frozen values; a view takes an `Attributed` and prints nothing."""
