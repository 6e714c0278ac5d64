"""Write a bill of materials: sbom.json, in CycloneDX 1.6, from what is installed. No network.

    python scripts/sbom.py [--out FILE] [--all]

Lists what `pip install 'solscope[all]'` brings into this environment, torch included, and the
scripts of other projects that are built into reports and the dashboard. With --all also the tools
of development.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
LOCKED_SCRIPTS = ROOT / "frontend" / "package-lock.json"


def main() -> int:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("sbom.json"))
    parser.add_argument("--all", action="store_true", help="tools of development as well")
    chosen = parser.parse_args()
    document = bill({"all", "dev"} if chosen.all else {"all"})
    chosen.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    sys.stderr.write(f"{chosen.out}: {len(document['components'])} components\n")
    return 0


def bill(extras: set[str]) -> dict[str, Any]:
    """The document; the same environment always gives the same one."""
    ours = distribution("solscope")
    found, edges = closure(ours, extras)
    scripts = bundled_scripts()
    root = _reference("pypi", "solscope", ours.version)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": "solscope",
                "version": ours.version,
                "purl": root,
                "licenses": _licenses(ours),
            }
        },
        "components": [*(_package(dist) for dist in found), *scripts],
        "dependencies": [
            {"ref": ref, "dependsOn": sorted(needed)} for ref, needed in sorted(edges.items())
        ],
    }


def closure(ours: Distribution, extras: set[str]) -> tuple[list[Distribution], dict[str, set[str]]]:
    """What is installed of what `ours` requires, directly or not, and who requires whom."""
    found: dict[str, Distribution] = {}
    edges: dict[str, set[str]] = {}
    unread: list[tuple[Distribution, frozenset[str]]] = [(ours, frozenset(extras))]
    seen: set[tuple[str, frozenset[str]]] = set()
    while unread:
        dist, wanted = unread.pop()
        name = canonicalize_name(str(dist.metadata["Name"]))
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        needed = edges.setdefault(_reference("pypi", name, dist.version), set())
        for text in dist.requires or []:
            requirement = Requirement(text)
            environments = [{"extra": extra} for extra in wanted] or [{"extra": ""}]
            if requirement.marker and not any(map(requirement.marker.evaluate, environments)):
                continue
            try:
                other = distribution(requirement.name)
            except PackageNotFoundError:
                continue
            key = canonicalize_name(requirement.name)
            if key != "solscope":
                found[key] = other
                needed.add(_reference("pypi", key, other.version))
            unread.append((other, frozenset(requirement.extras)))
    return [found[name] for name in sorted(found)], edges


def bundled_scripts() -> list[dict[str, Any]]:
    """Projects whose code is in the built scripts: what the front end requires at run time."""
    locked = json.loads(LOCKED_SCRIPTS.read_text(encoding="utf-8"))["packages"]
    return [
        {
            "type": "library",
            "bom-ref": _reference("npm", path.rpartition("node_modules/")[2], entry["version"]),
            "name": path.rpartition("node_modules/")[2],
            "version": entry["version"],
            "purl": _reference("npm", path.rpartition("node_modules/")[2], entry["version"]),
            "licenses": [{"license": {"id": entry["license"]}}] if "license" in entry else [],
            "hashes": [],
        }
        for path, entry in sorted(locked.items())
        if path and not entry.get("dev")
    ]


def _package(dist: Distribution) -> dict[str, Any]:
    name = canonicalize_name(str(dist.metadata["Name"]))
    reference = _reference("pypi", name, dist.version)
    return {
        "type": "library",
        "bom-ref": reference,
        "name": name,
        "version": dist.version,
        "purl": reference,
        "licenses": _licenses(dist),
    }


def _licenses(dist: Distribution) -> list[dict[str, Any]]:
    """As the package states it: an SPDX expression, else a short text, else its classifiers."""
    expression = dist.metadata.get("License-Expression")
    if expression:
        return [{"expression": expression}]
    text = dist.metadata.get("License") or ""
    if text and len(text) < 60 and text != "UNKNOWN":
        return [{"license": {"name": text}}]
    classifiers = dist.metadata.get_all("Classifier") or []
    named = [re.sub(r".*:: ", "", text) for text in classifiers if text.startswith("License ::")]
    return [{"license": {"name": name}} for name in named]


def _reference(kind: str, name: str, version: str) -> str:
    return f"pkg:{kind}/{name}@{version.replace('+', '%2B')}"


if __name__ == "__main__":
    sys.exit(main())
