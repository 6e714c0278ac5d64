"""What solscope consists of: pinned with hashes, attributed, and listed."""

from __future__ import annotations

import importlib.util
import io
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def load(script: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(script, ROOT / "scripts" / f"{script}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def required() -> list[Requirement]:
    extras = PROJECT["optional-dependencies"].values()
    texts = [*PROJECT["dependencies"], *(text for extra in extras for text in extra)]
    return [wanted for wanted in map(Requirement, texts) if wanted.name != "solscope"]


def pinned(lines: list[str]) -> dict[str, str]:
    pins = [Requirement(line) for line in lines]
    return {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in pins}


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    return pinned([line for line in lines if line and not line.startswith("#")])


def locked() -> dict[str, list[str]]:
    """Hashes by `name==version`."""
    text = (ROOT / "requirements.lock").read_text("utf-8").replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            requirement, *hashes = line.split(" --hash=sha256:")
            found[requirement.strip()] = [digest.strip() for digest in hashes]
    return found


def test_what_is_required_is_pinned() -> None:
    names = {canonicalize_name(wanted.name) for wanted in required()}
    assert names - constraints().keys() - {"tomli"} == set()


def test_every_pin_has_hashes_in_the_lock() -> None:
    assert (
        pinned(list(locked())).items()
        >= {k: v for k, v in constraints().items() if k != "torch"}.items()
    )
    assert "torch" not in pinned(list(locked()))
    for requirement, hashes in locked().items():
        assert hashes, requirement
        assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in hashes), requirement


@pytest.mark.parametrize("name", ["deltalake", "polars", "starlette", "uvicorn"])
def test_what_can_corrupt_or_is_subclassed_has_an_upper_bound(name: str) -> None:
    bounds = [str(r.specifier) for r in required() if r.name == name and r.specifier]
    assert bounds
    assert all("<" in bound for bound in bounds)


def bundled() -> dict[str, dict[str, Any]]:
    packages = json.loads((ROOT / "frontend" / "package-lock.json").read_text("utf-8"))["packages"]
    return {
        path.rpartition("node_modules/")[2]: entry
        for path, entry in packages.items()
        if path and not entry.get("dev")
    }


def attributed() -> dict[str, tuple[str, str]]:
    """License and copyright by package, as NOTICE has them."""
    notice = (ROOT / "NOTICE").read_text("utf-8").partition("Bundled scripts")[2]
    found = re.findall(r"^.+ \((\S+)\): (\S+)\. (Copyright .+)\.$", notice, re.MULTILINE)
    return {name: (terms, holder) for name, terms, holder in found}


def test_bundled_scripts_are_attributed_and_no_others() -> None:
    assert bundled()
    assert {name: terms for name, (terms, _) in attributed().items()} == {
        name: entry["license"] for name, entry in bundled().items()
    }


def test_attributions_are_those_of_the_licenses() -> None:
    packages = ROOT / "frontend" / "node_modules"
    if not packages.is_dir():
        pytest.skip("needs `npm ci` in frontend")
    for name, (_, holder) in attributed().items():
        assert holder in (packages / name / "LICENSE").read_text("utf-8").splitlines()


def test_the_bill_of_materials_lists_what_is_inside() -> None:
    sbom = load("sbom")
    made = sbom.bill({"all"})
    assert made == sbom.bill({"all"})
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    names = [component["name"] for component in made["components"]]
    assert len(names) == len(set(names))
    assert {"polars", "msgspec", "click", "uvicorn", "deltalake", *bundled()} <= set(names)
    assert "pytest" not in names
    references = {component["bom-ref"] for component in made["components"]}
    for entry in made["dependencies"]:
        assert set(entry["dependsOn"]) <= references
    for component in made["components"]:
        assert component["purl"].startswith(("pkg:pypi/", "pkg:npm/"))
        assert component["licenses"], component["name"]


def test_advisories_are_checked() -> None:
    workflow = yaml.safe_load(
        (ROOT / ".github" / "workflows" / "advisories.yml").read_text("utf-8")
    )
    steps = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    assert {"make audit", "make audit-scripts"} <= set(steps)
    assert "schedule" in workflow[True]  # YAML reads `on` as a truth value.


@pytest.mark.parametrize("words", [[], ["--scripts"]])
def test_without_a_network_one_line_says_that_nothing_was_checked(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    audit = load("audit")

    def refused(*_: object, **__: object) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(audit.urllib.request, "urlopen", refused)
    assert audit.main(words) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("audit: nothing was checked: no advisories from https://")
    assert line.endswith("(no route to host)")


def test_an_answer_without_advisories_is_none(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Mirrors answer for packages and know no advisories."""
    audit = load("audit")
    name, version = next(iter(locked())).partition(";")[0].strip().split("==")
    asked = []

    def mirror(request: Any, **_: object) -> io.BytesIO:
        asked.append(request.full_url)
        return io.BytesIO(b'{"info": {}}')

    monkeypatch.setattr(audit.urllib.request, "urlopen", mirror)
    assert audit.main([]) == 2
    assert asked == [f"https://pypi.org/pypi/{name}/{version}/json"]
    assert "nothing was checked" in capfd.readouterr().err


def test_the_lock_itself_is_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line with its hashes, by a tool that resolves nothing anew; its verdict is ours."""
    audit = load("audit")
    ran: list[list[str]] = []

    class Ended:
        def __init__(self, command: list[str], **_: object) -> None:
            ran.append([str(word) for word in command])
            self.returncode = 1 if "pip_audit" in command else 0

    monkeypatch.setattr(
        audit.urllib.request, "urlopen", lambda *_, **__: io.BytesIO(b'{"vulnerabilities": []}')
    )
    monkeypatch.setattr(audit.venv, "create", lambda *_, **__: None)
    monkeypatch.setattr(audit.subprocess, "run", Ended)
    assert audit.main([]) == 1
    install, check = ran
    assert install[-1].startswith("pip-audit==")
    assert check[check.index("--requirement") + 1] == str(ROOT / "requirements.lock")
    assert {"--require-hashes", "--disable-pip", "--strict"} <= set(check)
