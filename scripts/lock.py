"""Write requirements.lock: every package of `.[dev]` and of the docs, with the hashes of its files.

    python scripts/lock.py --index URL [--python 3.11]

Versions are those of constraints.txt and, for what they require in turn, those of this environment.
URL is a simple index that states sha256 of its files. Hashes are of the wheels for Linux (x86_64
and aarch64) and macOS (arm64) and of the sdist; the script fails where a platform has neither.
torch is left out: its CPU build comes from an index of the user's choice, with other hashes.
"""

from __future__ import annotations

import argparse
import re
import sys
import urllib.request
from html import unescape
from importlib.metadata import distributions
from pathlib import Path
from urllib.parse import unquote

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
CONSTRAINTS = ROOT / "constraints.txt"
LEFT_OUT = frozenset({"torch", "pip", "solscope"})
PLATFORMS = {
    "linux x86_64": re.compile(r"(?:manylinux|linux)\w*_x86_64"),
    "linux aarch64": re.compile(r"(?:manylinux|linux)\w*_aarch64"),
    "macos arm64": re.compile(r"macosx_\w*(?:arm64|universal2)"),
}
_LINK = re.compile(r'<a[^>]*href="([^"#]+)#sha256=([0-9a-f]{64})"', re.IGNORECASE)
HEAD = """\
# Written by scripts/lock.py: versions and hashes of everything that development needs, but torch.
# pip install --require-hashes --requirement requirements.lock      (or: make locked)
# torch is not here. Its CPU build comes from an index of your choice, whose files have other
# hashes than those of the build with CUDA; `make locked` installs it by constraints.txt.
"""


def main() -> int:
    """Write the file; 1 when a platform lacks a package."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--index", required=True, metavar="URL")
    parser.add_argument("--python", nargs="*", default=["3.11", "3.12", "3.13"])
    chosen = parser.parse_args()
    tags = {f"cp{version.replace('.', '')}" for version in chosen.python}
    parts, missing = [], []
    for name, (version, marker) in sorted(pins().items()):
        hashes, lacking = files_of(chosen.index, name, version, tags)
        missing += [f"{name} {version}: nothing for {platform}" for platform in lacking]
        lines = [f"{name}=={version}{marker}", *(f"--hash=sha256:{digest}" for digest in hashes)]
        parts.append(" \\\n    ".join(lines) + "\n")
        sys.stdout.write(f"{name} {version}: {len(hashes)} files\n")
    LOCK.write_text(HEAD + "".join(parts), encoding="utf-8")
    sys.stderr.writelines(f"{line}\n" for line in missing)
    return 1 if missing else 0


def pins() -> dict[str, tuple[str, str]]:
    """Version and marker by name: constraints first, then whatever else is installed."""
    found: dict[str, tuple[str, str]] = {
        canonicalize_name(str(dist.metadata["Name"])): (dist.version, "")
        for dist in distributions()
    }
    for line in CONSTRAINTS.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            wanted = Requirement(line)
            (pin,) = wanted.specifier
            marker = f" ; {wanted.marker}" if wanted.marker else ""
            found[canonicalize_name(wanted.name)] = (pin.version, marker)
    return {name: pin for name, pin in found.items() if name not in LEFT_OUT}


def files_of(index: str, name: str, version: str, tags: set[str]) -> tuple[list[str], list[str]]:
    """Hashes of the files that a platform may use, and platforms for which there is none."""
    address = f"{index.rstrip('/')}/{name}/"
    with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310 - the user's index
        page = answer.read().decode()
    hashes: set[str] = set()
    served: set[str] = set()
    for link, digest in _LINK.findall(page):
        file = unquote(unescape(link)).rpartition("/")[2]
        platforms = _platforms(file, name, version, tags)
        if platforms:
            hashes.add(digest)
            served |= platforms
    return sorted(hashes), sorted(PLATFORMS.keys() - served)


def _platforms(file: str, name: str, version: str, tags: set[str]) -> set[str]:
    """Which platforms can use a file of this version."""
    try:
        if file.endswith(".whl"):
            found, release, _, wheel_tags = parse_wheel_filename(file)
        else:
            found, release = parse_sdist_filename(file)
            wheel_tags = frozenset()
    except ValueError:
        return set()
    if (found, str(release)) != (name, version):
        return set()
    if not file.endswith(".whl"):
        return set(PLATFORMS)
    used: set[str] = set()
    for tag in wheel_tags:
        if tag.interpreter in tags or tag.abi in ("abi3", "none"):
            if tag.platform == "any":
                used |= set(PLATFORMS)
            used |= {name for name, fits in PLATFORMS.items() if fits.fullmatch(tag.platform)}
    return used


if __name__ == "__main__":
    sys.exit(main())
