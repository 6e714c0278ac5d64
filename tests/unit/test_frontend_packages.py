"""The front end's packages: the lock file is whole, and a lock file that is not fails the tests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LOCK = json.loads((ROOT / "frontend" / "package-lock.json").read_text("utf-8"))
PACKAGES: dict[str, dict[str, Any]] = LOCK["packages"]


def entry(importer: str, name: str) -> dict[str, Any] | None:
    """The entry that Node finds from a package: in its own folder, or in one above."""
    folder = importer
    while True:
        found = PACKAGES.get(f"{folder}/node_modules/{name}".lstrip("/"))
        if found or not folder:
            return found
        folder = folder.rpartition("node_modules/")[0].rstrip("/")


def named(package: dict[str, Any]) -> set[str]:
    """What a package needs on this or another platform; of peers, those that are not optional."""
    optional_peers = package.get("peerDependenciesMeta", {})
    peers = {
        name
        for name in package.get("peerDependencies", {})
        if not optional_peers.get(name, {}).get("optional")
    }
    kinds = ("dependencies", "devDependencies", "optionalDependencies")
    return peers.union(*(package.get(kind, {}) for kind in kinds))


def test_every_package_that_another_names_is_locked() -> None:
    missing = [
        f"{importer or 'package.json'} names {name}"
        for importer, package in PACKAGES.items()
        for name in sorted(named(package))
        if not (entry(importer, name) or {}).get("version")
    ]
    assert missing == []


def test_every_package_has_a_version_and_a_hash_and_no_address() -> None:
    for name, package in PACKAGES.items():
        if name:
            assert package["version"], name
            assert package["integrity"].startswith("sha512-"), name
            assert "resolved" not in package, name


def test_the_lock_file_is_about_package_json() -> None:
    wanted = json.loads((ROOT / "frontend" / "package.json").read_text("utf-8"))
    for kind in ("dependencies", "devDependencies"):
        assert PACKAGES[""][kind] == wanted[kind]


@pytest.mark.parametrize("system", ["linux-x64", "linux-arm64", "darwin-arm64", "win32-x64"])
@pytest.mark.parametrize("tool", ["@esbuild/", "@oxlint/binding-", "@rollup/rollup-"])
def test_tools_are_locked_for_every_common_system(tool: str, system: str) -> None:
    assert any(name.startswith(f"node_modules/{tool}{system}") for name in PACKAGES)


def run_with(npm: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """`scripts/test-frontend` of a clone without packages, where npm is the given script."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "frontend").mkdir()
    (tmp_path / "bin").mkdir()
    shutil.copy(ROOT / "scripts" / "test-frontend", tmp_path / "scripts")
    shutil.copy(ROOT / "frontend" / "package-lock.json", tmp_path / "frontend")
    program = tmp_path / "bin" / "npm"
    program.write_text(f"#!/bin/sh\n{npm}\n", "utf-8")
    program.chmod(0o755)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [tmp_path / "scripts" / "test-frontend"],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("code", ["EUSAGE", "EINTEGRITY", "EBADPLATFORM"])
def test_a_lock_file_that_does_not_fit_fails(code: str, tmp_path: Path) -> None:
    done = run_with(f'echo "npm error code {code}" >&2; exit 1', tmp_path)
    assert done.returncode == 1
    assert "npm ci failed" in done.stderr
    assert "skipped" not in done.stderr


@pytest.mark.parametrize("code", ["ENOTFOUND", "ECONNREFUSED", "ETIMEDOUT", "E404", "E503"])
def test_packages_out_of_reach_are_skipped(code: str, tmp_path: Path) -> None:
    done = run_with(f'echo "npm error code {code}" >&2; exit 1', tmp_path)
    assert done.returncode == 0
    assert "cannot be reached" in done.stderr


def test_a_failing_check_fails(tmp_path: Path) -> None:
    assert run_with('[ "$1" = ci ]', tmp_path).returncode != 0
