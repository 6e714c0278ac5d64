"""What was computed once and need not be computed again: profiles and pages of reports, on disk.

A cache never changes a result. An entry is found by everything that it depends on: the content of
the file, its name, the options, and the version of the code (`content.py`, `code.py`). An entry
that is missing, damaged or from other code is a miss. A folder that cannot be used means that
nothing is cached, and `solscope doctor` says so.

`settings.py` says where the cache lies and how large it may grow, `entries.py` reads, writes and
evicts entries, `removal.py` deletes what solscope wrote and nothing else, `tables.py` turns a
dataclass into an entry and back, `background.py` writes while the answer is computed. Nothing here
knows what a profile is.
"""
