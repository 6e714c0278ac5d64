"""Names of the files of a recording, and how they come into being: whole, or not at all."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path

from solscope.errors import MissingToolError, UsageError
from solscope.files import new_file

TRACE, METRICS = ".trace.json.gz", ".metrics.csv"


def partial(path: Path) -> Path:
    """The name under which samples are written; what a killed sampler leaves can be opened."""
    return path.with_name(f"{path.name}.partial")


def check_free(*paths: Path, force: bool, option: str) -> None:
    """Refuse to replace a file; `option` is how whoever called would allow it."""
    for path in paths:
        if path.exists() and not force:
            raise UsageError(f"{path} exists; choose another name or pass {option}")
        if not path.parent.is_dir():
            raise UsageError(f"{path.parent} is not a folder")
        if not os.access(path.parent, os.W_OK):
            raise UsageError(f"{path.parent} is not a folder to write into")


def finish_metrics(written: Path, path: Path) -> None:
    """Give the samples in `written` their name, as Parquet when it asks for that."""
    if path.suffix != ".parquet":
        written.replace(path)
        return
    try:
        import polars
    except ImportError as error:
        raise MissingToolError(
            f"a Parquet file needs polars (pip install polars); the samples are in {written}"
        ) from error
    table = polars.read_csv(written, schema_overrides={"value": polars.Float64})
    with new_file(path) as work:
        table.sort("t_ns").write_parquet(work)
    written.unlink(missing_ok=True)


def finish_trace(raw: Path, path: Path) -> None:
    """Compress a trace into its place and remove the raw one."""
    with (
        new_file(path) as work,
        raw.open("rb") as source,
        gzip.open(work, "wb", compresslevel=5) as compressed,
    ):
        shutil.copyfileobj(source, compressed, 1 << 20)
    raw.unlink()
