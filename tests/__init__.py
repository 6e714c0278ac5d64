"""The tests.

Of the processes of a test run every other one gives Polars one thread, as the program does for
small profiles; in the others it has one per core. Most tests are about small tables, on which one
thread takes a tenth less CPU time, and results must not depend on how many there are.
"""

import os

_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")

if _WORKER.isdecimal() and int(_WORKER) % 2:
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
