"""The tests.

Polars has one thread in every process of a test run, as in the program for small profiles: most
tests are about small tables, on which more threads take a sixth more CPU time. Results must not
depend on how many there are, so in `make test-long` every other process has one per core.
"""

import os

_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "many"

if not _LONG or (_WORKER.isdecimal() and int(_WORKER) % 2):
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
