"""Tables fit the terminal, keep what they are for, and say which columns have no room."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from solscope.cli import run
from solscope.report.layout.tables import Column, table, to_text
from tests.sampling import some

WIDTHS = (
    *(60, 80),
    pytest.param(100, marks=pytest.mark.long),
    pytest.param(120, marks=pytest.mark.long),
)
H100, MI300, NORMAL, SLOW = (
    f"demo:{name}" for name in ("qwen-h100", "qwen-mi300x", "h200-normal", "h200-slow")
)
COMMANDS: dict[str, tuple[list[str], list[str]]] = {
    "show": (["show", NORMAL], ["phase", "mean ms", "p50 ms", "requests", "tokens", "tokens/s"]),
    "show-two": (["show", H100, MI300], []),
    "show-ranks": (["show", "demo:ranks"], ["rank", "busy", "exposed"]),
    "kernels": (["kernels", "--top", "5", "demo:vllm-b200"], ["share", "calls", "kernel"]),
    "layers": (["layers", H100], ["group", "role", "kernels"]),
    "layers-two": (["layers", H100, MI300], ["diff µs", "ratio"]),
    "operators": (["operators", "--top", "5", H100], ["S", "limit", "operator"]),
    "hotspots": (["hotspots", "--top", "5", NORMAL], ["saves µs"]),
    "compare": (["compare", "--top", "3", H100, MI300], ["diff", "ratio"]),
    "compare_kernels": (["compare", "--kernels", H100, MI300], ["diff ms", "what", "kernel"]),
    "diagnose": (["diagnose", NORMAL, SLOW], []),
    "suite-list": (["suite", "list"], ["operator", "importance"]),
    "suite-roofline": (["suite", "roofline"], ["operator", "regime", "production µs"]),
    "suite-shapes": (["suite", "shapes", "rms_norm"], ["S", "shape"]),
    "bench-score": (["bench", "score", "demo:bench-h200"], ["operator"]),
    "leaderboard": (["bench", "leaderboard", "demo:bench-h200"], ["operator"]),
    "hardware": (["hardware", "list"], ["name"]),
}
"""Commands, and the columns that must be there from 80 columns on."""
PRINTED: dict[tuple[int, tuple[str, ...]], list[str]] = {}


def printed(
    words: list[str],
    width: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> list[str]:
    """What a command prints; the same once more is not run again."""
    key = (width, tuple(words))
    if key not in PRINTED:
        monkeypatch.setenv("COLUMNS", str(width))
        assert run(words) in (0, 1)
        PRINTED[key] = capsys.readouterr().out.splitlines()
    return PRINTED[key]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", some(COMMANDS, 2))
def test_tables_fit_and_keep_what_they_are_for(
    name: str, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words, needed = COMMANDS[name]
    lines = printed(words, width, monkeypatch, capsys)
    assert max(map(cell_len, lines)) <= width
    if width >= 80:
        heads = [re.split(r"  +", line.strip()) for line in lines]
        assert any(set(needed) <= set(head) for head in heads)


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_wide_terminal_shows_is_shown_or_named(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words, needed = COMMANDS[name]
    text = " ".join(" ".join(printed(words, 60, monkeypatch, capsys)).split())
    assert all(heading in text for heading in needed)


COLUMNS = [
    Column("name", text=True),
    Column("time"),
    Column("ratio", spare=1),
    Column("calls", spare=2),
]
ROWS = [("a_kernel_with_a_rather_long_name_of_50_letters_inside", "1,234.56", "1.23", "1,000")]


def test_the_least_important_column_leaves_first_and_is_named() -> None:
    hidden = {width: table(COLUMNS, ROWS, width).hidden for width in (60, 48, 24)}
    assert hidden == {60: [], 48: ["calls"], 24: ["ratio", "calls"]}
    text = to_text([table(COLUMNS, ROWS, 48)], 48, color=False)
    assert text.splitlines()[-1] == "columns left out at 48: calls"
    assert "left out" not in to_text([table(COLUMNS, ROWS, 60)], 60, color=False)


def test_a_spare_column_that_gives_way_leaves_before_it_is_too_short() -> None:
    columns = [
        Column("role", text=True),
        Column("ratio"),
        Column("k", text=True, gives=True, spare=1),
    ]
    rows = [("attention", "0.95", "kernel_" * 9)]
    assert table(columns, rows, 60).hidden == []
    assert table(columns, rows, 30).hidden == ["k"]


def test_labels_of_profiles_are_shortened_before_names_and_shares_leave_together() -> None:
    share = Column("%", spare=1)
    columns = [
        Column("what", text=True),
        Column("a_profile_with_a_long_name", label=True),
        share,
        Column("another_of_such_a_length", label=True),
        share,
    ]
    rows = [("step time, start to start", "34.892", "60.0 %", "33.131", "61.0 %")]
    found = table(columns, rows, 60)
    assert found.hidden == ["%", "%"]
    heads, cells = found.lines(60, color=False)
    assert "step time, start to start" in cells
    assert heads.count("…") == 2


def test_labels_stay_apart_when_they_are_shortened() -> None:
    names = ("recording_1_of_a_long_name_as_usual", "recording_2_of_a_long_name_as_usual")
    columns = [Column("what", text=True), *(Column(name, label=True) for name in names)]
    rows = [("step time, start to start", "34.892", "33.131")]
    heads, _ = table(columns, rows, 40).lines(40, color=False)
    first, second = heads.split()[1:]
    assert first != second


REAL = Path(__file__).parents[4] / "shared" / "data"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "words",
    some(
        [
            ["show", "traces/mi300_sglang_qwen3-8b_decode.json.gz"],
            ["show", "nsys/h100_2gpu_1s.sqlite"],
            ["layers", "h200/graph/normal.trace.json.gz", "h200/graph/no_cuda_graph.trace.json.gz"],
            ["hotspots", "traces/a100_hta_tracediff_control.json.gz"],
        ],
        2,
    ),
)
def test_real_files_fit(
    words: list[str],
    width: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = [REAL / name for name in words[1:]]
    if not all(file.exists() for file in files):
        pytest.skip("the profiles are not here")
    lines = printed([words[0], *map(str, files)], width, monkeypatch, capsys)
    assert max(map(cell_len, lines)) <= width
