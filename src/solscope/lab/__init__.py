"""The fault lab: a small serving loop, faults injected into it for real, and the recordings.

`loop` serves, `faults/` holds one injector per file, `record` makes pairs of a normal and an
abnormal recording whose cause is known, which is what a diagnosis can be scored against.
"""
