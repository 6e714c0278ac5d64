"""Where the commands use colors, and where they draw."""

from __future__ import annotations

import io
import sys

import pytest

from solscope.cli import run
from solscope.cli.common import can_draw, use_color

DEMO = ["show", "--top", "1", "demo:vllm-b200"]


class Screen(io.TextIOWrapper):
    """Standard output that says it is a terminal."""

    def __init__(self, encoding: str, *, terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding=encoding)
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


CASES = {
    # name: encoding, terminal, variables, colors, drawing
    "terminal": ("utf-8", True, {}, True, True),
    "pipe": ("utf-8", False, {}, False, False),
    "NO_COLOR": ("utf-8", True, {"NO_COLOR": "1"}, False, True),
    "empty NO_COLOR": ("utf-8", True, {"NO_COLOR": ""}, True, True),
    "dumb terminal": ("utf-8", True, {"TERM": "dumb"}, False, False),
    "ASCII terminal": ("ascii", True, {}, True, False),
    "Latin-1 terminal": ("latin-1", True, {}, True, False),
}


@pytest.mark.parametrize("name", CASES)
def test_colors_and_drawing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    encoding, terminal, variables, colors, draws = CASES[name]
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(sys, "stdout", Screen(encoding, terminal=terminal))
    assert (use_color(), can_draw()) == (colors, draws)


def test_bars_stay_without_colors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("solscope.cli.common._on_screen", lambda: True)
    assert run(DEMO) == 0
    printed = capsys.readouterr().out
    assert "█" in printed
    assert "\x1b" not in printed


def test_a_pipe_gets_neither(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(DEMO) == 0
    printed = capsys.readouterr().out
    assert not set(printed) & set("▁▂▃▄▅▆▇█▏▎▍▌▋▊▉\x1b")
