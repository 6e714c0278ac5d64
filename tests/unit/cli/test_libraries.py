from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from solscope.cli.opening import SMALL_BYTES, _all_small

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


CONNECTORS = """
import sys
from solscope.cli.libraries import CONNECTORS, import_polars
import_polars()
import polars as pl
left_out = [name for name in CONNECTORS if name in sys.modules]
try:
    pl.read_database("select 1", connection=7)
except TypeError as error:
    said = type(error).__name__
import polars.io.database
print(left_out, said, polars.io.database.read_database.__module__)
print(pl.Catalog.__name__, type(pl.Catalog("https://nowhere.invalid")).__module__)
"""


def test_functions_of_polars_for_other_systems_import_what_they_need_when_called() -> None:
    line = [sys.executable, "-W", "ignore", "-c", CONNECTORS]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first == "[] TypeError polars.io.database.functions"
    assert second == "Catalog polars.catalog.unity.client"


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
    "algebra": "numpy.linalg" in sys.modules,
    "norm": float(np.linalg.norm([3, 4])),
    "roots": np.roots([1, -3, 2]).tolist(),
    "typed": str(__import__("numpy.typing").typing.NDArray[np.int64]),
}))
"""


def test_numpy_without_docstrings_computes_the_same() -> None:
    line = [sys.executable, "-c", WITHOUT_DOCSTRINGS]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert (found["sum"], found["sorted"], found["left"]) == (3, [1, 2, 3], [])
    assert (found["algebra"], found["norm"], found["roots"]) == (False, 5, [2, 1])
    assert "int64" in found["typed"]
    # A version of NumPy that documents its functions elsewhere makes this list useless.
    assert found["documented"] != ["add", "array", "dtype"]


THREADS = """
import os
from solscope.cli.libraries import import_polars
import_polars(small=True)
import polars
print(polars.thread_pool_size(), os.environ.get("POLARS_MAX_THREADS"))
"""


@pytest.mark.parametrize(("set_to", "said"), [(None, "1 None"), ("3", "3 3")])
def test_polars_has_one_thread_for_small_profiles_unless_told(
    set_to: str | None, said: str
) -> None:
    own = {name: text for name, text in os.environ.items() if name != "POLARS_MAX_THREADS"}
    env = own if set_to is None else {**own, "POLARS_MAX_THREADS": set_to}
    line = [sys.executable, "-c", THREADS]
    done = subprocess.run(line, capture_output=True, text=True, check=True, env=env)
    assert done.stdout.strip() == said


def test_small_is_what_all_files_of_the_command_line_are(tmp_path: Path) -> None:
    large = tmp_path / "large.json"
    large.touch()
    os.truncate(large, SMALL_BYTES + 1)

    @click.command
    @click.argument("files", nargs=-1)
    @click.option("--extra", type=Path)
    def command(files: tuple[str, ...], extra: Path | None) -> None:
        del extra
        click.echo(_all_small(files[0]))

    def answer(*arguments: str) -> str:
        return CliRunner().invoke(command, arguments).output.strip()

    assert answer("demo:vllm-b200", "--extra", __file__) == "True"
    assert answer(str(large)) == "False"
    assert answer("demo:vllm-b200", str(large)) == "False"
    assert answer("demo:vllm-b200", "--extra", str(large)) == "False"
    assert answer("demo:vllm-b200", str(tmp_path)) == "False"
