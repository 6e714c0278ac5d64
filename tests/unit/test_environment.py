"""`solscope doctor`: what an installation can do."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from solscope import environment
from solscope.environment import Capability, examine
from solscope.readers import READER_MODULES, kineto_core
from solscope.readers.kineto_core import TraceScanner
from solscope.readers.kineto_scan import PythonScanner


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No tools, and no choice of the core."""
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    monkeypatch.delenv("SOLSCOPE_CORE", raising=False)


def build(monkeypatch: pytest.MonkeyPatch, scanner: type[PythonScanner] | None) -> None:
    """As if the native scanner were `scanner`, or not built."""

    def native() -> type[TraceScanner] | None:
        return scanner

    monkeypatch.setattr(kineto_core, "native_scanner", native)
    monkeypatch.setattr(environment, "native_scanner", native)


def test_native_core_wanted_but_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    build(monkeypatch, None)
    monkeypatch.setenv("SOLSCOPE_CORE", "native")
    found = examine()
    assert found.reader_core == "none"
    assert found.reader_core_why == (
        "SOLSCOPE_CORE=native, but the native scanner was not built; "
        "install a C++ compiler and reinstall solscope"
    )


def test_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    build(monkeypatch, None)
    found = examine()
    assert found.reader_core == "python"
    assert found.reader_core_why == (
        "not built; install a C++ compiler and reinstall solscope to read traces faster"
    )


def test_built(monkeypatch: pytest.MonkeyPatch) -> None:
    build(monkeypatch, PythonScanner)
    found = examine()
    assert (found.reader_core, found.reader_core_why) == ("native", "built")


def test_python_core_chosen_although_native_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    build(monkeypatch, PythonScanner)
    monkeypatch.setenv("SOLSCOPE_CORE", "python")
    found = examine()
    assert (found.reader_core, found.reader_core_why) == ("python", "chosen by SOLSCOPE_CORE")


def test_unknown_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOLSCOPE_CORE", "rust")
    found = examine()
    assert found.reader_core == "none"
    assert found.reader_core_why == "SOLSCOPE_CORE='rust': choose native or python"


def test_every_reader_is_listed() -> None:
    assert [part.name for part in examine().readers] == list(READER_MODULES)


def test_a_missing_package_comes_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(environment, "PACKAGES", ("no-such-package-xyz",))
    assert examine().packages == [
        Capability("no-such-package-xyz", False, "missing; pip install no-such-package-xyz")
    ]


def test_missing_tools_and_no_gpu() -> None:
    found = examine()
    assert found.tools[0] == Capability("nsys", False, "exports .nsys-rep files")
    assert found.gpus == []


def test_gpus_as_the_driver_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(command: list[str], **_options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 0, "H200, 143771 MiB, 570.1\n\n", "")

    monkeypatch.setattr(shutil, "which", {"nvidia-smi": "/bin/nvidia-smi"}.get)
    monkeypatch.setattr(subprocess, "run", answer)
    assert examine().gpus == ["H200, 143771 MiB, 570.1"]


def test_a_tool_that_hangs_means_no_gpu_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(command: list[str], **_options: object) -> None:
        raise subprocess.TimeoutExpired(command, 20)

    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(subprocess, "run", hang)
    assert examine().gpus == []


def test_sensors_are_those_of_capture() -> None:
    sensors = {part.name: part for part in examine().sensors}
    assert not sensors["AMD GPU (amdsmi)"].ok
    assert "not installed" in sensors["AMD GPU (amdsmi)"].detail
    assert sensors["CPU time of the sampler"].ok
