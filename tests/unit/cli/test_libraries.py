from __future__ import annotations

import json
import subprocess
import sys

CHECK = """
import sys
from solscope.cli.libraries import LATE, import_polars
import_polars()
loaded = [name for name in LATE if type(sys.modules[name]).__name__ != "_Late"]

import json, polars
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
import importlib.metadata
with ThreadPoolExecutor(8) as pool:
    texts = set(pool.map(json.dumps, [[1]] * 64))
import subprocess
print(json.dumps({
    "loaded": loaded,
    "texts": sorted(texts),
    "version": version("polars") == importlib.metadata.version("polars") == polars.__version__,
    "real": [type(sys.modules[name]).__name__ for name in LATE if name != "subprocess"],
    "status": subprocess.run([sys.executable, "-c", ""]).returncode,
}))
"""


def test_modules_that_polars_hardly_needs_come_when_they_are_used() -> None:
    done = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {
        "loaded": [],
        "texts": ["[1]"],
        "version": True,
        "real": ["module", "module"],
        "status": 0,
    }


WITHOUT_DOCSTRINGS = """
import json, os, sys
from solscope.cli.libraries import DOCSTRINGS, TYPES, import_numpy
import_numpy()
import numpy as np
print(json.dumps({
    "sum": int(np.add(1, 2)),
    "sorted": np.sort(np.array([3, 1, 2])).tolist(),
    "documented": [name for name in ("add", "array", "dtype") if getattr(np, name).__doc__],
    "left": [name for name in (*DOCSTRINGS, TYPES) if name in sys.modules],
    "norm": float(np.linalg.norm([3, 4])),
    "typed": str(__import__("numpy.typing").typing.NDArray[np.int64]),
}))
"""


def test_numpy_without_docstrings_computes_the_same() -> None:
    line = [sys.executable, "-c", WITHOUT_DOCSTRINGS]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert (found["sum"], found["sorted"], found["left"]) == (3, [1, 2, 3], [])
    assert found["norm"] == 5
    assert "int64" in found["typed"]
    # A version of NumPy that documents its functions elsewhere makes this list useless.
    assert found["documented"] != ["add", "array", "dtype"]
