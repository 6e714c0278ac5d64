"""Nsight Systems reports (`.nsys-rep`, formerly `.qdrep`), read through NVIDIA's own exporter.

The format is not published and changes between versions, so `nsys export` turns the report into an
SQLite file in a temporary folder, which `nsys_sqlite` reads and which is removed afterwards. Where
`nsys` is not installed, the error gives the command to run where it is.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from solscope.errors import DamagedFileError, MissingToolError
from solscope.profile import Profile
from solscope.readers import nsys_sqlite
from solscope.readers.base import Head, ReadOptions
from solscope.readers.nsys_database import one_line

SUFFIXES = (".nsys-rep", ".qdrep")
EXPORT_TIMEOUT_S = 1800.0

# Reports embed protobuf type names of the tool's internal namespaces (QuadDCommon, QuadDAnalysis).
_MARK = b"QuadD"


class NsysReportReader:
    """Nsight Systems `.nsys-rep` and `.qdrep` reports.

    The format is not published, so `nsys export` converts the report to SQLite in a temporary
    folder, which is removed afterwards.

    **Needs** `nsys` on the PATH. Without it, the error shows the command to run on a machine that
    has it.

    **Fills** and **warnings**: as `nsys_sqlite`.
    """

    name = "nsys_report"
    summary = "Nsight Systems .nsys-rep report, exported with `nsys` when it is installed"

    def sniff(self, head: Head) -> bool:
        """True for binary data that carries the tool's mark or the name of a report."""
        if head.data.startswith(nsys_sqlite.MAGIC) or b"\0" not in head.data:
            return False
        return _MARK in head.data or head.path.suffix in SUFFIXES

    def read(self, path: Path, options: ReadOptions) -> Profile:
        """Export to a temporary folder and read that; the profile keeps the path of the report."""
        import shlex
        import shutil
        import tempfile

        nsys = shutil.which("nsys")
        if nsys is None:
            command = shlex.join(_command("nsys", path, path.with_suffix(".sqlite")))
            raise MissingToolError(
                f"{path}: only NVIDIA's `nsys` can read a report, and it is not on PATH; where it "
                f"is, run `{command}` and open the .sqlite file"
            )
        with tempfile.TemporaryDirectory(prefix="solscope-nsys-") as folder:
            target = Path(folder) / "report.sqlite"
            _export(_command(nsys, path.resolve(), target), path, target)
            profile = nsys_sqlite.READER.read(target, options)
        return replace(profile, path=str(path), format=self.name)


def _command(nsys: str, report: Path, target: Path) -> list[str]:
    options = ["--type", "sqlite", "--force-overwrite", "true"]
    return [nsys, "export", *options, "-o", str(target), str(report)]


def _export(command: list[str], path: Path, target: Path) -> None:
    import subprocess

    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=EXPORT_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DamagedFileError(
            f"{path}: `nsys export` did not finish within {EXPORT_TIMEOUT_S:.0f} s; "
            "export it by hand and open the .sqlite file"
        ) from None
    except OSError as error:
        raise MissingToolError(f"{command[0]} cannot be run ({error.strerror})") from error
    if done.returncode != 0 or not target.is_file():
        lines = (done.stderr.strip() or done.stdout.strip()).decode(errors="replace").splitlines()
        raise DamagedFileError(
            f"{path}: `nsys export` failed with status {done.returncode} "
            f"({one_line(lines[-1]) if lines else 'no message'}); "
            "a newer nsys may be needed than the one that is installed"
        )


READER = NsysReportReader()
