"""Completion in a real bash, typed at its prompt."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import solscope

BASH = shutil.which("bash")
DEADLINE_S = 120


def modern_bash() -> bool:
    if BASH is None:
        return False
    found = subprocess.run(
        [BASH, "--norc", "-c", "echo ${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]}"],
        capture_output=True,
        text=True,
        check=True,
    )
    major, minor = map(int, found.stdout.split("."))
    return (major, minor) >= (4, 4)


pytestmark = pytest.mark.skipif(not modern_bash(), reason="needs bash 4.4 or later")


class Prompt:
    """An interactive bash in a terminal, in which `solscope ARGS` prints `<ARGS>`."""

    def __init__(self, folder: Path) -> None:
        program = folder / "solscope"
        source = Path(solscope.__file__).parents[1]
        program.write_text(
            f'#!/bin/sh\nPYTHONPATH="{source}" exec "{sys.executable}" -m solscope "$@"\n'
        )
        program.chmod(0o755)
        environment = {"PATH": f"{folder}:{os.environ['PATH']}", "TERM": "dumb", "PS1": ""}
        self._end, theirs = pty.openpty()
        assert BASH is not None
        self.shell = subprocess.Popen(
            [BASH, "--norc", "--noprofile", "-i"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
        os.close(theirs)
        self.typed('bind "set bell-style none"; eval "$(_SOLSCOPE_COMPLETE=bash_source solscope)"')
        self.typed("solscope() { printf '<%s>' \"$@\"; }")

    def typed(self, keys: str) -> str:
        """Type keys and return, and wait until the command has ended; returns what it printed."""
        mark = f"{time.monotonic_ns()}"
        os.write(self._end, f"{keys}\n".encode())
        os.write(self._end, f"echo end''-{mark}\n".encode())
        seen, limit = "", time.monotonic() + DEADLINE_S
        while f"end-{mark}" not in seen:
            ready, _, _ = select.select([self._end], [], [], max(0.0, limit - time.monotonic()))
            assert ready, f"bash did not answer: {seen!r}"
            seen += os.read(self._end, 65536).decode(errors="replace")
        return seen

    def completed(self, keys: str) -> list[str]:
        """The words that solscope gets after typing `keys`."""
        return re.findall(r"<([^<>\n]*)>", self.typed(keys))

    def close(self) -> None:
        os.write(self._end, b"exit\n")
        self.shell.wait(30)
        os.close(self._end)


@pytest.fixture(scope="module")
def prompt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prompt]:
    shell = Prompt(tmp_path_factory.mktemp("bin"))
    yield shell
    shell.close()


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("solscope show demo:vllm-b\t", ["show", "demo:vllm-b200"]),
        ("solscope show demo:vllm-m\t--json", ["show", "demo:vllm-mi300x-graph", "--json"]),
        ("solscope show de\tran\t", ["show", "demo:ranks"]),
        (
            "solscope layers demo:qwen-h100 demo:qwen-m\t",
            ["layers", "demo:qwen-h100", "demo:qwen-mi300x"],
        ),
        ("solscope bench score demo:\t", ["bench", "score", "demo:bench-h200"]),
        ("solscope bench score d\t", ["bench", "score", "demo:bench-h200"]),
        ("solscope diag\tdemo:h200-n\tdemo:h200-s\t",
         ["diagnose", "demo:h200-normal", "demo:h200-slow"]),
    ],
)  # fmt: skip
def test_words_with_a_colon_are_completed(prompt: Prompt, keys: str, words: list[str]) -> None:
    assert prompt.completed(keys) == words


def test_without_the_colon_among_word_breaks(prompt: Prompt) -> None:
    prompt.typed("saved=$COMP_WORDBREAKS; COMP_WORDBREAKS=${COMP_WORDBREAKS//:/}")
    assert prompt.completed("solscope show demo:vllm-b\t") == ["show", "demo:vllm-b200"]
    prompt.typed("COMP_WORDBREAKS=$saved")


def test_options_and_names_still_complete(prompt: Prompt) -> None:
    assert prompt.completed("solscope hotspots --hardw\tMI300\t") == [
        "hotspots",
        "--hardware",
        "MI300X",
    ]
