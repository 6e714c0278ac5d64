"""Ask for advisories about what is pinned. Needs the network, and says so in one line without it.

    python scripts/audit.py [--scripts]

Asks PyPI about requirements.lock, or with --scripts npm about the scripts that are built into
reports and the dashboard. Exits with 1 for an advisory, and with 2 where nothing could be asked.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import urllib.request
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
TOOL = "pip-audit==2.10.1"
NPM = "https://registry.npmjs.org/-/npm/v1/security/advisories/bulk"
PATIENCE_S = 20


def main(words: list[str] | None = None) -> int:
    """Ask for one advisory first: the tools take a service that is not there for other things."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scripts", action="store_true", help="scripts in place of packages")
    chosen = parser.parse_args(words)
    try:
        if chosen.scripts:
            ask(urllib.request.Request(NPM, b"{}", {"Content-Type": "application/json"}))
        else:
            ask(urllib.request.Request(first_package()), "vulnerabilities")  # noqa: S310 - https
    except (OSError, ValueError) as error:
        sys.stderr.write(f"audit: nothing was checked: no advisories from {error}\n")
        return 2
    return scripts() if chosen.scripts else packages()


def first_package() -> str:
    """Where PyPI has the advisories about the first pinned package."""
    found = re.search(r"^([\w.-]+)==([^\s;]+)", LOCK.read_text("utf-8"), re.MULTILINE)
    if found is None:
        raise ValueError(f"{LOCK.name}, which pins nothing")
    return f"https://pypi.org/pypi/{found[1]}/{found[2]}/json"


def ask(request: urllib.request.Request, key: str | None = None) -> None:
    """Fail, with the address, where it does not answer with a JSON object that has the key."""
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310 - https
            found = json.load(answer)
    except (OSError, ValueError) as error:
        raise OSError(f"{request.full_url} ({error})") from error
    if not isinstance(found, dict) or (key is not None and key not in found):
        raise OSError(f"{request.full_url} (its answer has none)")


def packages() -> int:
    """Run pip-audit in an environment of its own."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        quiet = ["--quiet", "--disable-pip-version-check"]
        if subprocess.run([python, "-m", "pip", "install", *quiet, TOOL], check=False).returncode:
            sys.stderr.write(f"audit: nothing was checked: {TOOL} cannot be installed\n")
            return 2
        options = ["--require-hashes", "--disable-pip", "--strict"]
        command = [python, "-m", "pip_audit", "--requirement", str(LOCK), *options]
        return subprocess.run(command, check=False).returncode


def scripts() -> int:
    """Run npm's own audit."""
    command = ["npm", "audit", "--omit=dev", "--package-lock-only"]
    return subprocess.run(command, cwd=ROOT / "frontend", check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
