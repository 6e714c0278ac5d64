"""Build the sdist and both wheels, install each in an empty environment, and use them there.

    python scripts/check_dist.py            # a few minutes
    python scripts/check_dist.py --keep DIR # keep what was built

The wheel with the native scanner needs a compiler and is for one platform; the other one is for
every platform. In each environment, which has nothing but the package and what it requires, every
command of the README runs, and then tests of the sdist run against the installed package.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NO_NATIVE = "SOLSCOPE_NO_NATIVE_BUILD"
NATIVE_MODULES = 3
"""Of `setup.py`."""
TOOLS = ("build==1.6.1", "twine==7.0.0")
TEST_TOOLS = ("pytest", "hypothesis")
TESTS = ("tests/conformance", "tests/unit/readers")
"""Tests that need no optional dependency and exercise what installing can break."""
IN_WHEEL = ("solscope/py.typed", "solscope/demo/vllm-b200.json.gz", "solscope/demo/ranks/")
IN_SDIST = ("tests/data/", "docs/architecture.md", "constraints.txt", "Makefile", "NOTICE")
MOST_WHEEL_BYTES = 6_000_000
ANSWERS = (0, 1)
"""Exit codes of a command that worked; 1 is `this got slower`."""


def main() -> None:
    """Build, check and try; exits with a message when anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="folder for what was built")
    keep: Path | None = parser.parse_args().keep
    with tempfile.TemporaryDirectory(prefix="solscope-dist-") as folder:
        work = Path(folder)
        tools = environment(work / "tools", *TOOLS)
        sdist, native, pure = build(tools, work)
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            for file in (sdist, native, pure):
                shutil.copy2(file, keep)
        run(tools, "-m", "twine", "check", "--strict", sdist, native, pure)
        source = unpack(sdist, work / "source")
        for wheel in (pure, native):
            check_contents(wheel)
            try_wheel(wheel, source, work / wheel.stem)
        python = environment(work / "from-source", str(sdist))
        call(python.with_name("solscope"), "show", "demo:ranks")
        say(f"{sdist.name}: installs without a compiler")
    say("all good")


def build(tools: Path, work: Path) -> tuple[Path, Path, Path]:
    """The sdist, and from it the wheel with the native scanner and the one without."""
    out = work / "dist"
    run(tools, "-m", "build", "--outdir", out, ROOT)
    (sdist,) = out.glob("*.tar.gz")
    (native,) = out.glob("*.whl")
    if native.name.endswith("-none-any.whl"):
        fail(f"{native.name} has no native scanner: is there a C++ compiler?")
    source = unpack(sdist, work / "for-pure")
    run(tools, "-m", "build", "--wheel", "--outdir", out, source, env={NO_NATIVE: "1"})
    (pure,) = out.glob("*-none-any.whl")
    for file in (sdist, native, pure):
        say(f"{file.name}: {file.stat().st_size / 1e6:.2f} MB")
    return sdist, native, pure


def unpack(sdist: Path, target: Path) -> Path:
    """The folder in an sdist, after checking that it has what its tests need."""
    with tarfile.open(sdist) as archive:
        if hasattr(tarfile, "data_filter"):
            archive.extractall(target, filter="data")
        else:  # Python before 3.11.4.
            archive.extractall(target)  # noqa: S202 - our own archive
    (source,) = target.iterdir()
    lacking = [name for name in IN_SDIST if not (source / name).exists()]
    if lacking:
        fail(f"{sdist.name} lacks {', '.join(lacking)}")
    return source


def check_contents(wheel: Path) -> None:
    """Data files are there, tests are not, and the wheel is small."""
    names = zipfile.ZipFile(wheel).namelist()
    lacking = [want for want in IN_WHEEL if not any(name.startswith(want) for name in names)]
    foreign = [name for name in names if not re.match(r"solscope(-[\w.]+\.dist-info)?/", name)]
    compiled = [name for name in names if name.endswith(".so")]
    if lacking or foreign:
        fail(f"{wheel.name} lacks {lacking} and should not have {foreign}")
    if len(compiled) != (0 if wheel.name.endswith("-none-any.whl") else NATIVE_MODULES):
        fail(f"{wheel.name}: native modules {compiled}")
    if wheel.stat().st_size > MOST_WHEEL_BYTES:
        fail(f"{wheel.name} has {wheel.stat().st_size:,} bytes, more than {MOST_WHEEL_BYTES:,}")


def try_wheel(wheel: Path, source: Path, work: Path) -> None:
    """Install a wheel in an empty environment without a compiler, and use it."""
    python = environment(work / "env", str(wheel))
    program = python.with_name("solscope")
    started = time.monotonic()
    folder = work / "readme"
    call(program, "demo", "copy", folder)
    prepare(folder)
    commands = readme_commands()
    for command in commands:
        call(program, *command, folder=folder)
    say(f"{wheel.name}: {len(commands)} README commands, {time.monotonic() - started:.0f} s")
    install(python, *TEST_TOOLS)
    tests = work / "tests"
    shutil.copytree(source, tests)
    # What is tested is what was installed.
    shutil.rmtree(tests / "src")
    started = time.monotonic()
    run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS, folder=tests)
    say(f"{wheel.name}: {' and '.join(TESTS)} pass, {time.monotonic() - started:.0f} s")


def readme_commands() -> list[list[str]]:
    """Every `solscope ...` in the shell and output blocks of the README, as arguments."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:sh|text)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    found = [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("solscope ")]
    # `serve` goes on until it is stopped, and needs an extra.
    return [words for words in found if words[0] != "serve"]


def prepare(folder: Path) -> None:
    """Files under the names that the README uses, from the copied demos."""
    copies = {
        "trace.json.gz": "vllm-b200.json.gz",
        "normal.trace.json.gz": "h200-normal.trace.json.zst",
        "normal.metrics.csv": "h200-normal.metrics.csv",
        "cpu_contention.trace.json.gz": "h200-slow.trace.json.zst",
        "cpu_contention.metrics.csv": "h200-slow.metrics.csv",
    }
    for name, source in copies.items():
        shutil.copy2(folder / source, folder / name)
    (folder / "ranks").rename(folder / "profiles")


def environment(folder: Path, *packages: str) -> Path:
    """A new virtual environment with these packages; its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    install(python, *packages)
    return python


def install(python: Path, *packages: str) -> None:
    """Install with the pinned versions, and no compiler: wheels must do."""
    constraints = ROOT / "constraints.txt"
    run(
        python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
        "--constraint", constraints, *packages, env={"CC": "false", "CXX": "false"},
    )  # fmt: skip


def call(program: Path, *arguments: object, folder: Path = ROOT) -> None:
    """Run solscope; its answer is not looked at, its exit code is."""
    words = [str(program), *map(str, arguments)]
    done = subprocess.run(words, cwd=folder, env=clean(), capture_output=True, text=True)
    if done.returncode not in ANSWERS or not done.stdout:
        fail(f"{shlex.join(words)} exits with {done.returncode}: {done.stderr}{done.stdout[-500:]}")


def run(
    python: Path, *arguments: object, folder: Path = ROOT, env: dict[str, str] | None = None
) -> None:
    """Run a module in an environment; ends the check when it fails."""
    words = [str(python), *map(str, arguments)]
    done = subprocess.run(
        words, cwd=folder, env=clean() | (env or {}), capture_output=True, text=True
    )
    if done.returncode:
        fail(f"{shlex.join(words)} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


def clean() -> dict[str, str]:
    """The environment, without what would let another solscope be imported."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def say(text: str) -> None:
    """Print one line."""
    print(f"check_dist: {text}", flush=True)


def fail(text: str) -> None:
    """End with a message."""
    sys.exit(f"check_dist: {text}")


if __name__ == "__main__":
    main()
