"""Where the commands use colors, and where they draw."""

from __future__ import annotations

import io
import sys
import threading
import time

import pytest

from solscope.cli import run
from solscope.cli.progress import progress_line, running_line
from solscope.cli.screen import can_draw, use_color

DEMO = ["show", "--top", "1", "demo:vllm-b200"]


class Screen(io.TextIOWrapper):
    """Standard output that says it is a terminal."""

    def __init__(self, encoding: str, *, terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding=encoding)
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def written(screen: Screen) -> str:
    screen.flush()
    buffer = screen.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


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
    monkeypatch.setattr("solscope.cli.screen._on_screen", lambda: True)
    assert run(DEMO) == 0
    printed = capsys.readouterr().out
    assert "█" in printed
    assert "\x1b" not in printed


def test_a_pipe_gets_neither(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(DEMO) == 0
    printed = capsys.readouterr().out
    assert not set(printed) & set("▁▂▃▄▅▆▇█▏▎▍▌▋▊▉\x1b")


def test_progress_is_one_line_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen("utf-8", terminal=True)
    monkeypatch.setattr(sys, "stderr", screen)
    with progress_line() as progress:
        progress("1 of 2: a\nb")
    assert written(screen) == "\r\x1b[K1 of 2: a\\x0ab\r\x1b[K"


def test_progress_never_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen("utf-8", terminal=True)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("COLUMNS", "20")
    with progress_line() as progress:
        progress("a long name of a solution on a shape")
    shown = written(screen).split("\x1b[K")[1].rstrip("\r")
    assert (len(shown), "…" in shown) == (19, True)


def test_progress_in_a_log_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Screen("utf-8", terminal=False)
    seconds = iter([0.0, 1.0, 5.0, 5.0, 6.0, 12.0, 12.0])
    monkeypatch.setattr("solscope.cli.progress.time.monotonic", lambda: next(seconds))
    monkeypatch.setattr("solscope.cli.progress.LOG_EVERY_S", 5.0)
    monkeypatch.setattr(sys, "stderr", log)
    with progress_line() as progress:
        for done in range(1, 5):
            progress(f"{done} of 4")
    assert written(log) == "solscope: 5 s: 2 of 4\nsolscope: 12 s: 4 of 4\n"


@pytest.mark.parametrize(
    ("terminal", "said"),
    [
        (True, ["attempt 2 is running for 0 s: starting", "attempt 2 is running for 7 s: shape 0"]),
        (False, ["solscope: 0 s: attempt 2 is running: starting", "solscope: 7 s: attempt 2 is"]),
    ],
)
def test_what_runs_says_for_how_long_even_while_it_hangs(
    terminal: bool, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    screen, now = Screen("utf-8", terminal=terminal), 0.0
    monkeypatch.setattr("solscope.cli.progress.time.monotonic", lambda: now)
    monkeypatch.setattr("solscope.cli.progress.TICK_S", 0.001)
    monkeypatch.setattr("solscope.cli.progress.LOG_EVERY_S", 0.0)
    monkeypatch.setattr(sys, "stderr", screen)
    with running_line("attempt 2") as progress:
        progress("shape 0")
        now = 7.0
        for _ in range(10_000):
            if said[1] in written(screen):
                break
            time.sleep(0.001)
    assert all(text in written(screen) for text in said)
    assert not [one for one in threading.enumerate() if one.name == "running_line"]
